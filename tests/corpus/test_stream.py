"""STREAM: the numbers of the corpus."""

from __future__ import annotations

import pytest
from roofline_agent.recorded import stream
from roofline_agent.recorded.collector import Collector

from tests.agent.recorded.reading import read_file
from tests.recordings import Oracle, corpus, meets, oracles

pytestmark = pytest.mark.corpus


def ceilings(found: Collector) -> dict[str, float]:
    return {one.name: one.value for one in found.ceilings}


def answer(found: Collector, quantity: str) -> float | None:
    kernel, _, rest = quantity.partition(" ")
    if rest != "best MB/s":
        pytest.fail(f"no such quantity: {quantity}")
    return ceilings(found)[f"dram.{kernel.lower()}"] / 1e6


@pytest.mark.parametrize("oracle", oracles("stream"), ids=str)
def test_recorded_file_gives_its_number(oracle: Oracle) -> None:
    assert meets(oracle, answer(read_file(stream.read, corpus(oracle.file)), oracle.quantity))


def test_stream_inside_other_output_is_read() -> None:
    found = read_file(stream.read, corpus("perf/hsw_ep_stream_app_stdout.txt"))
    assert ceilings(found)["dram.triad"] == pytest.approx(10021.2e6)


def test_sweep_of_recorded_gpus_keeps_each_rate_and_the_best() -> None:
    found = read_file(stream.read, corpus("stream/gpu_stream.log"))
    assert len(found.counters) == 32
    of_gpus = {(one.name, one.device): one.value for one in found.ceilings}
    assert of_gpus["hbm.triad", "gpu 1"] == pytest.approx(7414.04e9)
    assert not found.warnings
