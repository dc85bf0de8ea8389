"""dcgm-exporter: the numbers of the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.recorded.traces import read
from tests.recordings import corpus, corpus_files

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("path", corpus_files("dcgm"), ids=lambda path: path.name)
def test_every_sample_is_a_counter(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line.startswith("DCGM_FI_")]
    got = read(str(path))
    assert got.tool == "dcgm-exporter"
    assert [one.event for one in got.counters] == [line.partition("{")[0] for line in lines]
    sentinel = [line.endswith(" 9223372036854775794") for line in lines]
    assert [one.value is None for one in got.counters] == sentinel


def test_gpu_and_its_parts_stand_side_by_side() -> None:
    got = read(corpus("dcgm/a100_mig.prom"))
    tensor = {one.scope: one.value for one in got.counters if one.metric == "gpu.tensor_active"}
    assert tensor == {"gpu 0": 0.92926, "gpu 0 instance 13": 0.930433}
