"""Counts of FLOPs and bytes, each against the sum one does by hand."""

from __future__ import annotations

import pytest
from roofline_agent.verbose.descriptors import Tensor, bytes_of, parse_tensors
from roofline_agent.verbose.work import Primitive, PrimitiveWork, count_work

DENSE = "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0"


def work(
    operation: str,
    problem: str,
    *,
    tensors: str = DENSE,
    variant: str = "forward_training",
    options: str = "",
) -> PrimitiveWork:
    return count_work(Primitive(operation, variant, "jit", parse_tensors(tensors), options, problem))


@pytest.mark.parametrize(
    "variant", ["forward_training", "forward_inference", "backward_data", "backward_weights"]
)
def test_all_directions_of_a_convolution_cost_the_same(variant: str) -> None:
    counted = work("convolution", "mb2_ic3oc4_ih9oh4kh3sh2dh0ph0_iw7ow3kw2sw2dw0pw0", variant=variant)
    assert counted.flops == 2 * 2 * 3 * 4 * (4 * 3) * (3 * 2)
    assert counted.bytes == 4 * (2 * 3 * 9 * 7 + 4 * 3 * 3 * 2 + 2 * 4 * 4 * 3)


def test_convolution_in_one_dimension() -> None:
    assert work("convolution", "mb2_ic3oc4_iw7ow5kw3sw1dw0pw0").flops == 2 * 2 * 3 * 4 * 5 * 3


def test_convolution_in_three_dimensions() -> None:
    problem = "mb1_ic2oc3_id4od3kd2sd1dd0pd0_ih5oh4kh2sh1dh0ph0_iw6ow5kw2sw1dw0pw0"
    assert work("convolution", problem).flops == 2 * 2 * 3 * (3 * 4 * 5) * 8


def test_depthwise_convolution_has_one_input_channel_per_output() -> None:
    counted = work("convolution", "g32mb1_ic32oc32_ih8oh8kh3sh1dh0ph1_iw8ow8kw3sw1dw0pw1")
    assert counted.flops == 2 * 32 * 64 * 9
    assert counted.bytes == 4 * (32 * 64 + 32 * 9 + 32 * 64)


def test_bias_adds_bytes_and_no_flops() -> None:
    problem = "mb1_ic1oc8_iw4ow4kw1sw1dw0pw0"
    plain = work("convolution", problem)
    biased = work("convolution", problem, tensors=DENSE + " bia:f32:a:blocked:a::f0")
    assert biased.flops == plain.flops
    assert plain.bytes is not None
    assert biased.bytes == plain.bytes + 4 * 8


def test_absent_bias_is_no_tensor() -> None:
    for absent in ("bia:undef::undef:::", "bia_undef::undef::f0", "bia_undef::undef:::"):
        assert parse_tensors(absent) == ()


def test_gradient_of_bias_alone_is_not_modelled() -> None:
    assert work("convolution", "mb1_ic1oc8_iw4ow4kw1sw1dw0pw0", variant="backward_bias").flops is None


def test_a_fused_depthwise_convolution_is_counted_with_its_own_kernel() -> None:
    tensors = (
        "src:f32::blocked:abcd::f0 wei:f32::blocked:abcd::f0 bia:undef::undef::: "
        "src_fused:f32::blocked:abcd::f0 wei_fused:f32::blocked:abcde::f0 "
        "bia_fused:undef::undef::: dst:f32::blocked:abcd::f0"
    )
    problem = "mb2_ic8oc16_ih14oh14kh1sh1dh0ph0_iw10ow10kw1sw1dw0pw0"
    counted = work("convolution", problem, tensors=tensors, options="attr-post-ops:eltwise_relu+dw:k3s2p1")
    assert counted.flops == 2 * 2 * 16 * (8 * 14 * 10) + 2 * 2 * 16 * 9 * (7 * 5)
    assert counted.bytes == 4 * (2 * 8 * 140 + 16 * 8 + 16 * 9 + 2 * 16 * 35)
    old = work("convolution", problem, options="attr-post-ops:dw_k3s2p1:f32 ")
    assert (old.flops, old.bytes) == (counted.flops, None)


@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ("mb1_ic1oc8_iw4ow4kw1sw1dw0pw0", "attr-post-ops:dw:k3s1p1"),
        ("mb1_ic1oc8_ih4oh4kh3sh1dh0ph1_iw4ow4kw3sw1dw0pw1", "attr-post-ops:dw:k3s1p1"),
        ("mb1_ic1oc8_ih4oh4kh1sh1dh0ph0_iw4ow4kw1sw1dw0pw0", "attr-post-ops:dw:k3s0p1"),
    ],
)
def test_fused_depthwise_convolutions_of_unknown_form_are_left_out_with_a_note(
    problem: str, options: str
) -> None:
    counted = work("convolution", problem, options=options)
    assert counted.flops is None
    assert counted.note


def test_deconvolution_multiplies_every_input() -> None:
    counted = work("deconvolution", "mb2_ic3oc4_ih4oh9kh3sh2dh0ph0_iw3ow7kw3sw2dw0pw0")
    assert counted.flops == 2 * 2 * 3 * 4 * (4 * 3) * 9


@pytest.mark.parametrize(
    ("problem", "flops"),
    [
        ("16x32:32x8", 2 * 16 * 32 * 8),
        ("16x32:32x8:16x8", 2 * 16 * 32 * 8),  # 2.1 to 3.0 print the result too
        ("3x16x32:3x32x8", 2 * 3 * 16 * 32 * 8),
        ("3x5x16x32:3x1x32x8", 2 * 15 * 16 * 32 * 8),
        ("1x16x32:7x32x8", 2 * 7 * 16 * 32 * 8),
        ("0x32:32x8", 0),
        ("b3m16n8k32", 2 * 3 * 16 * 32 * 8),  # up to 2.0
        ("m16n8k32_lda32ldb8ldc8 trans:NN a_dt:f32 b_dt:f32", 2 * 16 * 32 * 8),
    ],
)
def test_matrix_products(problem: str, flops: int) -> None:
    assert work("matmul", problem).flops == flops


@pytest.mark.parametrize(
    "problem",
    ["*x32:32x8", "16x32:31x8", "2x16x32:3x32x8", "4:4", "16x32", "", "3x16x32:32x8", "m*n2k3", "1x1:1"],
)
def test_matrix_products_of_unknown_size_have_no_count(problem: str) -> None:
    assert work("matmul", problem) == PrimitiveWork(None, None)


def test_broadcast_operands_are_read_once() -> None:
    assert work("matmul", "3x5x16x32:3x1x32x8").bytes == 4 * (15 * 16 * 32 + 3 * 32 * 8 + 15 * 16 * 8)


def test_four_bit_weights_count_half_a_byte() -> None:
    tensors = "src:f16::blocked:ab::f0 wei:s4::blocked:ba::f0 dst:f16::blocked:ab::f0"
    assert work("matmul", "2x8:8x4", tensors=tensors).bytes == 2 * 16 + 16 + 2 * 8


def test_bias_of_a_matrix_product_follows_its_mask() -> None:
    for mask, elements in ((2, 4), (3, 8), (0, 1)):
        tensors = f"{DENSE} bia:f32::blocked:ab::f0_mask{mask}"
        assert work("matmul", "2x8:8x4", tensors=tensors).bytes == 4 * (16 + 32 + 8 + elements)


def test_sparse_products_have_no_count() -> None:
    tensors = "src:f32::sparse:csr::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0"
    assert work("matmul", "2x8:8x4", tensors=tensors).flops is None


@pytest.mark.parametrize("problem", ["mb8ic54oc10", "mb8ic6ih3iw3oc10"])
@pytest.mark.parametrize("variant", ["forward_inference", "backward_data", "backward_weights"])
def test_inner_product(problem: str, variant: str) -> None:
    counted = work("inner_product", problem, variant=variant)
    assert counted == PrimitiveWork(2 * 8 * 54 * 10, 4 * (8 * 54 + 10 * 54 + 8 * 10))


@pytest.mark.parametrize(
    ("problem", "options", "gates_and_directions"),
    [
        (
            "l2t5mb3sic7slc7dhc7dic7",
            "alg:vanilla_lstm direction:unidirectional_left2right activation:undef",
            4,
        ),
        ("l2t5mb3sic7slc7dhc7dic7", "alg:lbr_gru direction:bidirectional_concat activation:undef", 6),
        ("l2t5mb3sic7slc7dic7dlc7", "alg:vanilla_rnn_unidirectional_left2right", 1),
    ],
)
def test_recurrent_layers(problem: str, options: str, gates_and_directions: int) -> None:
    forward = 2 * (2 * 5 * 3) * gates_and_directions * 7 * (7 + 7)
    assert work("rnn", problem, options=options).flops == forward
    assert work("rnn", problem, options=options, variant="backward").flops == 2 * forward


def test_lstm_projection_is_counted() -> None:
    options = "alg:vanilla_lstm direction:unidirectional_left2right activation:undef"
    tensors = "src_layer_f32::blocked:abc:f0 wei_proj_f32::blocked:abcd:f0"
    counted = work("rnn", "l1t2mb3sic4slc5dhc6dic4", options=options, tensors=tensors)
    assert counted.flops == 2 * (2 * 3) * (4 * 6 * (5 + 4) + 6 * 4)


def test_moving_data_costs_bytes_and_no_flops() -> None:
    assert work("reorder", "2x3", tensors="src_f32::blocked:ab:f0 dst_bf16::blocked:ba:f0") == PrimitiveWork(
        0, 6 * 6
    )
    assert work("reorder", "2x3", tensors="in:f32_nc out:s8_nc") == PrimitiveWork(0, 6 * 5)
    assert work("reorder", "2x*", tensors="src_f32::blocked:ab:f0 dst_bf16::blocked:ba:f0") == PrimitiveWork(
        0, None
    )
    sources = "src_f32::blocked:ab:f0 src_f32::blocked:ab:f0 dst_f32::blocked:ab:f0"
    assert work("concat", "2x3:2x5", tensors=sources) == PrimitiveWork(0, 2 * 16 * 4)
    assert work("shuffle", "2x4", tensors="data_f32::blocked:ab:f0") == PrimitiveWork(0, 2 * 8 * 4)


def test_pooling_has_bytes_and_no_modelled_flops() -> None:
    tensors = "src_f32::blocked:acdb:f0 dst_f32::blocked:acdb:f0 ws_u8::blocked:acdb:f0"
    counted = work("pooling", "mb1ic2_ih4oh2kh2sh2dh0ph0_iw4ow2kw2sw2dw0pw0", tensors=tensors)
    assert counted == PrimitiveWork(None, 4 * 32 + 4 * 8 + 8)


@pytest.mark.parametrize("operation", ["nonsense", "attention", "convolution_v3", ""])
def test_unmodelled_operations_are_unknown_and_not_zero(operation: str) -> None:
    assert work(operation, "2x3") == PrimitiveWork(None, None)


@pytest.mark.parametrize(
    ("word", "tensor"),
    [
        ("src_f8_e4m3::blocked:ab:f0", Tensor("src", "f8_e4m3", ":blocked:ab:f0")),
        ("src:f8_e5m2:a:blocked:ab::f0", Tensor("src", "f8_e5m2", ":a:blocked:ab::f0")),
        ("diff_src_layer_bf16::blocked:abc:f0", Tensor("diff_src_layer", "bf16", ":blocked:abc:f0")),
        ("src_a:f16::blocked:ab::f0", Tensor("src", "f16", "::blocked:ab::f0")),
        ("fwei:OIhw16i16o", Tensor("wei", "", "OIhw16i16o")),
        ("in:f32_nchw", Tensor("src", "f32", "_nchw")),
    ],
)
def test_spellings_of_descriptors(word: str, tensor: Tensor) -> None:
    assert parse_tensors(word) == (tensor,)


def test_bytes_of_an_unknown_type_are_unknown() -> None:
    assert bytes_of(Tensor("src", "", ""), 8) is None
    assert bytes_of(Tensor("src", "u4", ""), 3) == 2
