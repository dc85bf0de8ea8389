"""What is known of every step of a rank."""

from __future__ import annotations

import numpy as np
import pytest
from roofline_server.model.evidence import StepEvidence
from roofline_server.report.verdict.signals import grown, grown_in_rounds, kernel_threads

MS = 1_000_000


@pytest.mark.parametrize(
    ("facts", "threads"),
    [
        ({"setting.OMP_NUM_THREADS": "1"}, 1),
        ({"setting.OMP_NUM_THREADS": "1", "setting.intra_op_threads": "2"}, 2),
        ({"setting.OMP_NUM_THREADS": "4,2"}, None),
        # Threads of TensorFlow and JAX are not OpenMP's, and their main thread computes nothing.
        ({"setting.OMP_NUM_THREADS": "1", "hook.tf_function": "installed"}, None),
        ({"setting.OMP_NUM_THREADS": "1", "hook.jax_calls": "installed"}, None),
        ({}, None),
    ],
)
def test_threads_of_a_kernel_are_those_of_the_framework(facts: dict[str, str], threads: int | None) -> None:
    assert kernel_threads(facts) == threads


def test_cpu_time_of_a_part_of_a_round_is_that_of_the_round() -> None:
    """A worker computes for 8 ms in 15 of each 40 ms. Its threads are read every 400 ms, so that its CPU time
    seems to grow evenly: 3 ms in its part."""
    number = np.array([0, 1, 2, 4, 5])  # one is missing
    begin = 40 * MS * number
    end = begin + 15 * MS
    steps = StepEvidence(number, begin, end, np.full(5, 32))
    table = {
        "step": number,
        "begin_ns": begin,
        "end_ns": end,
        "cpu_ns.begin": begin * 0.2,
        "cpu_ns.end": end * 0.2,
    }
    tables = {"steps_process": table}
    assert grown(tables, steps, "process", "cpu_ns") == pytest.approx([0.003] * 5)
    found = grown_in_rounds(tables, steps, "process", "cpu_ns")
    assert found == pytest.approx([np.nan, 0.008, 0.008, np.nan, 0.008], nan_ok=True)
    assert grown_in_rounds({}, steps, "process", "cpu_ns") is None
