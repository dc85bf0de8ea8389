"""nvprof: the numbers of the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.recorded.gpu_pages import read_file
from tests.recordings import corpus, corpus_files

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("path", corpus_files("nvprof"), ids=lambda path: path.name)
def test_every_file_is_read(path: Path) -> None:
    found = read_file(str(path))
    assert found.kernels
    assert not found.warnings


def test_recorded_means_are_multiplied_by_the_invocations() -> None:
    found = read_file(corpus("nvprof/nvprof_k20c_stencil_metrics.csv"))
    [one] = found.kernels
    assert (one.launches, one.flops, one.precision) == (3, 3 * 3611549214, "f32")
    assert (one.time_s, dict(one.bytes)) == (None, {})
    stalls = next(c for c in found.counters if c.event == "stall_sync")
    assert (stalls.value, stalls.unit, stalls.printed) == (pytest.approx(0.15575569), "1", 15.575569)


def test_recorded_table_for_people_is_read() -> None:
    found = read_file(corpus("nvprof/nvprof_gtx1070_metrics_human.txt"))
    assert (found.kernels[0].name, found.kernels[0].launches) == ("GOL(int, int*, int*)", 2)
    assert found.facts["device"] == "GeForce GTX 1070"
    rate = found.counters[0]
    assert (rate.event, rate.unit) == ("dram_read_throughput", "byte/s")
    assert rate.value == pytest.approx(64.923 * 2**30)
