"""Kernels of a PyTorch trace have the FLOPs of the operators that launched them."""

from __future__ import annotations

from typing import Any

import pytest
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.recording import Kernel
from roofline_agent.recorded.traces import kineto

from .traces import found_in, trace, warned, whole

_MM = {"Input Dims": [[64, 16], [16, 48]], "Input type": ["float", "float"]}
_MM_FLOPS = 2 * 64 * 16 * 48
_MM_BYTES = 4 * (64 * 16 + 16 * 48 + 64 * 48)


def found(*events: dict[str, Any]) -> Collector:
    return found_in(trace(list(events)), kineto.read)


def operator(name: str, at_us: float, duration_us: float, external: int, **args: Any) -> dict[str, Any]:
    return whole(name, at_us, duration_us, cat="cpu_op", args={"External id": external, **args})


def kernel(
    name: str, at_us: float, duration_us: float, external: int, correlation: int = 0
) -> dict[str, Any]:
    ids = {"External id": external, "correlation": correlation or external + 1000}
    return whole(name, at_us, duration_us, cat="kernel", args=ids) | {"pid": 0, "tid": 7}


def launch(at_us: float, correlation: int, tid: int = 1) -> dict[str, Any]:
    args = {"External id": correlation, "correlation": correlation}
    return whole("cudaLaunchKernel", at_us, 2, cat="cuda_runtime", args=args) | {"tid": tid}


def by_name(got: Collector) -> dict[str, Kernel]:
    return {one.name: one for one in got.kernels}


def test_kernel_is_joined_by_the_id_of_its_operator() -> None:
    got = found(operator("aten::mm", 0, 10, 5, **_MM), kernel("sgemm", 20, 4, 5), kernel("relu", 30, 1, 6))
    assert by_name(got)["sgemm"][2:6] == (pytest.approx(4e-6), _MM_FLOPS, {"minimum": _MM_BYTES}, "f32")
    assert by_name(got)["sgemm"].note == "aten::mm: FLOPs by its shapes"
    assert by_name(got)["relu"].flops is None
    assert got.warnings == []
    got = found_in(trace([operator("aten::mm", 0, 10, 5, **_MM), kernel("k", 20, 4, 5)]), kineto.read, True)
    assert [(one.library, one.counted) for one in got.launches or []] == [("cuda", False)]


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1>(Params)", "tf32"),
        ("sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tensor16x8x8", "tf32"),
        ("nvjet_sss_tf32_128x256_TNT", "tf32"),
        ("ampere_sgemm_128x64_nn", "f32"),
        ("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nhwc_g1_ffma_kernel", "f32"),
        ("Cijk_Ailk_Bljk_SB_MT128x128x16_MI32x32x2x1", "f32"),
    ],
)
def test_float32_is_multiplied_in_tf32_where_the_kernel_says_so(name: str, precision: str) -> None:
    got = found(operator("aten::mm", 0, 10, 5, **_MM), kernel(name, 20, 4, 5))
    assert by_name(got)[name][3:6] == (_MM_FLOPS, {"minimum": _MM_BYTES}, precision)


def test_kernels_that_stand_before_their_operators_are_joined_too() -> None:
    got = found(kernel("sgemm", 20, 4, 5), operator("aten::mm", 0, 10, 5, **_MM))
    assert by_name(got)["sgemm"].flops == _MM_FLOPS


def test_old_kernel_is_joined_by_the_moment_of_its_launch() -> None:
    """Their External id is the correlation, which may be another operator's id by chance."""
    got = found(
        operator("aten::mm", 0, 10, 5, **_MM),
        operator("aten::mm", 100, 10, 7, **_MM),
        kernel("relu", 300, 1, 7, 7),
        launch(4, 90),
        kernel("sgemm", 200, 4, 90, 90),
        launch(4, 91, tid=2),
        kernel("other", 210, 4, 91, 91),
    )
    assert by_name(got)["sgemm"].flops == _MM_FLOPS
    assert by_name(got)["relu"].flops is None and by_name(got)["other"].flops is None
    assert by_name(got)["aten::mm"][1:4] == (1, None, _MM_FLOPS), "the second one launched nothing"
    assert warned(got, "of 1 of 2 operators with FLOPs the trace does not say which kernels they launched")


def test_kernel_of_an_inner_operator_belongs_to_the_one_with_flops() -> None:
    args = {
        "Input Dims": [[1, 3, 8, 8], [4, 3, 3, 3], [], [], [], [], [], [], []],
        "Input type": ["c10::Half", "c10::Half", "", "", "", "", "", "", ""],
        "Concrete Inputs": ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"],
    }
    got = found(
        operator("aten::convolution", 0, 100, 5, **args),
        operator("aten::_convolution", 1, 98, 6, **args),
        operator("aten::cudnn_convolution", 2, 50, 7),
        kernel("sm80_xmma_fprop_implicit_gemm", 200, 8, 7),
        kernel("nchwToNhwcKernel", 190, 2, 7),
    )
    flops = 2 * 4 * 64 * 3 * 9
    assert by_name(got)["sm80_xmma_fprop_implicit_gemm"][3:6] == (
        flops, {"minimum": 2 * (3 * 64 + 4 * 27 + 4 * 64)}, "f16",
    )  # fmt: skip
    assert by_name(got)["nchwToNhwcKernel"].flops is None, "it only copies"


def test_gradients_of_a_convolution_have_half_of_its_flops_each() -> None:
    args = {
        "Input Dims": [[1, 4, 8, 8], [1, 3, 8, 8], [4, 3, 3, 3]],
        "Input type": ["float"] * 3,
        "Concrete Inputs": [""] * 7 + ["False", "[0, 0]", "1", "[True, True, False]"],
    }
    got = found(
        operator("aten::convolution_backward", 0, 100, 5, **args),
        kernel("dgrad_kernel", 200, 9, 5),
        kernel("wgrad_kernel", 210, 1, 5),
    )
    one = 2 * 4 * 64 * 3 * 9
    assert {name: k.flops for name, k in by_name(got).items()} == {"dgrad_kernel": one, "wgrad_kernel": one}


def test_flops_of_several_kernels_are_shared_by_their_time() -> None:
    got = found(
        operator("aten::mm", 0, 10, 5, **_MM),
        kernel("sgemm_1", 20, 3, 5),
        kernel("sgemm_2", 30, 1, 5),
        kernel("splitKreduce_kernel", 40, 9, 5),
    )
    flops = {name: k.flops for name, k in by_name(got).items()}
    assert flops == {"sgemm_1": _MM_FLOPS * 3 / 4, "sgemm_2": _MM_FLOPS / 4, "splitKreduce_kernel": None}


def test_kernel_whose_name_says_nothing_has_the_flops_where_no_other_is() -> None:
    got = found(
        operator("aten::mm", 0, 10, 5, **_MM), kernel("triton_poi_0", 20, 4, 5), kernel("copy", 30, 4, 5)
    )
    assert {name: k.flops for name, k in by_name(got).items()} == {"triton_poi_0": _MM_FLOPS, "copy": None}


def test_flops_of_a_trace_are_those_of_its_operators_however_they_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from roofline_agent.recorded.traces import operators

    events = [operator("aten::mm", 100 * at, 10, at, **_MM) for at in range(9)]
    events += [kernel("sgemm", 5000 + 10 * at, 4, at) for at in range(9)]
    for batch in (1, 4, 100):
        monkeypatch.setattr(operators, "BATCH", batch)
        assert by_name(found(*events))["sgemm"].flops == 9 * _MM_FLOPS


def test_sequences_whose_lengths_the_trace_lacks_are_named() -> None:
    shapes = [[9, 4, 8], [9, 4, 8], [9, 4, 8], [3], [3], [], [], [], [], []]
    given = {"Input Dims": shapes, "Concrete Inputs": ["", "", "", "", "", "6", "6", "0.", "1.", "True"]}
    got = found(
        operator("flash_attn::_flash_attn_varlen_forward", 0, 10, 5, **given), kernel("flash", 20, 4, 5)
    )
    assert by_name(got)["flash"].flops is None
    assert warned(got, "how long the sequences of flash_attn::_flash_attn_varlen_forward are")


def test_products_of_sparse_matrices_are_named_and_do_not_get_the_flops_that_torch_wrote() -> None:
    given = {**_MM, "Input Strides": [[], [48, 1]], "flops": _MM_FLOPS}
    got = found(operator("aten::mm", 0, 10, 5, **_MM), operator("aten::mm", 20, 10, 6, **given))
    assert sum(one.flops or 0.0 for one in got.kernels) == _MM_FLOPS
    assert warned(got, "aten::mm of sparse matrices")


@pytest.mark.parametrize(
    "name",
    [
        "void cutlass::device_kernel<GemmUniversal<Tile<1>, cute::Copy_Atom<SM90, half_t>, void> >(Params)",
        "void cutlass::device_kernel<GemmUniversal<Tile<1>, cute::Copy_Atom<SM90, ha",
    ],
)
def test_template_arguments_make_no_helper_of_a_product(name: str) -> None:
    got = found(operator("aten::mm", 0, 10, 5, **_MM), kernel(name, 20, 4, 5))
    assert by_name(got)[name].flops == _MM_FLOPS


def test_names_of_helpers_may_have_template_arguments() -> None:
    helper = (
        "void at::native::vectorized_elementwise_kernel<4, FillFunctor<gemm_t>, at::Array<char*, 1> >(int)"
    )
    got = found(operator("aten::mm", 0, 10, 5, **_MM), kernel(helper, 20, 4, 5), kernel("sgemm", 30, 4, 5))
    assert (by_name(got)[helper].flops, by_name(got)["sgemm"].flops) == (None, _MM_FLOPS)


def test_pointwise_part_of_a_recurrent_layer_has_no_flops_of_its_products() -> None:
    pointwise = kernel("void elemWiseRNNcell<float, float, 0>(int)", 30, 9, 5)
    got = found(operator("aten::mm", 0, 10, 5, **_MM), kernel("sgemm", 20, 4, 5), pointwise)
    assert [one.flops for one in got.kernels] == [None, _MM_FLOPS]
