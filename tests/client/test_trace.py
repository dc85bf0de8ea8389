"""A timeline as a trace: exact times, slices that never overlap on a thread, read by Perfetto itself."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from roofline.answers.tables import TableChunk
from roofline_client import Refused
from roofline_client.trace import LANES, Written, write_trace

from .chunks import BEGIN, MS, chunk, introductions, slices
from .perfetto import COMPLAINTS, COUNTERS, SLICES, ask, needs_perfetto, never_overlaps

HEAD = chunk("timeline", introductions(), ["a note"])


def pieces(*rows: dict[str, Sequence[Any]]) -> list[TableChunk]:
    return [HEAD, *(chunk("timeline", one) for one in rows)]


def traced(*rows: dict[str, Sequence[Any]]) -> tuple[dict[str, Any], Written]:
    out = io.StringIO()
    found = write_trace(pieces(*rows), out)
    return json.loads(out.getvalue()), found


def shown(trace: dict[str, Any]) -> list[tuple[str, str, str, float, float]]:
    """(process, thread, name, ts, dur) of every slice."""
    events = trace["traceEvents"]
    names = {
        (e["name"], e["pid"], e["tid"] if e["name"] == "thread_name" else 0): e["args"]["name"]
        for e in events
        if e["ph"] == "M" and "name" in e["args"]
    }
    return [
        (
            names["process_name", e["pid"], 0],
            names["thread_name", e["pid"], e["tid"]],
            *(e["name"], e["ts"], e["dur"]),
        )
        for e in events
        if e["ph"] == "X"
    ]


def test_ranks_are_processes_and_rows_are_threads() -> None:
    trace, found = traced(slices("steps", [(0, 10 * MS)]), slices("phases", [(0, MS)], name="input"))
    assert shown(trace) == [
        ("worker:0 @node1", "steps", "steps 0", 0.0, 10_000.0),
        ("worker:0 @node1", "phases", "input", 0.0, 1_000.0),
    ]
    assert found == Written(slices=2, counters=0, ranks=2, dropped=0, notes=["a note"])


def test_the_trace_says_what_it_is_of() -> None:
    about = traced()[0]["otherData"]
    assert about["job"] == "42" and about["begin_unix_ns"] == BEGIN and about["mode"] == "synchronous"
    assert about["clock_error_s"] == {"node1": 2.5e-5}


def test_nanoseconds_are_kept() -> None:
    day = 86_400_000_000_000
    trace, _ = traced(slices("steps", [(10 * day + 123, 10 * day + 124), (10 * day + 125, 10 * day + 132)]))
    times = [(round(ts * 1000), round(dur * 1000)) for *_, ts, dur in shown(trace)]
    assert times == [(10 * day + 123, 1), (10 * day + 125, 7)]


def test_time_before_the_begin_is_negative() -> None:
    trace, _ = traced(slices("steps", [(-1_500, 500)]))
    assert shown(trace)[0][3:] == (-1.5, 2.0)


def test_what_overlaps_goes_to_another_thread() -> None:
    trace, _ = traced(slices("engine", [(0, 30), (10, 40), (30, 50), (35, 36), (60, 70)]))
    assert [(thread, name) for _, thread, name, *_ in shown(trace)] == [
        ("engine", "engine 0"),
        ("engine 2", "engine 1"),
        ("engine", "engine 2"),
        ("engine 3", "engine 3"),
        ("engine", "engine 4"),
    ]


def test_no_more_threads_than_can_be_looked_at() -> None:
    _, found = traced(slices("kernels", [(at, 10_000) for at in range(LANES + 3)]))
    assert (found.slices, found.dropped) == (LANES, 3)


def test_stretch_of_which_nothing_can_be_drawn_is_dropped_and_counted() -> None:
    busy = slices("kernels", [(at, 10_000) for at in range(LANES)])
    _, found = traced(busy, slices("kernels", [(100, 200), (150, 300)], flops=[1, 2]))
    assert (found.slices, found.dropped) == (LANES, 2)


def test_threads_have_numbers_in_the_order_of_the_rows() -> None:
    rows = ("kernels", "engine", "asked", "phases", "steps of worker:1", "steps", "something new")
    trace, _ = traced(*(slices(row, [(0, 1)]) for row in rows))
    threads = {e["args"]["name"]: e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert len(set(threads.values())) == len(rows)
    order = sorted(threads, key=lambda name: threads[name])
    assert order[2:] == ["phases", "asked", "engine", "kernels", "something new"]


def test_arguments_are_what_is_known() -> None:
    trace, _ = traced(slices("steps", [(0, 1), (2, 3)], step=[12, 13], cpu_time=[0.25, None]))
    assert [e["args"] for e in trace["traceEvents"] if e["ph"] == "X"] == [
        {"step": 12, "cpu_time": 0.25},
        {"step": 13},
    ]


def curve(times: Sequence[tuple[int, int]], values: Sequence[float], name: str = "CPU") -> TableChunk:
    made = chunk("timeline", slices("counter", times, name=name, value=values))
    return made._replace(columns=[c._replace(unit="cores") if c.name == "value" else c for c in made.columns])


def samples(*curves: TableChunk) -> tuple[list[tuple[str, float, float]], Written]:
    """(name, ts, value) of every sample of a curve, and what was written."""
    out = io.StringIO()
    found = write_trace([HEAD, *curves], out)
    events = [e for e in json.loads(out.getvalue())["traceEvents"] if e["ph"] == "C"]
    return [(e["name"], e["ts"], e["args"]["cores"]) for e in events], found


def test_curves_of_a_rank() -> None:
    shown, found = samples(curve([(0, 1000), (1000, 2000)], [0.5, 1.5]))
    assert shown == [("CPU", 0.0, 0.5), ("CPU", 1.0, 1.5), ("CPU", 2.0, 0)]
    assert found.counters == 2


def test_curve_falls_to_nothing_where_nothing_was_measured() -> None:
    # Steps that follow each other are a little apart.
    times = [(0, 1000), (1001, 2000), (2100, 3000), (9000, 10_000)]
    shown, _ = samples(curve(times, [1.0, 2.0, 3.0, 4.0]))
    expected = [(0.0, 1.0), (1.001, 2.0), (2.0, 0), (2.1, 3.0), (3.0, 0), (9.0, 4.0), (10.0, 0)]
    assert [(ts, value) for _, ts, value in shown] == expected


def test_curve_that_comes_in_pieces_is_one() -> None:
    own = [curve([(0, 1000)], [1.0]), curve([(1000, 2000)], [2.0]), curve([(5000, 6000)], [3.0])]
    shown, found = samples(*own, curve([(0, 1000)], [7.0], name="sent"))
    expected = [(0.0, 1.0), (1.0, 2.0), (2.0, 0), (5.0, 3.0), (6.0, 0)]
    assert [(ts, value) for name, ts, value in shown if name == "CPU"] == expected
    assert [(ts, value) for name, ts, value in shown if name == "sent"] == [(0.0, 7.0), (1.0, 0)]
    assert found.counters == 4


def test_names_cannot_steer_what_shows_them() -> None:
    trace, _ = traced(slices("steps", [(0, 1)], name='a"\n\x1b[31mb'))
    assert shown(trace)[0][2] == 'a"??[31mb'


@pytest.mark.parametrize("first", [[], [chunk("timeline", slices("steps", [(0, 1)]))]])
def test_what_is_no_timeline_is_refused(first: list[TableChunk]) -> None:
    with pytest.raises(Refused, match="timeline"):
        write_trace(first, io.StringIO())


@needs_perfetto
def test_perfetto_reads_it_as_it_is_meant(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    cores = slices("counter", [(0, 10 * MS), (10 * MS, 20 * MS)], name="CPU", value=[0.5, 1.5])
    rows = [
        slices("steps", [(k * 10 * MS, k * 10 * MS + 9 * MS + 7) for k in range(20)]),
        slices("steps", [(k * 10 * MS, k * 10 * MS + 11 * MS) for k in range(20)], rank="ps:0"),
        slices("engine", [(0, 30 * MS), (10 * MS, 40 * MS), (30 * MS, 30 * MS)]),
        slices("phases", [(MS, 2 * MS)], name='with "quotes" and ä'),
        cores,
    ]
    with path.open("w") as out:
        written = write_trace(pieces(*rows), out)
    found, curves, complaints = ask(path, SLICES, COUNTERS, COMPLAINTS)
    assert complaints == []
    assert len(found) == written.slices == 44
    assert [c["value"] for c in curves] == [0.5, 1.5, 0.0]
    steps = [s for s in found if (s["process"], s["thread"]) == ("worker:0 @node1", "steps")]
    assert [(s["begin_ns"], s["lasts_ns"]) for s in steps] == [(k * 10 * MS, 9 * MS + 7) for k in range(20)]
    assert {s["name"] for s in found} >= {'with "quotes" and ä', "steps 19"}
    never_overlaps(found)
