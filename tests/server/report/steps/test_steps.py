"""The table of steps: one row per rank and step, absent where nobody measured, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from roofline.v1 import ingest_pb2 as ipb
from roofline_server.chunks import MAX_BYTES, Chunk, Column, split
from roofline_server.errors import BadRequest, UnknownRank
from roofline_server.query import messages
from roofline_server.records import ABSENT
from roofline_server.report.evidence.mode import mode_of
from roofline_server.report.questions import ALL_STEPS, Steps
from roofline_server.report.steps.steps import NEEDED, steps_table
from roofline_server.sentences import steps as texts
from roofline_server.store.store import Store

from ...builders import BEGIN, END, MS, STEP_NS, UNIX, Node, S, batch, marks, rank, spans, training

A = Node("a", UNIX, "hosta")
FIRST = 100 * S
PAIR = [rank(index=0), rank(index=1, pid=101)]


def chunks_of(store: Store, ranks: Sequence[str] = (), steps: Steps = ALL_STEPS) -> list[Chunk]:
    view = store.view("job", NEEDED)
    assert view is not None
    return list(steps_table(view, ranks, steps, mode_of(view)))


def rows_of(store: Store, ranks: Sequence[str] = (), steps: Steps = ALL_STEPS) -> list[dict[str, Any]]:
    """The rows, absent values left out."""
    found = []
    for chunk in chunks_of(store, ranks, steps):
        for at in range(chunk.rows):
            row = {c.name: c.values[at] for c in chunk.columns}
            found.append({n: v for n, v in row.items() if v == v and v != ABSENT and v != ""})
    return found


def notes_of(store: Store, ranks: Sequence[str] = (), steps: Steps = ALL_STEPS) -> list[str]:
    return [note for chunk in chunks_of(store, ranks, steps) for note in chunk.notes]


@pytest.fixture
def trained(store: Store) -> Store:
    A.greet(store)
    A.put(store, *training(PAIR, stepping=(0, 1)))
    return store


def test_a_row_for_each_rank_and_step(trained: Store) -> None:
    rows = rows_of(trained)
    assert [row["rank"] for row in rows] == sorted(row["rank"] for row in rows)
    mine = [row for row in rows if row["rank"] == "worker:1"]
    assert [row["step"] for row in mine] == list(range(len(mine))) and len(mine) > 50
    third = mine[3]
    assert third["begin_ns"] == UNIX + FIRST + 3 * STEP_NS
    assert third["duration_ns"] == STEP_NS * 9 // 10
    assert third["examples"] == 32


def test_counters_are_the_growth_between_the_borders(trained: Store) -> None:
    """Of the made-up training: CPU time is half of the time, a rank sends (rank + 1) bytes a us."""
    third = next(row for row in rows_of(trained, ["worker:1"]) if row["step"] == 3)
    seconds = third["duration_ns"] / 1e9
    assert third["cpu_time"] == pytest.approx(seconds / 2, rel=1e-9)
    assert third["sent_bytes"] == pytest.approx(seconds * 2e6, rel=1e-6)
    assert third["received_bytes"] == 0  # read, and nothing came: that is a value
    assert third["samples"] in (0, 1)
    assert third["flops"] == 1000 and third["bytes.minimum"] == 100 and third["intensity.minimum"] == 10
    assert third["flops_per_second"] == pytest.approx(1000 / seconds)


def test_sealing_changes_no_row(trained: Store) -> None:
    before = rows_of(trained)
    trained.seal()
    assert rows_of(trained) == before


def test_columns_are_the_same_in_all_pieces_and_none_is_empty(trained: Store) -> None:
    found = chunks_of(trained)
    assert len({tuple(c.name for c in chunk.columns) for chunk in found}) == 1
    names = [c.name for c in found[0].columns]
    assert names[:4] == ["rank", "step", "begin_ns", "duration_ns"]
    assert "window_of" not in names and "input_time" not in names and "flops.measured" not in names


def test_ranks_and_steps_that_are_asked_for(trained: Store) -> None:
    rows = rows_of(trained, ["worker:1", "worker:1"], Steps(5, 7))
    assert [(row["rank"], row["step"]) for row in rows] == [("worker:1", k) for k in (5, 6, 7)]


def test_rank_that_is_none(trained: Store) -> None:
    with pytest.raises(UnknownRank, match=r"no rank 'worker:7'; it has worker:0, worker:1"):
        chunks_of(trained, ["worker:7"])


def test_range_that_cannot_be(trained: Store) -> None:
    with pytest.raises(BadRequest, match="7 to 5"):
        chunks_of(trained, (), Steps(7, 5))


def test_range_outside_says_what_there_is(trained: Store) -> None:
    assert rows_of(trained, (), Steps(900, 901)) == []
    (note,) = notes_of(trained, (), Steps(900, 901))
    assert note.endswith(texts.none_in_range([], 900, 901, (0, 56)))


def test_steps_shorter_than_the_sampling_interval_are_labelled(trained: Store) -> None:
    """The interval is 1 s, a step takes 0.63 s."""
    (note,) = notes_of(trained)
    assert note.startswith("all of the steps are shorter than the sampling interval (1000 ms)")


def test_long_steps_are_not_labelled(store: Store) -> None:
    A.greet(store)
    A.put(store, *training(PAIR[:1], step_ns=3 * S))
    assert notes_of(store) == []
    assert all(row["samples"] >= 2 for row in rows_of(store)[:-1])


def test_a_step_done_again_is_there_twice_in_order_of_time(store: Store) -> None:
    A.greet(store)
    again = [
        (0, kind, k, 32, FIRST + (n * 2 + at) * 100 * MS)
        for n, k in enumerate((0, 1, 0, 1))
        for at, kind in enumerate((BEGIN, END))
    ]
    A.put(store, batch(1, FIRST, FIRST + S, ranks=PAIR[:1], marks=marks(again)))
    rows = rows_of(store)
    assert [row["step"] for row in rows] == [0, 1, 0, 1]
    assert [row["begin_ns"] for row in rows] == sorted(row["begin_ns"] for row in rows)


# -- parameter servers ---------------------------------------------------------------------------------------

SERVED = [rank(index=0), rank(index=1, pid=101), rank(role="ps", pid=102)]


def test_servers_step_is_that_of_all_workers(store: Store) -> None:
    A.greet(store)
    A.put(store, *training(SERVED, stepping=(0, 1)))
    rows = rows_of(store, ["ps:0"])
    assert [row["step"] for row in rows] == list(range(len(rows)))
    third = rows[3]
    assert third["begin_ns"] == UNIX + FIRST + 3 * STEP_NS and "window_of" not in third
    assert third["examples"] == 64
    assert third["sent_bytes"] == pytest.approx(third["duration_ns"] / 1e9 * 3e6, rel=1e-6)
    assert "flops" not in third
    assert any("no steps of their own, ps:0" in note for note in notes_of(store))


def test_servers_rows_of_independent_workers_say_whose_step_it_is(store: Store) -> None:
    A.greet(store)
    made = training(SERVED, stepping=(0, 1))
    for one in made:
        one.marks.flags = np.ones(len(one.marks.flags) // 8, "<i8").tobytes()
    A.put(store, *made)
    rows = [row for row in rows_of(store, ["ps:0"]) if row["step"] == 3]
    assert [row["window_of"] for row in rows] == ["worker:0", "worker:1"]
    assert any("column window_of" in note for note in notes_of(store, ["ps:0"]))
    assert all("window_of" not in row for row in rows_of(store, ["worker:0"]))


# -- spans ---------------------------------------------------------------------------------------------------


def spanned(store: Store) -> None:
    """Ten steps of 100 ms; in each 10 ms of input, 40 ms of collectives, half of them waited for."""
    A.greet(store)
    said, told = [], []
    for k in range(10):
        at = FIRST + k * 100 * MS
        said += [
            (0, BEGIN, k, 32, at),
            (0, END, k, 32, at + 100 * MS),
            (1, BEGIN, k, 32, at),
            (1, END, k, 32, at + 100 * MS),
        ]
        told += [
            (0, "phase.input", at, at + 10 * MS, ABSENT, 1),
            (0, "phase.communicate", at + 70 * MS, at + 90 * MS, ABSENT, 1),
            (0, "asked.allreduce", at + 40 * MS, at + 90 * MS, 4000, 3),
            (0, "asked.broadcast", at + 40 * MS, at + 41 * MS, ABSENT, 1),
            (0, "engine.allreduce", at + 50 * MS, at + 90 * MS, 4000, 1),
            (0, "engine.negotiate", at + 45 * MS, at + 50 * MS, ABSENT, 1),
        ]
    A.put(store, batch(1, FIRST, FIRST + 2 * S, ranks=PAIR, marks=marks(said), spans=spans(told)))


def test_phases_and_collectives(store: Store) -> None:
    spanned(store)
    row = rows_of(store, ["worker:0"])[4]
    assert row["input_time"] == pytest.approx(0.01) and row["communicate_time"] == pytest.approx(0.02)
    assert row["asked.allreduce.count"] == 3 and row["asked.allreduce.bytes"] == 4000
    assert row["asked_count"] == 4 and row["engine_count"] == 1 and row["engine_bytes"] == 4000
    assert row["engine_time"] == pytest.approx(0.04) and row["overlap_time"] == pytest.approx(0.02)
    assert row["engine.negotiate.time"] == pytest.approx(0.005)


def test_bytes_that_nobody_knows_make_no_sum(store: Store) -> None:
    spanned(store)
    assert "asked_bytes" not in rows_of(store, ["worker:0"])[4]


def test_collectives_that_nobody_told_are_absent(store: Store) -> None:
    """Of a step in which the rank was blocked in communication, and no collective is known."""
    A.greet(store)
    said, told = [], []
    for k in range(4):
        at = FIRST + k * 100 * MS
        said += [(0, BEGIN, k, 32, at), (0, END, k, 32, at + 100 * MS)]
        told += [(0, "phase.communicate", at + 70 * MS, at + 90 * MS, ABSENT, 1)] * (k < 3)
        told += [(0, "engine.allreduce", at + 50 * MS, at + 90 * MS, 4000, 1)] * (k == 1)
    A.put(store, batch(1, FIRST, FIRST + S, ranks=PAIR[:1], marks=marks(said), spans=spans(told)))
    rows = rows_of(store)
    assert [row.get("engine_count") for row in rows] == [None, 1, None, 0]
    assert [row.get("engine_time") for row in rows] == [None, pytest.approx(0.04), None, 0]
    assert [row.get("overlap_time") for row in rows] == [None, pytest.approx(0.02), None, 0]
    assert [row.get("engine.allreduce.bytes") for row in rows] == [None, 4000, None, 0]
    assert [row["communicate_time"] for row in rows] == [pytest.approx(0.02)] * 3 + [0]
    assert texts.collectives_of_some(["worker:0"], 2, 4) in notes_of(store)


def test_rank_without_spans_has_none(store: Store) -> None:
    spanned(store)
    row = rows_of(store, ["worker:1"])[4]
    assert not any(name.endswith("_time") or name.startswith(("asked", "engine")) for name in row)


# -- ranks without steps -------------------------------------------------------------------------------------


def test_rank_without_steps_has_windows_of_time(store: Store) -> None:
    A.greet(store)
    A.put(store, *training([rank()], stepping=()))
    for _ in range(2):
        found = rows_of(store)
        assert {row["window_of"] for row in found} == {"time"}
        assert sum(row["cpu_time"] for row in found) == pytest.approx(39 / 2)
        assert sum(row["duration_ns"] for row in found) == 39 * S
        text = "\n".join(notes_of(store))
        assert "no steps of worker:0" in text
        assert texts.windows_of_time(["worker:0"], 5.0) in text
        store.seal()
    assert rows_of(store, steps=Steps(0, 3)) == []


def fact(index: int, text: str) -> ipb.Event:
    return ipb.Event(kind=ipb.EVENT_KIND_FACT, rank=index, begin_ns=FIRST, end_ns=FIRST, text=text)


def test_why_a_rank_has_no_steps(store: Store) -> None:
    A.greet(store)
    ranks = [rank(index=0), *(rank(index=i, pid=100 + i) for i in (1, 2)), rank(role="ps", pid=104)]
    facts = [
        fact(1, "hook.torch_optimizer=installed"),
        fact(2, "hook.horovod_torch=failed: AttributeError"),
    ]
    A.put(store, batch(1, FIRST, FIRST + S, ranks=ranks, events=facts))
    assert rows_of(store) == []
    text = "\n".join(notes_of(store))
    assert texts.no_steps_of(["worker:0"], texts.NOT_MARKED) in text
    assert texts.no_steps_of(["worker:1"], texts.idle_hooks(["torch_optimizer"])) in text
    failed = texts.failed_hooks([("horovod_torch", "failed: AttributeError")])
    assert texts.no_steps_of(["worker:2"], failed) in text
    assert texts.no_steps_of(["ps:0"], texts.NOTHING_SERVED) in text
    assert text.count("--step-regex") == 3


# -- pieces --------------------------------------------------------------------------------------------------


def test_pieces_fit_a_message_and_lose_nothing() -> None:
    texts = np.array([f"a long name of row {at} " * 20 for at in range(30_000)], object)
    whole = Chunk("x", [Column("n", np.arange(30_000)), Column("text", texts)], ["a note"])
    parts = list(split(whole))
    assert [p.notes for p in parts] == [["a note"], *[()] * (len(parts) - 1)]
    assert np.array_equal(np.concatenate([p.columns[0].values for p in parts]), np.arange(30_000))
    assert max(messages.chunk(p).ByteSize() for p in parts) < 4 << 20
    assert len(parts) > 2 and MAX_BYTES < 4 << 20


def test_no_rows_are_one_piece_with_its_notes() -> None:
    (only,) = split(Chunk("x", [Column("n", np.zeros(0, np.int64))], ["a note"]))
    assert only.rows == 0 and only.notes == ["a note"]
