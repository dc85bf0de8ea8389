from __future__ import annotations

import os
from pathlib import Path

from roofline_agent.records import SourceSettings
from roofline_agent.sources import SOURCES
from roofline_agent.sources.own import AgentSource

S = 1_000_000_000


def test_row_once_a_second_with_cpu_time_and_resident_memory(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "statm").write_text("900 300 20 1 0 200 0\n")
    moments, spent = iter([S, S + S // 10, 2 * S]), iter([5, 9])
    settings = SourceSettings(proc=str(tmp_path), clock=lambda: next(moments))
    source = AgentSource(settings, lambda: next(spent))
    page = os.sysconf("SC_PAGE_SIZE")
    first, second, third = source.sample([]), source.sample([]), source.sample([])
    assert [(row.rank, row.time_ns, row.values) for row in first] == [(None, S, (5, 300 * page))]
    assert second == []
    assert third[0].values == (9, 300 * page)
    source.close()


def test_memory_that_cannot_be_read_is_absent(tmp_path: Path) -> None:
    (row,) = AgentSource(SourceSettings(proc=str(tmp_path)), lambda: 7).sample([])
    assert row.values == (7, None)


def test_this_process_is_what_it_reads() -> None:
    source = SOURCES["agent"](SourceSettings())
    assert source.probe().works
    (row,) = source.sample([])
    cpu_ns, resident = row.values
    assert cpu_ns and cpu_ns > 0
    assert resident and resident > 1 << 20
    source.close()
