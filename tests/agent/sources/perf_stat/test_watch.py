"""A perf that runs and says nothing is complained of, and one that counts is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_agent.sources.perf_stat import watch as watching
from roofline_agent.sources.perf_stat.totals import Totals
from roofline_agent.sources.perf_stat.watch import Watch

from tests.fakes import wait_for

from ..fake_tools import script

SILENT = "exec sleep 60"


@pytest.fixture
def silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    monkeypatch.setattr(watching, "SILENT_NS", 50_000_000)
    path = str(script(tmp_path, SILENT))
    made = Watch(lambda interval_ms: [path], Totals([]))
    yield made
    made.end()


def test_perf_that_prints_nothing_is_complained_of(silent: Watch) -> None:
    assert silent.take(10) == []
    assert silent.complaint == "", "it has just been started"

    def complained() -> str:
        silent.take(10)
        return silent.complaint

    assert wait_for(complained) == "perf runs, but has printed no interval yet"
