"""What is known of every step of a rank."""

from __future__ import annotations

import pytest
from roofline_server.report.verdict.signals import kernel_threads


@pytest.mark.parametrize(
    ("facts", "threads"),
    [
        ({"setting.OMP_NUM_THREADS": "1"}, 1),
        ({"setting.OMP_NUM_THREADS": "1", "setting.intra_op_threads": "2"}, 2),
        ({"setting.OMP_NUM_THREADS": "4,2"}, None),
        # TensorFlow's threads are not OpenMP's, and its main thread computes nothing.
        ({"setting.OMP_NUM_THREADS": "1", "hook.tf_function": "installed"}, None),
        ({}, None),
    ],
)
def test_threads_of_a_kernel_are_those_of_the_framework(facts: dict[str, str], threads: int | None) -> None:
    assert kernel_threads(facts) == threads
