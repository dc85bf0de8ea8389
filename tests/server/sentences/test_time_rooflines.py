"""The time-based roofline: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import time_rooflines as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.above_peak(1.2, texts.MEMORY_PEAK),
            (
                "1.2 times what the peak bandwidth allows: caches save traffic that was counted, or the "
                "ceiling was measured too low"
            ),
        ),
        (
            texts.part_of_peak(texts.COMPUTE_PEAK, 2),
            "its half of the shared peak FLOP/s",
        ),
        (
            texts.far_below(0.05, texts.COMPUTE_PEAK),
            "20 times slower than the peak FLOP/s allows: something else limits it",
        ),
        (
            texts.bound_by("computing", 0.85, texts.COMPUTE_PEAK, texts.LOWER_PRECISION),
            "bound by computing, at 85 % of the peak FLOP/s: only a lower precision makes it faster",
        ),
        (
            texts.bound_by("moving data", 0.5, texts.MEMORY_PEAK, ""),
            "bound by moving data, at 50 % of the peak bandwidth",
        ),
        (
            texts.perhaps(
                texts.bound_by("moving data", 0.15, texts.MEMORY_PEAK, texts.faster(0.15, "bytes"))
            ),
            (
                "at best bound by moving data, at 15 % of the peak bandwidth: 6.7 times faster would be "
                "possible with the same bytes, unless few threads, small kernels or stalls limit it"
            ),
        ),
        (
            texts.by_median(texts.LAUNCHING, "calls", 3.0),
            (
                "bound by launching: it takes no longer than starting its kernels costs; make fewer, larger "
                "ones; judged by the median: a few calls took much longer, and the mean is 3 times that"
            ),
        ),
        (
            texts.launches_of_step(1200, "worker", ""),
            "1,200 launches (worker, a step)",
        ),
        (
            texts.launches_of_step(1200, "worker", "42"),
            "1,200 launches (worker, a step, job 42)",
        ),
        (
            texts.jobs_added(2, "a step"),
            "2 jobs added up; of each a step",
        ),
        (
            texts.mean_of_steps(1200),
            "mean of 1,200 steps",
        ),
        (
            texts.replayed(texts.mean_of_steps(3)),
            "mean of 3 steps that ncu replayed; time: the mean of the others",
        ),
        (
            texts.no_precision("n1"),
            "n1: these compute in a precision that is not known: no peak to compare them with",
        ),
        (
            texts.shared_peaks(2, "n1", "gpu 0"),
            "2 ranks share the peaks of n1 gpu 0: one alone does not reach them",
        ),
        (
            texts.points_left_out(1, 0.015),
            "1 more point is left out, 1.5% of the time",
        ),
        (
            texts.points_left_out(12, 0.015),
            "12 more points are left out, 1.5% of the time",
        ),
        (
            texts.no_place("n1", "", "kernel", "bytes are zero", ["a", "b", "c", "d", "e"], 0.0123),
            "n1: kernels whose bytes are zero have no place: a, b, c, d, ... (12.3 ms)",
        ),
        (
            texts.only_without_flops("n1", "", 3, 0.0123),
            "n1: 3 kernels without FLOPs took 12.3 ms, and there are no others",
        ),
        (
            texts.no_launch_overhead("n1", "gpu 0"),
            (
                "no launch overhead of n1 gpu 0 was measured, so there is no overhead box: run "
                "`roofline-agent calibrate --python PATH` there (PATH: the Python of the training)"
            ),
        ),
        (
            texts.kernels_outside(1200),
            "1,200 kernels are left out: they ran outside these steps, or in steps that were only partly "
            "watched",
        ),
        (
            texts.kernels_outside(1),
            "1 kernel is left out: it ran outside these steps, or in steps that were only partly watched",
        ),
        (
            texts.on_no_line("its ranks were started without OMP_NUM_THREADS"),
            "on no sweep line: its ranks were started without OMP_NUM_THREADS",
        ),
        (
            texts.role_of("42", "worker"),
            "42, worker",
        ),
        (
            texts.other_shapes(1),
            (
                "of kernels that differ in their shapes alone, the one that took most time is shown; 1 is "
                "left out"
            ),
        ),
        (
            texts.other_shapes(3),
            (
                "of kernels that differ in their shapes alone, the one that took most time is shown; 3 are "
                "left out"
            ),
        ),
        (
            texts.ceilings_changed("n1", "42"),
            "ceilings of n1 changed between these jobs: those of 42 are drawn",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
