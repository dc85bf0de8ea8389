"""What steps are made of: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import breakdowns as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.phases_known([]),
            "no hook marks the phases of its steps",
        ),
        (
            texts.phases_known(["input", "forward"], ["worker:0", "worker:1"]),
            "of the phases of the steps of worker:0, worker:1 hooks mark only input, forward",
        ),
        (
            texts.no_phases_at_all(texts.phases_known([])),
            "no hook marks the phases of its steps: all kernels are outside any phase",
        ),
        (
            texts.width("f32", "256-bit"),
            "f32 256-bit",
        ),
        (
            texts.wider_vectors(512, "f32", 0.4),
            "these CPUs have 512-bit vectors in FP32: in all 40% of the FLOPs could use wider ones",
        ),
        (
            texts.accesses(texts.OF_TENSORS, 64, None),
            "bytes of tensors over 64 bytes",
        ),
        (
            texts.accesses(texts.COUNTED_TRAFFIC, 64, 2.0),
            "counted traffic over 64 bytes; 128 FLOPs an access",
        ),
        (
            texts.outside_steps(1200),
            "1,200 kernels lie in none of these steps, or in one that was not watched in full",
        ),
        (
            texts.outside_steps(1),
            "1 kernel lies in none of these steps, or in one that was not watched in full",
        ),
        (
            texts.other_kinds(7),
            "7 other kinds",
        ),
        (
            texts.other_kinds(1),
            "1 other kind",
        ),
        (
            texts.launched(2.5, 1),
            "2.5 s from its start to its first step, over 1 step",
        ),
        (
            texts.on_gpu("gemm"),
            "gemm (GPU)",
        ),
        (
            texts.launches(1),
            "1 launch",
        ),
        (
            texts.launches_without_known_flops(2),
            "2 launches; its FLOPs are not known",
        ),
        (
            texts.launches_without_flops(1.5),
            "1.5 launches; it only moves data: no FLOPs",
        ),
        (
            texts.launches_at(2, 5e9),
            "2 launches at 5 GFLOP/s",
        ),
        (
            texts.mean_over(1, 0),
            "in the whole run",
        ),
        (
            texts.mean_over(2, 0),
            "in the whole run; mean of 2 ranks",
        ),
        (
            texts.mean_over(2, 1200),
            "a step; mean over 1,200 steps of 2 ranks",
        ),
        (
            texts.mean_over(1, 1),
            "a step; mean over 1 step",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
