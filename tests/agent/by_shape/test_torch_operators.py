"""FLOPs by shapes against analytic counts and of torch 1.8 to 2.13."""

from __future__ import annotations

import math
from typing import Any

import pytest
from roofline.answers.precisions import KNOWN
from roofline_agent.by_shape.torch_arguments import Arguments
from roofline_agent.by_shape.torch_operators import FORMULAS, why_unknown, work_of
from roofline_agent.by_shape.work import MASK_UNKNOWN, OperatorWork


def work(
    name: str, shapes: list[Any], values: dict[int, str] | None = None, kind: str = "float"
) -> OperatorWork:
    found = work_if_known(name, shapes, values, kind)
    assert found is not None
    return found


def work_if_known(
    name: str, shapes: list[Any], values: dict[int, str] | None = None, kind: str = "float"
) -> OperatorWork | None:
    length = max([len(shapes), *(at + 1 for at in values or {})])
    given = [shapes[at] if at < len(shapes) else [] for at in range(length)]
    texts = [(values or {}).get(at, "") for at in range(length)]
    return work_of(name, Arguments(given, [kind] * length, texts))


@pytest.mark.parametrize(
    ("name", "shapes", "flops", "elements"),
    [
        ("aten::mm", [[64, 16], [16, 48]], 2 * 64 * 16 * 48, 64 * 16 + 16 * 48 + 64 * 48),
        ("aten::addmm", [[48], [32, 16], [16, 48]], 2 * 32 * 16 * 48, 48 + 32 * 16 + 16 * 48 + 32 * 48),
        ("aten::bmm", [[5, 4, 3], [5, 3, 2]], 2 * 5 * 4 * 3 * 2, 5 * (4 * 3 + 3 * 2 + 4 * 2)),
        ("aten::baddbmm", [[5, 4, 2], [5, 4, 3], [5, 3, 2]], 240, 130 + 40),
        ("aten::addmm_", [[4, 2], [4, 3], [3, 2]], 48, 8 + 12 + 6 + 8),
        ("aten::baddbmm_", [[5, 4, 2], [5, 4, 3], [5, 3, 2]], 240, 130 + 40),
        ("aten::addbmm", [[4, 2], [5, 4, 3], [5, 3, 2]], 240, 8 + 60 + 30 + 8),
        ("aten::_grouped_mm", [[9, 4], [3, 4, 5], [3]], 2 * 9 * 4 * 5, 36 + 60 + 45),
        ("aten::_grouped_mm", [[3, 9, 4], [4, 5], [3]], 2 * 9 * 4 * 5, 108 + 20 + 45),
        ("aten::_grouped_mm", [[9, 4], [4, 5], [3]], 2 * 9 * 4 * 5, 36 + 20 + 3 * 45),
        ("aten::_grouped_mm", [[3, 9, 4], [3, 4, 5]], 2 * 3 * 9 * 4 * 5, 3 * (36 + 20 + 45)),
        ("aten::mv", [[7, 3], [3]], 42, 21 + 3 + 7),
        ("aten::dot", [[9], [9]], 18, 9 + 9 + 1),
        ("aten::mkldnn_linear", [[2, 5, 3], [4, 3]], 2 * 10 * 3 * 4, 30 + 12 + 40),
    ],
)
def test_products(name: str, shapes: list[Any], flops: float, elements: int) -> None:
    found = work(name, shapes)
    assert (found.flops, found.bytes, found.precision) == (flops, 4.0 * elements, "f32")


def test_what_a_product_is_added_to_is_read_unless_it_is_taken_times_zero() -> None:
    shapes = [[5, 4, 2], [5, 4, 3], [5, 3, 2]]
    assert work("aten::baddbmm", shapes, {3: "0."}).bytes == 4 * 130
    expanded = Arguments(shapes, ["float"] * 3, ["", "", "", "1"], [[0, 2, 1], [12, 3, 1], [6, 2, 1]])
    found = work_of("aten::baddbmm", expanded)
    assert found is not None and found.bytes == 4 * (130 + 8), "one matrix for all five"


@pytest.mark.parametrize(
    "shapes", [[[2, 3], [4, 5]], [[2, 3]], [], [[2, 3], ["x", 5]], [[2, 3, 4], [9, 4, 2]]]
)
def test_product_of_shapes_that_do_not_fit_is_unknown(shapes: list[Any]) -> None:
    assert work_if_known("aten::mm", shapes) is None


def test_types_give_precision_and_bytes_and_complex_numbers_count_four_times() -> None:
    found = {
        kind: work("aten::mm", [[2, 2], [2, 2]], kind=kind)
        for kind in ("c10::Half", "c10::BFloat16", "double", "c10::complex<float>", "Unheard")
    }
    assert [one.precision for one in found.values()] == ["f16", "bf16", "f64", "f32", ""]
    assert [one.bytes for one in found.values()] == [24, 24, 96, 96, None]
    assert [one.flops for one in found.values()] == [16, 16, 16, 64, 16]


def _typed(name: str, types: list[str], values: list[str] | None = None) -> OperatorWork:
    """Of an 8 x 4 times a 4 x 2 matrix."""
    shapes = [[8, 4], [4, 2], *[[]] * (len(types) - 2)]
    found = work_of(name, Arguments(shapes, types, values or [""] * len(types)))
    assert found is not None
    return found


_F8, _SCALES = ["c10::Float8_e4m3fn"] * 2, ["float", "float"]


@pytest.mark.parametrize("kind", ["double", "float", "half", "bfloat16", "float8_e5m2", "int8", "uint8"])
def test_precisions_are_those_that_ceilings_have(kind: str) -> None:
    assert work("aten::mm", [[2, 2], [2, 2]], kind=kind).precision in KNOWN


def test_product_of_integers_is_written_as_int32() -> None:
    found = _typed("aten::_int_mm", ["signed char", "signed char"])
    assert (found.bytes, found.precision) == (32 + 8 + 4 * 16, "s8")


@pytest.mark.parametrize(("code", "size"), [("15", 2), ("6", 4), ("5", 2), ("24", 1)])
def test_scaled_product_is_written_in_the_type_asked_for(code: str, size: int) -> None:
    new = [*_F8, *_SCALES, "", "", "Scalar", "Scalar"]
    assert _typed("aten::_scaled_mm", new, [*[""] * 6, code, "False"]).bytes == 40 + size * 16
    old = [*_F8, "", "Scalar", *_SCALES, "", "Scalar"]  # before torch 2.5
    found = _typed("aten::_scaled_mm", old, [*[""] * 3, code, *[""] * 3, "False"])
    assert (found.bytes, found.precision) == (40 + size * 16, "f8_e4m3")


def test_scaled_product_without_a_type_has_that_of_its_factors() -> None:
    assert _typed("aten::_scaled_mm", [*_F8, *_SCALES, "", "", "", "Scalar"]).bytes == 40 + 16
    assert _typed("aten::_scaled_mm", [*_F8, "", "", *_SCALES, "", "Scalar"]).bytes == 40 + 16


def test_scaled_product_whose_type_is_not_recorded_has_flops_and_no_bytes() -> None:
    found = _typed("aten::_scaled_mm", [*_F8, *_SCALES, "", "", "Scalar", "Scalar"])
    assert (found.flops, found.bytes) == (2 * 8 * 4 * 2, None)


def test_elements_of_two_numbers_each_count_twice() -> None:
    types = ["c10::Float4_e2m1fn_x2"] * 2 + ["c10::Float8_e4m3fn"] * 2 + ["", "", "Scalar", "Scalar"]
    found = _typed("aten::_scaled_mm", types, [*[""] * 6, "15", "False"])
    assert (found.flops, found.bytes, found.precision) == (2 * 2 * 8 * 4 * 2, 40 + 2 * 16, "f4")


@pytest.mark.parametrize("strides", [[[], [2, 1]], [[4, 1], []]])
def test_sparse_matrices_have_no_flops_and_that_is_said(strides: list[list[int]]) -> None:
    given = Arguments([[8, 4], [4, 2]], ["float", "float"], ["", ""], strides)
    assert work_of("aten::mm", given) is None
    assert "sparse" in why_unknown("aten::mm", given)
    dense = given._replace(strides=[[4, 1], [2, 1]])
    assert work_of("aten::mm", dense) == work_of("aten::mm", given._replace(strides=[])) is not None
    assert not why_unknown("aten::mm", dense)


# ResNet-50's first layer: 3x224x224 -> 64x112x112 by 7x7.
_FIRST = [[32, 3, 224, 224], [64, 3, 7, 7]]
_FIRST_FLOPS = 2 * 32 * 64 * 112 * 112 * 3 * 49


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("aten::convolution", {3: "[2, 2]", 4: "[3, 3]", 5: "[1, 1]", 6: "False", 7: "[0, 0]"}),
        ("aten::mkldnn_convolution", {3: "[3, 3]", 4: "[2, 2]", 5: "[1, 1]"}),
        ("aten::cudnn_convolution", {2: "[3, 3]", 3: "[2, 2]", 4: "[1, 1]"}),
        ("aten::miopen_convolution", {3: "[3, 3]", 4: "[2, 2]", 5: "[1, 1]"}),
    ],
)
def test_convolution_whatever_the_order_of_its_arguments(name: str, values: dict[int, str]) -> None:
    found = work(name, _FIRST, values)
    assert found.flops == _FIRST_FLOPS
    assert found.bytes == 4 * (32 * 3 * 224 * 224 + 64 * 3 * 49 + 32 * 64 * 112 * 112)


def test_convolution_without_its_stride_is_unknown() -> None:
    assert work_if_known("aten::convolution", _FIRST) is None
    assert work_if_known("aten::convolution", _FIRST, {3: "[2, 2]", 4: "[3, 3]", 5: "[1, 1]"}) is None


def test_grouped_dilated_and_transposed_convolutions() -> None:
    window = {3: "[1, 1]", 4: "[1, 1]", 5: "[1, 1]", 6: "False"}
    grouped = work("aten::convolution", [[2, 8, 16, 16], [8, 2, 3, 3]], window)
    assert grouped.flops == 2 * 2 * 8 * 16 * 16 * 2 * 9
    dilated = work("aten::convolution", [[1, 1, 9], [1, 1, 3]], window | {4: "[0]", 5: "[2]"})
    assert dilated.flops == 2 * 5 * 3
    across = work(
        "aten::convolution", [[2, 8, 16, 16], [8, 4, 2, 2]], window | {3: "[2, 2]", 4: "[0, 0]", 6: "True"}
    )
    assert across.flops == 2 * 2 * 16 * 16 * 8 * 4 * 4
    assert across.bytes == 4 * (2 * 8 * 16 * 16 + 8 * 4 * 4 + 2 * 4 * 32 * 32)
    across = work(
        "aten::convolution",
        [[2, 8, 16, 16], [8, 1, 2, 2]],
        window | {3: "[2, 2]", 4: "[0, 0]", 6: "True", 8: "8"},
    )
    assert across.flops == 2 * 2 * 16 * 16 * 8 * 4
    assert across.bytes == 4 * (2 * 8 * 16 * 16 + 8 * 4 + 2 * 8 * 32 * 32)


@pytest.mark.parametrize(("mask", "parts"), [("[True, True, True]", 2), ("[False, True, True]", 1)])
def test_gradients_of_a_convolution_are_one_forward_each(mask: str, parts: int) -> None:
    values = {4: "[2, 2]", 5: "[3, 3]", 6: "[1, 1]", 7: "False", 9: "1", 10: mask}
    found = work("aten::convolution_backward", [[32, 64, 112, 112], *_FIRST], values)
    assert (found.flops, found.parts) == (parts * _FIRST_FLOPS, parts)


@pytest.mark.parametrize(
    ("mask", "weights", "inputs"),
    [("[True, True, False]", 2, 2), ("[True, False, False]", 1, 1), ("[False, True, False]", 1, 1)],
    ids=["both", "of the input", "of the weight"],
)
def test_gradients_of_a_convolution_move_what_they_need_and_give(
    mask: str, weights: int, inputs: int
) -> None:
    grad, x, weight = [1, 512, 7, 7], [1, 512, 7, 7], [512, 512, 3, 3]
    found = work("aten::convolution_backward", [grad, x, weight], {7: "False", 10: mask})
    assert found.bytes == 4 * (math.prod(grad) + weights * math.prod(weight) + inputs * math.prod(x))


def test_gradients_of_a_transposed_convolution() -> None:
    shapes = [[2, 4, 32, 32], [2, 8, 16, 16], [8, 4, 2, 2]]
    found = work("aten::convolution_backward", shapes, {7: "True", 10: "[True, True, True]"})
    assert found.flops == 2 * (2 * 2 * 16 * 16 * 8 * 4 * 4)


_QKV = [[2, 8, 128, 64]] * 3
_SDPA = "aten::_scaled_dot_product_"


def test_attention_counts_what_the_mask_leaves() -> None:
    whole = 2 * 2 * 8 * 128 * 128 * (64 + 64)
    assert work(f"{_SDPA}flash_attention", _QKV, {4: "False"}).flops == whole
    assert work(f"{_SDPA}efficient_attention", _QKV, {6: "True"}).flops == whole * 129 / 256
    unknown = work(f"{_SDPA}cudnn_attention", _QKV)
    assert (unknown.flops, unknown.note) == (whole, MASK_UNKNOWN)


@pytest.mark.parametrize(
    ("name", "first", "bias"),
    [
        ("efficient_attention", 0, 3),
        ("cudnn_attention", 0, 3),
        ("flash_attention_for_cpu", 0, 5),
        ("efficient_attention_backward", 1, 4),
        ("cudnn_attention_backward", 1, 8),
        ("flash_attention_for_cpu_backward", 1, 8),
    ],
)
def test_bias_of_attention_is_read(name: str, first: int, bias: int) -> None:
    shapes: list[Any] = [[]] * first + [*_QKV] + [[]] * (bias - first - 3)
    plain, biased = work(_SDPA + name, shapes), work(_SDPA + name, [*shapes, [2, 8, 128, 128]])
    assert (biased.flops, biased.bytes) == (plain.flops, (plain.bytes or 0) + 4 * 2 * 8 * 128 * 128)
    kinds = ["float"] * bias + ["bool"]
    masked = work_of(_SDPA + name, Arguments([*shapes, [2, 8, 128, 128]], kinds))
    assert masked is not None and masked.bytes == plain.bytes


def test_heads_may_share_keys_and_lengths_may_differ() -> None:
    shapes = [[1, 32, 10, 128], [1, 8, 1000, 128], [1, 8, 1000, 128]]
    assert work(f"{_SDPA}flash_attention", shapes, {4: "False"}).flops == 2 * 32 * 10 * 1000 * 256


@pytest.mark.parametrize(
    ("name", "causal"),
    [
        ("flash_attention", 11),
        ("flash_attention_for_cpu", 7),
        ("efficient_attention", 11),
        ("cudnn_attention", 14),
    ],
)
def test_backward_of_attention_is_five_products_where_the_forward_has_two(name: str, causal: int) -> None:
    forward = work(f"{_SDPA}flash_attention", _QKV, {4: "False"})
    found = work(f"{_SDPA}{name}_backward", [_QKV[0], *_QKV, _QKV[0]], {causal: "False"})
    assert found.flops == 2.5 * forward.flops


def test_package_of_flash_attention_has_lengths_before_heads() -> None:
    shapes = [[2, 128, 8, 64]] * 3
    found = work("flash_attn::_flash_attn_forward", shapes, {5: "False", 6: "-1", 7: "-1"})
    assert found.flops == work(f"{_SDPA}flash_attention", _QKV, {4: "False"}).flops


@pytest.mark.parametrize(
    ("name", "first", "off", "causal", "at_end", "begins"),
    [
        ("flash_attention_forward", 0, {8: "False"}, {8: "True"}, True, 3),
        ("flash_attention_backward", 1, {11: "False"}, {11: "True"}, True, 6),
        ("efficient_attention_forward", 0, {9: "0"}, {9: "1"}, False, 4),
        ("efficient_attention_forward", 0, {9: "0"}, {9: "2"}, True, 4),
        ("efficient_attention_backward", 1, {14: "0"}, {14: "1"}, False, 6),
    ],
)
def test_what_torch_calls_for_attention(
    name: str, first: int, off: dict[int, str], causal: dict[int, str], at_end: bool, begins: int
) -> None:
    whole = 2 * 2 * 8 * 100 * 128 * (64 + 64) * (2.5 if first else 1)
    shapes: list[Any] = [[2, 100, 8, 64]] * (first + 1) + [[2, 128, 8, 64]] * 2
    assert work(f"aten::_{name}", shapes, off).flops == whole
    seen = sum(range(29, 129)) if at_end else sum(range(1, 101))
    assert work(f"aten::_{name}", shapes, causal).flops == whole * seen / (100 * 128)
    assert work(f"aten::_{name}", shapes).note == MASK_UNKNOWN
    many = shapes + [[]] * (begins - len(shapes)) + [[3]]
    assert work_if_known(f"aten::_{name}", many, off) is None, "how long each is, is not in the trace"


def test_what_torch_calls_for_attention_may_have_a_window_and_a_bias() -> None:
    shapes = [[2, 128, 8, 64]] * 3
    window = work("aten::_flash_attention_forward", shapes, {8: "False", 11: "9", 12: "0"})
    assert window.flops == 2 * 2 * 8 * (sum(range(1, 10)) + 119 * 10) * 128
    plain = work("aten::_efficient_attention_forward", shapes, {9: "0"})
    biased = work("aten::_efficient_attention_forward", [*shapes, [2, 8, 128, 128]], {9: "0"})
    assert (biased.bytes or 0) - (plain.bytes or 0) == 4 * 2 * 8 * 128 * 128
    assert work("aten::_efficient_attention_forward", shapes, {9: "1", 13: "9"}).note == MASK_UNKNOWN


def test_convolutions_with_what_is_fused_to_them() -> None:
    shapes = [[1, 8, 16, 16], [8, 8, 3, 3], [8]]
    plain = work("aten::cudnn_convolution_relu", shapes, {3: "[1, 1]", 4: "[1, 1]", 5: "[1, 1]"})
    assert plain.flops == 2 * 16 * 16 * 8 * 8 * 9
    onednn = work("mkldnn::_convolution_pointwise", shapes, {3: "[1, 1]", 4: "[1, 1]", 5: "[1, 1]"})
    assert onednn == plain
    added = [shapes[0], [1, 8, 16, 16], *shapes[1:]]
    binary = work("mkldnn::_convolution_pointwise", added, {4: "[1, 1]", 5: "[1, 1]", 6: "[1, 1]"})
    assert (binary.flops, binary.bytes) == (plain.flops, (plain.bytes or 0) + 4 * 8 * 16 * 16)


_FLASH = "flash_attn::_flash_attn"


@pytest.mark.parametrize(("queries", "keys", "pairs"), [(1, 4096, 4096), (3, 5, 12), (5, 3, 6), (4, 4, 10)])
def test_causal_mask_of_the_package_ends_with_the_last_key(queries: int, keys: int, pairs: int) -> None:
    shapes = [[1, queries, 32, 128], *[[1, keys, 8, 128]] * 2]
    whole = {6: "-1", 7: "-1"}
    assert work(f"{_FLASH}_forward", shapes, {5: "True"} | whole).flops == 2 * 32 * pairs * 256
    gradients = [shapes[0], *shapes, shapes[0], [1, 32, queries]]
    backward = work(f"{_FLASH}_backward", gradients, {11: "True", 12: "-1", 13: "-1"})
    assert backward.flops == 2.5 * 2 * 32 * pairs * 256


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("back", "ahead"), [(-1, -1), (2, -1), (-1, 1), (2, 1), (0, 0), (50, 50)])
@pytest.mark.parametrize(("queries", "keys"), [(1, 9), (6, 9), (9, 6), (7, 7)])
def test_of_a_sliding_window_only_its_pairs_count(
    queries: int, keys: int, back: int, ahead: int, is_causal: bool
) -> None:
    """The package's documentation: query i stands at key i + keys - queries."""
    last = 0 if is_causal else ahead
    pairs = sum(
        (back < 0 or key >= query + keys - queries - back)
        and (last < 0 or key <= query + keys - queries + last)
        for query in range(queries)
        for key in range(keys)
    )
    shapes = [[1, queries, 32, 128], *[[1, keys, 8, 128]] * 2]
    window = str(is_causal), str(back), str(ahead)
    found = work(f"{_FLASH}_forward", shapes, dict(enumerate(window, 5)))
    assert (found.flops, found.note) == (2 * 32 * pairs * 256, "")
    gradients = [shapes[0], *shapes, shapes[0], [1, 32, queries]]
    assert work(f"{_FLASH}_backward", gradients, dict(enumerate(window, 11))).flops == 2.5 * found.flops
    lengths = {5: str(queries), 6: str(keys)}
    one = work(f"{_FLASH}_varlen_forward", _varlen(queries, keys, 1), lengths | dict(enumerate(window, 9)))
    assert one.flops == found.flops


def test_attention_whose_window_is_not_recorded_is_an_upper_bound() -> None:
    shapes = [[1, 4, 32, 128]] * 3
    found = work(f"{_FLASH}_forward", shapes, {5: "True"})
    assert (found.flops, found.note) == (2 * 32 * 16 * 256, MASK_UNKNOWN)


def _varlen(queries: int, keys: int, many: int) -> list[Any]:
    return [[queries, 32, 128], [keys, 8, 128], [keys, 8, 128], [many + 1], [many + 1]]


def test_sequences_one_behind_the_other_are_counted_where_their_lengths_are_known() -> None:
    causal = {9: "True", 10: "-1", 11: "-1"}
    one = work(f"{_FLASH}_varlen_forward", _varlen(3, 5, 1), causal)
    assert one.flops == 2 * 32 * 12 * 256
    even = {5: "3", 6: "5"} | causal
    assert work(f"{_FLASH}_varlen_forward", _varlen(6, 10, 2), even).flops == 2 * one.flops
    assert work_if_known(f"{_FLASH}_varlen_forward", _varlen(6, 9, 2), even) is None, "of several lengths"
    assert work_if_known(f"{_FLASH}_varlen_forward", _varlen(6, 10, 2), causal) is None
    pages = [*_varlen(6, 10, 2), *[[]] * 10, [2, 1]]
    assert work_if_known(f"{_FLASH}_varlen_forward", pages, even) is None


def test_backward_of_sequences_one_behind_the_other() -> None:
    query, key, value, *begins = _varlen(6, 10, 2)
    shapes = [query, query, key, value, query, [32, 6], query, key, value, *begins]
    found = work(f"{_FLASH}_varlen_backward", shapes, {11: "3", 12: "5", 15: "True", 16: "-1", 17: "-1"})
    assert found.flops == 2.5 * 2 * 2 * 32 * 12 * 256


def test_recurrent_layers_apply_each_matrix_once_a_step_and_sample() -> None:
    hidden, batch, steps, features = 16, 2, 32, 32
    gates = {"lstm": 4, "gru": 3}
    for name, many in gates.items():
        layer = [[many * hidden, features], [many * hidden, hidden], [many * hidden], [many * hidden]]
        second = [[many * hidden, hidden], [many * hidden, hidden], [many * hidden], [many * hidden]]
        state: list[Any] = [[2, 2, 16], [2, 2, 16]] if name == "lstm" else [2, 2, 16]
        found = work(f"aten::{name}", [[batch, steps, features], state, layer + second])
        assert found.flops == 2 * batch * steps * many * hidden * (features + hidden + hidden + hidden)


def test_both_directions_write_an_output_twice_as_wide() -> None:
    """input, hx, params, has_biases, num_layers, dropout, train, bidirectional; batch_sizes behind data."""
    weights = [[48, 32], [48, 16], [48], [48]] * 2
    moved = 4 * (2 * 10 * 32 + 2 * 10 * 2 * 16 + 2 * (48 * 32 + 48 * 16 + 2 * 48))
    shapes = [[2, 10, 32], [2, 2, 16], weights]
    values = {3: "True", 4: "1", 5: "0.", 6: "True", 7: "True"}
    assert work("aten::gru", shapes, values).bytes == moved
    assert work("aten::gru", shapes, values | {7: "False"}).bytes == moved - 4 * 2 * 10 * 16
    packed = work("aten::gru", [[20, 32], [10], *shapes[1:]], {4: "True", 5: "1", 7: "True", 8: "True"})
    assert packed.bytes == moved
    one_way = work("aten::gru", [[20, 32], [10], *shapes[1:]], {4: "True", 5: "1", 7: "True", 8: "False"})
    assert one_way.bytes == moved - 4 * 2 * 10 * 16
    assert work("aten::_cudnn_rnn", [[2, 10, 32], weights], {13: "True"}).bytes == moved


def test_cudnn_rnn_and_its_backward() -> None:
    weights = [[64, 32], [64, 16], [64], [64]]
    forward = work("aten::_cudnn_rnn", [[32, 2, 32], weights])
    assert forward.flops == 2 * 64 * (64 * 32 + 64 * 16)
    assert work("aten::_cudnn_rnn_backward", [[32, 2, 32], weights]).flops == 2 * forward.flops
    onednn = work("aten::mkldnn_rnn_layer", [[32, 2, 32], *weights])
    assert onednn.flops == forward.flops


def test_operators_that_call_others_have_no_formula() -> None:
    assert not FORMULAS.keys() & {
        "aten::matmul",
        "aten::linear",
        "aten::conv2d",
        "aten::einsum",
        "aten::relu",
    }
