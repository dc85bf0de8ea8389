"""oneDNN's verbose lines: the rates stated for other people's logs, read whole and as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from roofline_agent.records import TimedCall
from roofline_agent.verbose import VerboseFilter

from tests.agent.recorded.traces import read
from tests.recordings import Oracle, corpus, corpus_files, meets, oracles

pytestmark = pytest.mark.corpus


@pytest.mark.parametrize("oracle", oracles("onednn"), ids=str)
def test_stated_rates(oracle: Oracle) -> None:
    operation = {"conv": "convolution", "matmul": "matmul"}[oracle.quantity.partition(" ")[0]]
    kernels = [one for one in read(corpus(oracle.file)).kernels if one.name.startswith(operation)]
    assert len(kernels) == 1
    rate = kernels[0].flops_per_s
    assert rate is not None
    assert meets(oracle, rate / 1e9)


@pytest.mark.parametrize("path", corpus_files("onednn"), ids=lambda path: path.name)
def test_every_file_of_others_gives_something(path: Path) -> None:
    found = read(str(path))
    assert found.tool == "onednn"
    assert found.kernels or any("no whole line of an executed" in w.text for w in found.warnings)


def test_a_log_that_ends_inside_a_creation_says_so() -> None:
    found = read(corpus("onednn/dnnl_v1.7.0_dlprof_create_exec.log"))
    assert [one.line for one in found.warnings] == [15]
    assert (found.version, found.facts["creates"]) == ("1.7.0", 6)


def calls_in(path: Path) -> list[TimedCall]:
    verbose = VerboseFilter()
    verbose.feed(path.read_bytes(), 0)
    verbose.finish()
    return verbose.take()


@pytest.mark.parametrize("oracle", oracles("onednn"), ids=str)
def test_stated_rates_of_live_calls(oracle: Oracle) -> None:
    rates = [
        call.shape.flops / call.duration_ns
        for call in calls_in(Path(corpus(oracle.file)))
        if call.shape.flops and call.shape.operation in ("convolution", "matmul")
    ]
    assert rates[0] == pytest.approx(oracle.value, rel=oracle.rel_tol)


@pytest.mark.parametrize("log", corpus_files("onednn"), ids=lambda path: path.stem)
def test_every_executed_primitive_that_is_whole_becomes_a_call(log: Path) -> None:
    whole = re.compile(r"_verbose,(v1,)?(primitive,)?exec,.*,[0-9.]+$")
    lines = log.read_text().splitlines()
    assert len(calls_in(log)) == sum(bool(whole.search(line)) for line in lines)
