"""Least traffic of primitives that are no contraction, and of post-operations, against sums done by hand."""

from __future__ import annotations

import pytest
from roofline_agent.verbose.descriptors import parse_tensors
from roofline_agent.verbose.traffic import post_ops
from roofline_agent.verbose.work import Primitive, PrimitiveWork, count_work

F32 = "{}:f32::blocked:abcd::f0"
POOL = "mb1ic2_ih4oh2kh2sh2dh0ph0_iw4ow2kw2sw2dw0pw0"
NORM = "mb2ic3ih4iw5"
N = 2 * 3 * 4 * 5


def tensors(*roles: str, spelling: str = F32) -> str:
    return " ".join(spelling.format(role) for role in roles)


def work(
    operation: str, problem: str, descriptors: str, variant: str = "forward_training", options: str = ""
) -> PrimitiveWork:
    return count_work(Primitive(operation, variant, "", parse_tensors(descriptors), options, problem))


@pytest.mark.parametrize(
    ("operation", "problem", "roles", "variant", "elements"),
    [
        ("eltwise", "2x3x4", ["data"], "forward_training", 2 * 24),
        ("eltwise", "2x3x4", ["data", "diff"], "backward_data", 3 * 24),
        ("eltwise", NORM, ["data"], "forward_inference", 2 * N),  # 0.x
        ("softmax", "2x3x4", ["src", "dst"], "forward_inference", 2 * 24),
        ("softmax_v2", "2x3x4", ["src", "dst"], "forward_inference", 2 * 24),
        ("softmax", "2x3x4", ["src", "dst", "diff_dst"], "backward_data", 3 * 24),
        ("logsoftmax", "2x3x4", ["data", "diff"], "backward_data", 3 * 24),  # 1.x
        ("lrn", NORM + "ls5beta0.75", ["data"], "forward_training", 2 * N),
        ("lrn", NORM, ["data", "diff"], "backward_data", 3 * N),
        ("sum", "2x3", ["src", "src", "src", "dst"], "undef", 4 * 6),
        ("binary", "2x3x4:2x1x4", ["src", "src", "dst"], "undef", 24 + 8 + 24),
        ("binary", "2x1:1x3", ["src", "src", "dst"], "undef", 2 + 3 + 6),
        ("binary", "2x3:2x3:1x1", ["src", "src", "src", "dst"], "undef", 6 + 6 + 1 + 6),
        ("prelu", "2x3:1x3", ["data", "wei"], "forward_training", 12 + 3),
        ("prelu", "2x3:1x3", ["data", "wei", "diff", "diff_wei"], "backward", 6 + 3 + 12 + 3),
        ("reduction", "2x3x4:2x1x4", ["src", "dst"], "undef", 24 + 8),
        ("resampling", "mb2ic3_ih4oh8_iw5ow10", ["src", "dst"], "forward_training", N + 4 * N),
        ("pooling", POOL, ["src", "dst"], "backward_data", 32 + 8),
        ("layer_normalization", "2x3x4", ["src", "dst", "stats"], "forward_training", 48 + 2 * 6),
        ("layer_normalization", "2x3x4", ["src", "dst", "stats", "scale", "shift"], "forward_training", 68),
        (
            "layer_normalization",
            "2x3x4",
            ["src", "dst", "stats", "scale", "diff_src", "diff_scale"],
            "backward",
            3 * 24 + 12 + 2 * 4,
        ),
    ],
)
def test_every_tensor_once_and_flops_not_counted(
    operation: str, problem: str, roles: list[str], variant: str, elements: int
) -> None:
    assert work(operation, problem, tensors(*roles), variant) == PrimitiveWork(None, 4 * elements)


@pytest.mark.parametrize(
    ("flags", "variant", "roles", "elements"),
    [
        ("flags:CH", "forward_training", ["data"], 2 * N + 2 * 3 + 2 * 3),
        ("flags:", "forward_inference", ["data"], 2 * N),
        ("flags:GCH", "forward_inference", ["data"], 2 * N + 2 * 3 + 2 * 3),
        ("flags:GS", "forward_inference", ["data"], 2 * N + 2 * 3 + 2 * 3),
        ("flags:3", "forward_inference", ["data"], 2 * N + 2 * 3 + 2 * 3),  # 0.x
        ("flags:CHA", "forward_training", ["data"], 3 * N + 2 * 3 + 2 * 3),
        ("flags:CH", "backward", ["data", "diff"], 3 * N + 2 * 3 + 4 * 3),
        ("flags:C", "backward_data", ["data", "diff"], 3 * N + 2 * 3 + 3),
    ],
)
def test_batch_normalization_has_its_vectors(
    flags: str, variant: str, roles: list[str], elements: int
) -> None:
    counted = work("batch_normalization", NORM, tensors(*roles), variant, flags)
    assert counted == PrimitiveWork(None, 4 * elements)


def test_group_normalization_keeps_statistics_by_image_and_group() -> None:
    counted = work("group_normalization", "g3" + NORM, tensors("src", "dst"), options="flags:CH")
    assert counted == PrimitiveWork(None, 4 * (2 * N + 2 * 2 * 3 + 2 * 3))


@pytest.mark.parametrize(
    ("operation", "problem", "roles"),
    [
        ("eltwise", "2x*", ["data"]),
        ("softmax", "2x3", ["src", "dst", "surprise"]),
        ("batch_normalization", "7", ["data"]),
        ("layer_normalization", "2x3", ["src", "dst", "surprise"]),
        ("binary", "2x3:4x3", ["src", "src", "dst"]),
        ("binary", "2x3", ["src", "src", "dst"]),
        ("binary", "2x3:2x3", ["src", "src"]),
        ("prelu", "2x3", ["data", "wei"]),
        ("reduction", "2x3", ["src", "dst"]),
        ("sum", "*", ["src", "dst"]),
        ("pooling", "mb1ic2", ["src", "dst"]),
    ],
)
def test_what_is_not_understood_has_no_bytes(operation: str, problem: str, roles: list[str]) -> None:
    assert work(operation, problem, tensors(*roles)) == PrimitiveWork(None, None)


def test_old_lines_print_one_source_and_how_many_there_are() -> None:
    assert work("sum", "2x3", "in:f32_nc out:f32_nc", "undef", "num:4") == PrimitiveWork(None, 4 * 5 * 6)
    assert work("shuffle", "2x4", "dt:f32 fmt:nc") == PrimitiveWork(0, 4 * 2 * 8)
    assert work("batch_normalization", NORM, "fdata:nchw fdiff:undef", options="flags:3") == PrimitiveWork(
        None, None
    )


def test_sparse_tensors_have_a_traffic_that_is_not_told() -> None:
    packed = "src:f32::blocked:ab::f0 dst:f32::sparse:packed::f0"
    assert work("reorder", "2x3", packed, "undef") == PrimitiveWork(0, None)


def test_padding_of_memory_costs_an_unknown_amount_and_no_flops() -> None:
    assert work("zero_pad", "2x3", tensors("data"), "undef") == PrimitiveWork(0, None)


@pytest.mark.parametrize(
    ("options", "extra"),
    [
        ("attr-scratchpad:user attr-post-ops:eltwise_relu", 0),
        ("attr-post-ops:eltwise_clip:-1:6+eltwise_linear:1e-05:-3", 0),
        ("attr-post-ops:sum", 4 * 24),
        ("attr-post-ops:sum:0.5:0:u8+eltwise_relu ", 4 * 24),
        ("post_ops:'sum:1;eltwise_relu;';", 4 * 24),
        ("attr-post-ops:binary_add:bf16:2:ab", 2 * 6),
        ("attr-post-ops:binary_mul:f32:3:ab+sum", 4 * 24 + 4 * 24),
        ("attr-post-ops:prelu:2", 4 * 6),
    ],
)
def test_post_operations_add_what_they_read(options: str, extra: int) -> None:
    three = tensors("src", "wei", "dst")
    assert work("matmul", "4x5:5x6", three, "undef", options) == PrimitiveWork(
        240, 4 * (20 + 30 + 24) + extra
    )


@pytest.mark.parametrize("entry", ["binary_add", "binary_add:f32", "binary_add:x:1", "binary_add:f32:per_oc"])
def test_post_operations_not_understood_leave_the_bytes_open_and_the_flops_known(entry: str) -> None:
    counted = work("matmul", "4x5:5x6", tensors("src", "wei", "dst"), "undef", f"attr-post-ops:{entry}")
    assert counted == PrimitiveWork(240, None)


def test_binary_post_operation_follows_its_mask_in_a_convolution() -> None:
    problem = "mb2_ic3oc4_ih5oh5kh1sh1dh0ph0_iw6ow6kw1sw1dw0pw0"
    plain = work("convolution", problem, tensors("src", "wei", "dst"))
    per_channel = work(
        "convolution", problem, tensors("src", "wei", "dst"), options="attr-post-ops:binary_add:f32:2"
    )
    whole = work(
        "convolution", problem, tensors("src", "wei", "dst"), options="attr-post-ops:binary_add:f32:15"
    )
    assert plain.bytes is not None
    assert per_channel.bytes == plain.bytes + 4 * 4
    assert whole.bytes == plain.bytes + 4 * 2 * 4 * 30


def test_entries_of_an_attribute_text() -> None:
    assert post_ops("attr-post-ops:sum:1e+05+eltwise_relu x:y") == ["sum:1e+05", "eltwise_relu"]
    assert post_ops("attr-scratchpad:user") == []
    assert post_ops("post_ops:'';") == []
