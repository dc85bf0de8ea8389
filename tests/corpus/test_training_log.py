"""tf_cnn_benchmarks: the numbers of the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.recorded.collector import Collector

from tests.agent.recorded.traces import read, read_once
from tests.recordings import Oracle, corpus, corpus_files, meets, oracles

pytestmark = pytest.mark.corpus


def value(quantity: str, got: Collector) -> float | None:
    """An oracle's quantity; fails on one that nobody mapped."""
    assert got.throughput is not None
    steps = list(got.steps)
    return (
        {
            "step lines": got.throughput.step_lines,
            "last step line images/sec": got.throughput.last_examples_per_s,
            "total images/sec": got.throughput.examples_per_s,
        }[quantity]
        if len(steps) == got.throughput.step_lines
        else None
    )


@pytest.mark.parametrize("oracle", oracles("tf_cnn"), ids=str)
def test_file_gives_its_number(oracle: Oracle) -> None:
    assert meets(oracle, value(oracle.quantity, read_once(corpus(oracle.file))))


@pytest.mark.parametrize("path", corpus_files("tf_cnn"), ids=lambda path: path.name)
def test_every_log_is_read_whole(path: Path) -> None:
    got = read(str(path))
    assert got.tool == "tf_cnn_benchmarks"
    assert got.throughput is not None and got.throughput.speaks_for == "all ranks"
    assert got.warnings == []
    assert {"model", "devices", "variable_update", "batch_size_global", "batch_size_per_device"} <= set(
        got.facts
    )
