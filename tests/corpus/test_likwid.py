"""LIKWID: the numbers of the corpus."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.likwid import reader as likwid

from tests.agent.recorded.reading import read_file, said
from tests.recordings import Oracle, corpus, meets, oracles

pytestmark = pytest.mark.corpus


def answer(found: Collector, quantity: str) -> float | None:
    named = bool(values(found, "dram_read_bytes"))
    match quantity:
        case "rows":
            return float(found.facts["rows"])
        case "Σ read volume":
            return (
                sum(v or 0 for v in values(found, "dram_read_bytes")) / 1e9
                if named
                else column(found, 10, sum)
            )
        case "Σ write volume":
            return (
                sum(v or 0 for v in values(found, "dram_write_bytes")) / 1e9
                if named
                else column(found, 12, sum)
            )
        case "max bandwidth":
            rates = [v or 0 for v in values(found, "dram_bytes_per_s")]
            return max(rates) / 1e6 if named else column(found, 13, max)
    pytest.fail(f"no such quantity: {quantity}")


def column(found: Collector, number: int, put_together) -> float:  # type: ignore[no-untyped-def]
    return float(put_together(v or 0 for v in values(found, f"column {number}")))


@pytest.mark.parametrize("with_header", [True, False])
@pytest.mark.parametrize("oracle", oracles("likwid"), ids=str)
def test_recorded_file_gives_its_number(oracle: Oracle, with_header: bool) -> None:
    path = corpus(oracle.file)
    beside = Path(path).with_suffix(".out")
    found = read_file(likwid.read, path, (beside.read_text(),) if with_header else ())
    assert meets(oracle, answer(found, oracle.quantity))
    assert said(found, "no header") != with_header


def values(found: Collector, name: str) -> list[float | None]:
    return [c.value for c in found.counters if name in (c.metric, c.event)]


def test_columns_of_ranks_are_kept_and_their_sum_is_not_added() -> None:
    found = read_file(likwid.read, corpus("likwid/clx_l3_perfctr_table.txt"))
    instructions = [c for c in found.counters if c.event == "INSTR_RETIRED_ANY"]
    assert len(instructions) == 48
    assert sum(c.value or 0 for c in instructions) == 29556337600  # the Sum column, which is not taken
    assert instructions[1].scope == "region reg, host sonata, rank 1, hwthread 25"
    assert found.run is not None
    assert found.run.time_s == 0.3975


@pytest.mark.slow
def test_old_time_line_goes_metric_by_metric_over_its_cores() -> None:
    found = read_file(likwid.read, corpus("likwid/snb_nas_bt_timeline_oldformat.log"))
    assert found.facts["rows"] == 334
    assert len(found.counters) == 334 * 7 * 32
    clocks = [c for c in found.counters if c.event == "column 7"]
    assert clocks[0].value == pytest.approx(2406.0595569703)
    assert clocks[0].scope == "hwthread 0"
    assert clocks[1].scope == "hwthread 2"


def test_zeros_of_a_refused_memory_controller_are_no_values() -> None:
    path = corpus("likwid/hsw_ep_mem_parallel.err")
    found = read_file(likwid.read, path, (Path(path).with_suffix(".out").read_text(),))
    assert set(values(found, "dram_bytes")) == {None}
    assert said(found, "several processes")
    assert found.run is not None
    assert dict(found.run.bytes) == {}
