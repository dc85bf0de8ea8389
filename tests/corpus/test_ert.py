"""The Empirical Roofline Toolkit: the numbers of the corpus."""

from __future__ import annotations

import pytest
from roofline_agent.recorded import ert
from roofline_agent.recorded.collector import Collector

from tests.agent.recorded.reading import read_file
from tests.recordings import Oracle, corpus, meets, oracles

pytestmark = pytest.mark.corpus


def ceilings(found: Collector) -> dict[str, float]:
    return {one.name: one.value for one in found.ceilings}


def answer(found: Collector, quantity: str) -> float | None:
    part, _, name = quantity.partition(" ")
    if part == "gbytes":
        return ceilings(found)[f"{name.lower()}.ert"] / 1e9
    if part == "gflops" and name in ("GFLOPs", "FP64 GFLOPs"):
        return ceilings(found)["peak.f64"] / 1e9
    pytest.fail(f"no such quantity: {quantity}")


@pytest.mark.parametrize("oracle", oracles("ert"), ids=str)
def test_recorded_file_gives_its_number(oracle: Oracle) -> None:
    assert meets(oracle, answer(read_file(ert.read, corpus(oracle.file)), oracle.quantity))


def test_recorded_point_of_a_sweep_is_read() -> None:
    found = read_file(ert.read, corpus("ert/p100_sum.txt"))
    assert ceilings(found) == pytest.approx(
        {"peak.f64": 11.03e9, "l1.ert": 176.44e9, "l2.ert": 102.18e9, "l3.ert": 45.7e9, "l4.ert": 22.9e9,
         "dram.ert": 18.3e9}
    )  # fmt: skip
