"""The timeline: what every rank did when, row by row in order of time; and the raw data of a job."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from roofline_server.chunks import Chunk
from roofline_server.errors import UnknownRank
from roofline_server.records import ABSENT
from roofline_server.report.evidence.mode import mode_of
from roofline_server.report.questions import ALL_STEPS, Steps
from roofline_server.report.steps import timeline as timelines
from roofline_server.report.steps.steps import NEEDED
from roofline_server.store import export as exporting
from roofline_server.store import raw_data
from roofline_server.store.export import export
from roofline_server.store.store import Store

from ...builders import BEGIN, END, MS, UNIX, Node, S, batch, calls, kernel, marks, rank, spans, training

A = Node("a", UNIX, "hosta")
FIRST = 100 * S
RANKS = [rank(index=0), rank(index=1, pid=101)]


def told(store: Store, seal: bool = False, layer: str = "") -> Store:
    """Two ranks with ten steps of 100 ms, each with an input phase, a collective and a kernel call."""
    A.greet(store)
    called_for = kernel()
    called_for.layer = layer
    for half in range(2):
        said, told, called = [], [], []
        for r in range(2):
            for k in range(half * 5, half * 5 + 5):
                at = FIRST + k * 100 * MS
                said += [(r, BEGIN, k, 32, at), (r, END, k, 32, at + 99 * MS)]
                told.append((r, "phase.input", at, at + 10 * MS, ABSENT, 1))
                told.append((r, "engine.allreduce", at + 50 * MS, at + 90 * MS, 4000, 2))
                called.append((r, 0, at + 20 * MS, 5 * MS))
        # The newer first, as they may arrive.
        sent = {"marks": marks(said[::-1]), "spans": spans(told[::-1]), "calls": calls(called[::-1])}
        begin = FIRST + half * S
        A.put(store, batch(1 + half, begin, begin + S, ranks=RANKS, kernels=[called_for], **sent))
        if seal:
            store.seal()
    return store


def chunks_of(store: Store, *ranks: str, steps: Steps = ALL_STEPS, kernels: bool = False) -> list[Chunk]:
    view, raw = store.view("job", NEEDED), store.raw("job")
    assert view is not None and raw is not None
    return list(timelines.timeline(view, raw, ranks, steps, mode_of(view), kernels))


def rows_of(found: list[Chunk]) -> list[dict[str, Any]]:
    rows = []
    for chunk in found:
        for at in range(chunk.rows):
            row = {c.name: c.values[at] for c in chunk.columns}
            rows.append({n: v for n, v in row.items() if v == v and v != ABSENT and v != ""})
    return rows


def of(rows: list[dict[str, Any]], rank: str, row: str) -> list[dict[str, Any]]:
    return [one for one in rows if one.get("rank") == rank and one["row"] == row]


def test_it_begins_with_the_job_its_clocks_and_ranks(store: Store) -> None:
    rows = rows_of(chunks_of(told(store)))
    assert [row["row"] for row in rows[:4]] == ["job", "clock", "rank", "rank"]
    assert rows[0]["name"] == "job" and rows[0]["mode"] == "synchronous"
    assert rows[1]["host"] == "hosta" and rows[1]["error"] > 0
    assert [(row["rank"], row["host"]) for row in rows[2:4]] == [("worker:0", "hosta"), ("worker:1", "hosta")]


@pytest.mark.parametrize("seal", [False, True])
def test_nothing_happens_before_the_begin(store: Store, seal: bool) -> None:
    """What a rank did before its agent met it is told late; readers of traces drop times before the begin."""
    A.greet(store)
    early = spans([(0, "phase.input", FIRST - 5 * S, FIRST - 4 * S, ABSENT, 1)])
    said = marks([(0, BEGIN, 0, 32, FIRST - 3 * S), (0, END, 0, 32, FIRST)])
    A.put(store, batch(1, FIRST, FIRST + S, ranks=RANKS, spans=early, marks=said))
    if seal:
        store.seal()
    rows = rows_of(chunks_of(store))
    assert min(row["begin_ns"] for row in rows) == rows[0]["begin_ns"] == UNIX + FIRST - 5 * S


@pytest.mark.parametrize("seal", [False, True])
def test_steps_phases_and_collectives_of_each_rank(store: Store, seal: bool) -> None:
    rows = rows_of(chunks_of(told(store, seal), kernels=True))
    for who in ("worker:0", "worker:1"):
        steps = of(rows, who, "steps")
        assert [(s["name"], s["begin_ns"], s["end_ns"]) for s in steps] == [
            (f"step {k}", UNIX + FIRST + k * 100 * MS, UNIX + FIRST + k * 100 * MS + 99 * MS)
            for k in range(10)
        ]
        assert steps[3]["step"] == 3 and steps[3]["examples"] == 32
        assert [s["name"] for s in of(rows, who, "phases")] == ["input"] * 10
        engine = of(rows, who, "engine")
        assert [(s["name"], s["count"], s["bytes"]) for s in engine] == [("allreduce", 2, 4000)] * 10
        executed = of(rows, who, "kernels")
        assert [(s["name"], s["flops"]) for s in executed] == [("onednn matmul", 1000)] * 10


def test_rows_come_in_order_of_time(store: Store) -> None:
    rows = rows_of(chunks_of(told(store), kernels=True))
    for who in ("worker:0", "worker:1"):
        for row in ("steps", "phases", "engine", "kernels"):
            begins = [one["begin_ns"] for one in of(rows, who, row)]
            assert begins == sorted(begins) and len(begins) == 10


def test_kernels_only_when_asked_for(store: Store) -> None:
    assert of(rows_of(chunks_of(told(store))), "worker:0", "kernels") == []


def test_kernels_are_bounded_and_that_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timelines, "MAX_KERNELS", 13)
    found = chunks_of(told(store), kernels=True)
    rows = rows_of(found)
    assert [len(of(rows, who, "kernels")) for who in ("worker:0", "worker:1")] == [10, 3]
    assert "only 13 of 20 kernels" in " ".join(note for chunk in found for note in chunk.notes)


@pytest.mark.parametrize("seal", [False, True])
def test_ranks_beyond_the_most_kernels_have_none(
    store: Store, monkeypatch: pytest.MonkeyPatch, seal: bool
) -> None:
    monkeypatch.setattr(timelines, "MAX_KERNELS", 10)
    found = chunks_of(told(store, seal, "Net/a"), kernels=True)
    rows = rows_of(found)
    assert [len(of(rows, who, "kernels")) for who in ("worker:0", "worker:1")] == [10, 0]
    assert "only 10 of 20 kernels" in " ".join(note for chunk in found for note in chunk.notes)


@pytest.mark.parametrize("seal", [False, True])
def test_only_kernels_that_are_asked_for_count(
    store: Store, monkeypatch: pytest.MonkeyPatch, seal: bool
) -> None:
    monkeypatch.setattr(timelines, "MAX_KERNELS", 10)
    whole = chunks_of(told(store, seal), "worker:1", kernels=True)
    assert not any("only" in note for chunk in whole for note in chunk.notes), "nothing is cut"
    monkeypatch.setattr(timelines, "MAX_KERNELS", 3)
    some = chunks_of(store, "worker:1", steps=Steps(2, 6), kernels=True)
    assert "only 3 of 5 kernels" in " ".join(note for chunk in some for note in chunk.notes)


def test_little_is_held_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rows_of(chunks_of(told(store)))
    asked: list[int] = []
    read = raw_data.of_ranks

    def of_ranks(raw: Any, dataset: str, ranks: Any, *more: Any) -> Any:
        asked.append(len(ranks))
        return read(raw, dataset, ranks, *more)

    monkeypatch.setattr(timelines, "MAX_HELD", 1)
    monkeypatch.setattr(raw_data, "of_ranks", of_ranks)
    assert rows_of(chunks_of(store)) == whole
    assert asked == [1, 1]


def test_steps_and_ranks_limit_it(store: Store) -> None:
    rows = rows_of(chunks_of(told(store), "worker:1", steps=Steps(3, 4), kernels=True))
    assert {row["rank"] for row in rows if "rank" in row} == {"worker:1"}
    assert [row["name"] for row in of(rows, "worker:1", "steps")] == ["step 3", "step 4"]
    assert len(of(rows, "worker:1", "engine")) == len(of(rows, "worker:1", "kernels")) == 2


def test_rank_that_is_none(store: Store) -> None:
    with pytest.raises(UnknownRank, match="worker:7"):
        chunks_of(told(store), "worker:7")


def test_time_that_nobody_watched_has_a_row(store: Store) -> None:
    A.greet(store)
    sent = training(RANKS[:1], batches=2)
    later = training(RANKS[:1], batches=1, first_ns=200 * S, first_sequence=9)
    A.put(store, *sent, *later)
    (gap,) = of(rows_of(chunks_of(store)), "worker:0", "not watched")
    assert (gap["begin_ns"], gap["end_ns"]) == (UNIX + 110 * S, UNIX + 200 * S)
    assert "dropped" in gap["name"]


def test_curves_say_their_unit(store: Store) -> None:
    A.greet(store)
    A.put(store, *training(RANKS))
    found = chunks_of(store)
    curves = [row for row in rows_of(found) if row["row"] == "counter"]
    assert {row["name"] for row in curves} == {"CPU", "sent"}
    cpu = [row["value"] for row in curves if row["name"] == "CPU"]
    assert cpu == pytest.approx([0.5] * len(cpu), rel=1e-6)
    assert {c.unit for chunk in found for c in chunk.columns if c.name == "value"} == {"cores", "byte/s"}


def test_independent_workers_have_rows_of_their_own_at_the_server(store: Store) -> None:
    A.greet(store)
    made = training([*RANKS, rank(role="ps", pid=103)], stepping=(0, 1))
    for one in made:
        one.marks.flags = np.ones(len(one.marks.flags) // 8, "<i8").tobytes()
    A.put(store, *made)
    rows = rows_of(chunks_of(store))
    kinds = {row["row"] for row in rows if row.get("rank") == "ps:0"}
    assert {"steps of worker:0", "steps of worker:1"} <= kinds and "steps" not in kinds


# -- export --------------------------------------------------------------------------------------------------


def exported(store: Store) -> dict[str, list[dict[str, Any]]]:
    raw = store.raw("job")
    assert raw is not None
    found: dict[str, list[dict[str, Any]]] = {}
    seen: dict[str, tuple[str, ...]] = {}
    for chunk in export(raw):
        names = tuple(c.name for c in chunk.columns)
        assert seen.setdefault(chunk.dataset, names) == names
        found.setdefault(chunk.dataset, []).extend(rows_of([chunk]))
    return found


@pytest.mark.parametrize("seal", [False, True])
def test_raw_data_has_names_and_the_servers_time(store: Store, seal: bool) -> None:
    found = exported(told(store, seal))
    assert {"ranks", "marks", "spans", "calls", "node_events"} <= found.keys()
    assert not any(name.startswith(("steps", "parts")) for name in found)
    assert len(found["marks"]) == 40 and len(found["spans"]) == 40 and len(found["calls"]) == 20
    begin = min(found["marks"], key=lambda row: (row["time_ns"], row["rank"]))
    assert begin == {
        "rank": "worker:0",
        "sender": "worker:0",
        "host": "hosta",
        "time_ns": UNIX + FIRST,
        "node_ns": FIRST,
        "kind": "begin",
        "step": 0,
        "examples": 32,
        "asynchronous": 0,
        "like": 0,
        "start_ns": 5,
    }
    span = next(row for row in found["spans"] if row["name"] == "engine.allreduce")
    assert span["end_ns"] - span["begin_ns"] == 40 * MS and span["node_ns"] == span["begin_ns"] - UNIX
    call = found["calls"][0]
    assert (call["library"], call["operation"], call["precision"]) == ("onednn", "matmul", "f32")
    assert (call["flops"], call["bytes"], call["duration_ns"]) == (1000, 100, 5 * MS)
    assert {row["rank"]: row["pid"] for row in found["ranks"]} == {"worker:0": 100, "worker:1": 101}
    assert {row["kind"] for row in found["node_events"]} == {"batch"}


def test_raw_data_is_the_same_before_and_after_sealing(store: Store) -> None:
    A.greet(store)
    A.put(store, *training(RANKS))
    before = exported(store)
    store.seal()
    after = exported(store)
    assert after == before and len(before["samples_process"]) == 80


def test_columns_are_those_of_all_pieces(store: Store) -> None:
    """A counter that came later is absent before, not missing."""
    told(store, seal=True)
    late = kernel()
    late.dram_bytes = 77
    A.put(
        store,
        batch(
            3,
            FIRST + 2 * S,
            FIRST + 3 * S,
            ranks=RANKS,
            kernels=[late],
            calls=calls([(0, 0, FIRST + 2 * S, 5)]),
        ),
    )
    found = exported(store)["calls"]
    assert [row.get("dram") for row in found] == [None] * 20 + [77]


def test_pieces_of_a_long_dataset_are_small(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    told(store)
    store.seal()
    monkeypatch.setattr(exporting, "PIECE_ROWS", 7)
    raw = store.raw("job")
    assert raw is not None
    sizes = [chunk.rows for chunk in export(raw) if chunk.dataset == "marks"]
    assert max(sizes) <= 7 and sum(sizes) == 40


def test_other_jobs_stay_where_they_are(store: Store) -> None:
    told(store)
    other = Node("b", UNIX, "hostb")
    other.greet(store)
    other.put(store, *training([rank("other")]))
    found = exported(store)
    assert {row["rank"] for row in found["marks"]} == {"worker:0", "worker:1"}
    assert {row["host"] for row in found["node_events"]} == {"hosta"}


def test_nobody_has_heard_of_the_job(store: Store) -> None:
    assert store.raw("x") is None
