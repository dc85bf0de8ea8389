"""Colours of kernels: the same in every job, and all different in one plot."""

from __future__ import annotations

import pytest
from roofline_client.plots import part_colours


def test_a_kind_of_kernel_has_its_colour_in_every_job() -> None:
    some = ["convolution forward_training", "gemm", "reorder", "strange_kernel"]
    others = ["aaa", "eltwise", *some]
    found, again = part_colours.of_kernels(some), part_colours.of_kernels(reversed(others))
    assert {name: again[name] for name in some} == found
    assert len(set(again.values())) == len(again)


def test_many_kernels_of_a_family_differ() -> None:
    names = [f"ampere_sgemm_{n}x{n}" for n in range(8)]
    found = part_colours.of_kernels(names)
    assert len(set(found.values())) == 8
    assert part_colours.of_kernels(reversed(names)) == found  # whichever took most time


@pytest.mark.parametrize(
    ("towards", "expected"), [(0.0, "#804000"), (1.0, "#FFFFFF"), (-1.0, "#000000"), (0.5, "#C0A080")]
)
def test_shades(towards: float, expected: str) -> None:
    assert part_colours.shaded("#804000", towards) == expected
