"""How a value came about: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import origins as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.tensor_bytes_of_idle(0.25),
            (
                "every kernel's tensors once, nothing kept in caches between kernels; 25% of it by kernels "
                "without FLOPs (reorders, copies, element-wise)"
            ),
        ),
        (
            texts.over_bytes(texts.TENSOR_BYTES),
            "over every kernel's tensors once, nothing kept in caches between kernels",
        ),
        (
            texts.left_out("of some"),
            "of some: left out",
        ),
        (
            texts.of_ranks_known(1, 2),
            "; of the 1 of 2 ranks of which both are known",
        ),
        (
            texts.of_ranks_with_flops(1, 2),
            "of the 1 of 2 ranks whose FLOPs are known",
        ),
        (
            texts.interpolated(0.25),
            "interpolated between samples, 0.25 a step: single steps are blurred, the mean is not",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
