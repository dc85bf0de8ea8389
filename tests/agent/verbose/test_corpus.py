"""Other people's logs against the rates stated for them; skipped where they are not beside the project."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from roofline_agent.records import TimedCall
from roofline_agent.verbose import VerboseFilter

CORPUS = Path(__file__).parents[4] / "shared" / "corpus"
LOGS = sorted((CORPUS / "onednn").glob("*.log"))

pytestmark = pytest.mark.skipif(not LOGS, reason="no corpus beside the project")


def oracles() -> list[dict[str, object]]:
    if not (CORPUS / "oracles.json").exists():
        return []
    entries = json.loads((CORPUS / "oracles.json").read_text())
    return [entry for entry in entries if entry["file"].startswith("onednn/")]


def calls_in(path: Path) -> list[TimedCall]:
    verbose = VerboseFilter()
    verbose.feed(path.read_bytes(), 0)
    verbose.finish()
    return verbose.take()


@pytest.mark.parametrize("oracle", oracles(), ids=lambda oracle: str(oracle["file"]))
def test_stated_rates(oracle: dict[str, object]) -> None:
    rates = [
        call.shape.flops / call.duration_ns
        for call in calls_in(CORPUS / str(oracle["file"]))
        if call.shape.flops and call.shape.operation in ("convolution", "matmul")
    ]
    assert rates[0] == pytest.approx(oracle["value"], rel=float(str(oracle["rel_tol"])))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.stem)
def test_every_executed_primitive_that_is_whole_becomes_a_call(log: Path) -> None:
    whole = re.compile(r"_verbose,(v1,)?(primitive,)?exec,.*,[0-9.]+$")
    lines = log.read_text().splitlines()
    assert len(calls_in(log)) == sum(bool(whole.search(line)) for line in lines)
