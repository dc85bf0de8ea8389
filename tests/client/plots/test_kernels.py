"""Readable names of kernels."""

from __future__ import annotations

import pytest
from roofline_client.plots import kernels

from . import models
from .drawing import drawn, seen_text
from .time_models import time_point, time_roofline, v100

SIZES = "mb16_ic64oc128_ih56oh28kh3sh2dh0ph1_iw56ow28kw3sw2dw0pw1"
CONVOLUTION = f"convolution backward_weights {SIZES}"
GEMM = "gemm T,N,1024,32,768,*,*,768,*,768,*,*,1024"
GROUPED = CONVOLUTION.replace("mb16_", "mb16_g8")
CUT = "convolution forward_training mb16_ic3oc32_ih32oh32kh3sh1dh0…"
MUL = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::BUnaryFunctor<float, "
    "at::native::binary_internal::MulFunctor<float>>, x>(int, T2)"
)
ADD = (
    "void at::native::elementwise_kernel<(int)128, (int)2, void at::native::gpu_kernel_impl<"
    "at::native::CUDAFunctor_add<float>>(at::TensorIteratorBase &, const T1 &)::[lambda(int)]>(int, T3)"
)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (CONVOLUTION, "convolution backward weights 16×64→128, 56×56, 3×3, stride 2"),
        (GROUPED, "convolution backward weights 16×64→128, 56×56, 3×3, stride 2, 8 groups"),
        (CUT, "convolution forward training 16×3→32, 32 high, kernel 3"),
        ("inner_product forward_training mb32ic2560oc256", "inner_product forward training 32×2560→256"),
        (GEMM, "gemm 1024×32×768 TN"),
        ("gemm_api 2560x32:32x256", "gemm api 2560×32 · 32×256"),
        (ADD, "elementwise_kernel (add)"),
        (MUL, "vectorized_elementwise_kernel (Mul)"),
        ("void <unnamed>::softmax_warp_forward<float, (int)5>(T2 *, int)", "softmax_warp_forward"),
        ("void Kernel2<cutlass_80_gemm_s8_128x128>(Params)", "cutlass_80_gemm_s8_128x128"),
        ("ampere_sgemm_128x128_nn", "ampere_sgemm_128x128_nn"),
        ("something of another form", "something of another form"),
        ("", ""),
    ],
)  # fmt: skip
def test_names_are_readable(label: str, expected: str) -> None:
    assert kernels.readable(label) == expected


def test_no_two_kernels_have_one_name() -> None:
    labels = [f"void splitKreduce_kernel<(int)32, (bool){n}>(int *)" for n in range(3)]
    assert len(set(kernels.names(labels).values())) == 3


@pytest.mark.slow
def test_descriptors_stand_in_no_caption() -> None:
    record = models.roofline(
        [models.point(CONVOLUTION, role="worker", kind="kernel")],
        [models.xeon_roof()],
        notes=[f"too few calls of {GEMM} were timed"],
    )
    _, texts = drawn(record)
    whole = " ".join(texts)
    assert "mb16" not in whole and "*,*" not in whole
    assert seen_text(texts, "too few calls of gemm 1024×32×768 TN were timed")
    _, texts = drawn(time_roofline(v100([time_point(CONVOLUTION), time_point(GEMM, 1e9, 1e9)])), "time")
    assert "mb16" not in " ".join(texts)
    assert seen_text(texts, "2 gemm 1024×32×768 TN (90")


@pytest.mark.slow
def test_kernels_without_a_sign_are_named() -> None:
    points = [time_point(f"kernel {n}", 1e12 * 1.5**n, 1e10, 0.1 / (n + 1)) for n in range(15)]
    _, texts = drawn(time_roofline(v100(points)), "time")
    assert seen_text(texts, "Drawn without a name: kernel 12 (7.69 ms), kernel 13 (7.14 ms) and 1 more.")


@pytest.mark.slow
def test_bars_of_steps_are_of_steps() -> None:
    for kind, what in (("kernel", "launches"), ("step", "steps")):
        _, texts = drawn(time_roofline(v100([time_point(kind=kind)])), "time")
        assert f"5 to 95 % of {what}" in texts
