from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import sqlalchemy
from hypothesis import given
from hypothesis import strategies as st
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import models_pb2, query_pb2
from roofline_server.query.answers import Answers
from roofline_server.records import ABSENT, Table, rows
from roofline_server.store import export
from roofline_server.store.catalog.catalog import Catalog
from roofline_server.store.intake.inbox import Inbox
from roofline_server.store.segments import compaction
from roofline_server.store.segments.compaction import FEWEST, GROWTH, Compaction, MergeLimit, longest_run
from roofline_server.store.segments.files import Piece, Segment, write
from roofline_server.store.segments.reader import Reader
from roofline_server.store.store import Store

from ...builders import GAUGE, UNIX, S, counter_set, crash, open_store, samples, spans, training
from ..histories import (
    ALL,
    JOB,
    OF_A,
    OF_B,
    OTHERS,
    QUICK,
    WORKERS,
    A,
    B,
    Killed,
    all_at_once,
    files,
    greet,
    kill_after,
    kill_before,
    known_files,
    marks_in,
    play,
    raw_rows,
    segments,
    steps,
    whole,
)

ENDLESS = 1 << 62


def put(
    root: Path, number: int, table: Table, dataset: str = "steps", times: tuple[int, int] = (0, 9)
) -> Segment:
    return write(root, JOB, dataset, number, [Piece(table, *times)])


def counted(first: int, count: int, **more: Any) -> Table:
    return {"at": np.arange(first, first + count), **more}


def small(root: Path, count: int, each: int = 10, dataset: str = "steps") -> list[Segment]:
    return [put(root, n, counted(each * n, each), dataset, (n, n + 1)) for n in range(count)]


def read(root: Path, *segments: Segment) -> Table:
    return Reader(root).read(segments)


# -- which -----------------------------------------------------------------------------------------


def test_few_segments_stay_as_they_are(tmp_path: Path) -> None:
    segments = small(tmp_path, FEWEST - 1)
    assert Compaction(tmp_path, 99).merge(segments, ENDLESS) == ([], [])


def test_small_segments_become_one_in_their_order_and_their_place(tmp_path: Path) -> None:
    segments = small(tmp_path, FEWEST + 2)
    merged = Compaction(tmp_path, 99).merge(segments, ENDLESS)
    (one,) = merged.segments
    assert merged.replaced == [s.path for s in segments]
    assert read(tmp_path, one)["at"].tolist() == list(range(10 * (FEWEST + 2)))
    assert (one.rows, one.begin_ns, one.end_ns, one.number) == (10 * (FEWEST + 2), 0, FEWEST + 2, 0)
    assert segments[0].path < segments[1].path
    assert one.path < segments[1].path


def test_large_segment_is_not_written_anew_for_a_few_rows(tmp_path: Path) -> None:
    large = put(tmp_path, 0, counted(0, 10_000))
    others = [put(tmp_path, n, counted(n, 10)) for n in range(1, FEWEST + 2)]
    merged = Compaction(tmp_path, 99).merge([large, *others], ENDLESS)
    assert merged.replaced == [s.path for s in others]


def test_segments_on_either_side_of_a_large_one_are_not_brought_together(tmp_path: Path) -> None:
    segments = [put(tmp_path, n, counted(n, 10_000 if n == 4 else 10)) for n in range(FEWEST + 3)]
    assert Compaction(tmp_path, 99).merge(segments, ENDLESS) == ([], [])


def test_raw_data_that_are_still_read_stay_in_small_files(tmp_path: Path) -> None:
    segments = small(tmp_path, 2 * FEWEST, dataset="calls")
    read_ns = segments[FEWEST + 1].end_ns
    merged = Compaction(tmp_path, 99).merge(segments, read_ns)
    assert merged.replaced == [s.path for s in segments[: FEWEST + 1]]
    made = small(tmp_path / "made", 2 * FEWEST)
    assert len(Compaction(tmp_path / "made", 99).merge(made, read_ns).replaced) == len(made)


def test_raw_data_of_one_file_are_not_without_end(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(compaction, "MOST_RAW_ROWS", 10 * FEWEST + 5)
    segments = small(tmp_path, 2 * FEWEST + 3, dataset="calls")
    (one,) = Compaction(tmp_path, 99).merge(segments, ENDLESS).segments
    assert one.rows == 10 * FEWEST


def test_one_sealing_reads_no_more_than_its_share(tmp_path: Path, monkeypatch: Any) -> None:
    segments = [s for name in ("steps", "steps_tcp") for s in small(tmp_path, FEWEST, dataset=name)]
    monkeypatch.setattr(compaction, "MOST_BYTES", sum(s.bytes for s in segments) - 1)
    merged = Compaction(tmp_path, 99).merge(segments, ENDLESS)
    assert [s.dataset for s in merged.segments] == ["steps"]
    again = Compaction(tmp_path, 100).merge([*merged.segments, *segments[FEWEST:]], ENDLESS)
    assert [s.dataset for s in again.segments] == ["steps_tcp"]


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=200))
def test_files_stay_few_and_rows_are_written_seldom(sizes: list[int]) -> None:
    limit = MergeLimit(ENDLESS, ENDLESS, ENDLESS)
    kept: list[Segment] = []
    written, begin = 0, 0
    for number, count in enumerate(sizes):
        if run := longest_run(kept, limit):
            at = kept.index(run[0])
            assert list(run) == kept[at : at + len(run)]
            together = sum(s.rows for s in run)
            assert together >= GROWTH * max(s.rows for s in run)
            written += together
            kept[at : at + len(run)] = [run[0]._replace(rows=together, end_ns=run[-1].end_ns)]
        kept.append(
            Segment(JOB, "steps", f"{number:012d}.parquet", count, count, begin, begin := begin + count)
        )
    assert [s.begin_ns for s in kept] == [
        0,
        *(s.end_ns for s in kept[:-1]),
    ]  # none lost, none twice, in order
    assert written <= sum(sizes) * (1 + math.log(sum(sizes), GROWTH))


def test_segments_of_equal_size_stay_few() -> None:
    limit = MergeLimit(ENDLESS, ENDLESS, ENDLESS)
    kept: list[Segment] = []
    for number in range(1000):
        if run := longest_run(kept, limit):
            at = kept.index(run[0])
            kept[at : at + len(run)] = [run[0]._replace(rows=sum(s.rows for s in run))]
        kept.append(Segment(JOB, "steps", f"{number:012d}.parquet", 10, 1, 0, 0))
        assert len(kept) <= 3 * FEWEST


# -- how -------------------------------------------------------------------------------------------


def odd(root: Path) -> list[Segment]:
    """Each lacks what others have."""
    texts = np.array(["x"] * 10, object)
    some: list[dict[str, Any]] = [
        {"load": np.full(10, 0.1)},
        {"ns": np.full(10, 2**62 + 1)},
        {"text": texts},
        {},
    ]
    return [put(root, n, counted(10 * n, 10, **some[n % 4])) for n in range(FEWEST)]


@pytest.mark.parametrize("piece_bytes", [1, 1000, 1 << 25])
def test_merged_segments_read_as_they_did_however_small_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(compaction, "PIECE_BYTES", piece_bytes)
    segments = odd(tmp_path)
    before = read(tmp_path, *segments)
    (one,) = Compaction(tmp_path, 99).merge(segments, ENDLESS).segments
    after = read(tmp_path, one)
    assert list(after) == list(before)
    for name, column in before.items():
        assert after[name].dtype == column.dtype
        assert list(map(repr, after[name].tolist())) == list(map(repr, column.tolist()))
    assert ABSENT in after["ns"].tolist()
    groups = pq.ParquetFile(tmp_path / one.path).num_row_groups
    assert groups == {1: 80, 1000: 3, 1 << 25: 1}[piece_bytes]


def test_failure_costs_nothing_but_the_merging(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    segments = small(tmp_path, FEWEST)
    (tmp_path / segments[3].path).write_bytes(b"no Parquet")
    assert Compaction(tmp_path, 99).merge(segments, ENDLESS) == ([], [])
    assert "are not merged" in caplog.text
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {s.path for s in segments}


# -- in the store ----------------------------------------------------------------------------------


def eventful() -> list[tuple[Any, pb.Batch]]:
    """A job of two nodes whose datasets gain columns on the way; sealed after each pair."""
    metrics = [("x", GAUGE, False), ("y", GAUGE, True)]
    of_a = training(WORKERS, batches=30, stepping=(0, 1))
    of_b = training(OTHERS, batches=30, stepping=(0,))
    for one in of_a[12:]:
        one.counter_sets.append(counter_set("odd", metrics))
        one.samples.append(samples(2, [(0, one.begin_ns, (1, 0.5)), (0, one.end_ns, (1, 2.5))], metrics))
        one.spans.CopyFrom(spans([(0, "phase.input", one.begin_ns + S, one.begin_ns + 2 * S, ABSENT, 1)]))
    return [
        (node, one) for pair in zip(of_a, of_b, strict=True) for node, one in zip((A, B), pair, strict=True)
    ]


def sealed(root: Path, monkeypatch: pytest.MonkeyPatch, fewest: int) -> Store:
    monkeypatch.setattr(compaction, "FEWEST", fewest)
    store = open_store(root)
    greet(store)
    for number, (node, one) in enumerate(eventful()):
        node.put(store, one)
        if number % 2:
            store.seal()
    store.now_ns = lambda: UNIX + 1000 * S  # type: ignore[method-assign]
    return store


def answers(store: Store) -> dict[str, list[bytes]]:
    """What clients are told, byte for byte."""
    service = Answers(store)
    subject = models_pb2.Subject(job=JOB)

    def told(message: Any) -> bytes:
        return bytes(message.SerializeToString(deterministic=True))

    def chunks(found: Iterator[Any]) -> list[bytes]:
        return [told(chunk) for chunk in found]

    return {
        "report": [told(service.report(query_pb2.GetReportRequest(job=JOB)))],
        "steps": chunks(service.steps(query_pb2.GetStepsRequest(job=JOB))),
        "timeline": chunks(service.timeline(query_pb2.GetStepsRequest(job=JOB, kernels=True))),
        "roofline": [
            told(service.roofline(models_pb2.GetRooflineRequest(subject=subject, kind="classic", points=p)))
            for p in ("step", "kernel")
        ],
        "breakdown": [told(service.breakdown(models_pb2.GetBreakdownRequest(subject=subject, by="rank")))],
        "stragglers": [told(service.stragglers(query_pb2.GetStragglersRequest(job=JOB)))],
    }


def exported(store: Store) -> dict[str, dict[str, list[Any]]]:
    """Rows in order; how many come together in a chunk may differ."""
    raw, found = store.raw(JOB), {}  # type: ignore[var-annotated]
    assert raw
    for chunk in export.export(raw):
        columns = found.setdefault(chunk.dataset, {})
        for column in chunk.columns:
            columns.setdefault(column.name, []).extend(repr(value) for value in column.values.tolist())
    return found


def count(store: Store, dataset: str) -> int:
    return sum(segment.dataset == dataset for segment in segments(store))


@pytest.mark.slow
@pytest.mark.parametrize("fewest", [2, FEWEST])
def test_every_answer_is_byte_for_byte_what_it_is_without_merging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fewest: int
) -> None:
    plain = sealed(tmp_path / "plain", monkeypatch, 1000)
    merged = sealed(tmp_path / "merged", monkeypatch, fewest)
    for dataset in ("steps", "steps_process", "samples_process", "calls", "marks", "events"):
        assert count(merged, dataset) < 0.8 * count(plain, dataset), dataset
        assert raw_rows(merged, dataset) == raw_rows(plain, dataset)
    assert answers(merged) == answers(plain)
    assert exported(merged) == exported(plain)
    merged.close()
    plain.close()


@pytest.mark.slow
@QUICK
@given(
    actions=st.lists(st.sampled_from(("a", "b", "seal", "seal", "reopen", "crash")), min_size=12, max_size=30)
)
def test_no_row_is_lost_or_doubled_by_merging(
    tmp_path_factory: pytest.TempPathFactory, actions: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(compaction, "FEWEST", 2)
        patched.setattr(compaction, "GROWTH", 1)
        play(tmp_path_factory.mktemp("data"), actions, whole)


CRASHES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "before the first is merged": lambda m: kill_before(m, compaction, "write"),
    "while one is written": lambda m: kill_after(m, compaction, "with_columns"),
    "after the first is merged": lambda m: kill_after(m, compaction, "write"),
    "after some are merged": lambda m: kill_after(m, compaction, "write", 4),
    "before the catalog": lambda m: kill_before(m, Catalog, "prepared"),
    "after the catalog": lambda m: kill_after(m, sqlalchemy.Connection, "commit"),
    "before the inbox": lambda m: kill_before(m, Inbox, "delete"),
    "before the first is removed": lambda m: kill_before(m, Path, "unlink"),
    "after the first is removed": lambda m: kill_after(m, Path, "unlink"),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", CRASHES)
def test_crash_while_merging_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(compaction, "FEWEST", 1000)
    store = open_store(tmp_path)
    greet(store)
    for pair in zip(OF_A[:-1], OF_B[:-1], strict=True):
        for node, one in zip((A, B), pair, strict=True):
            node.put(store, one)
        store.seal()
    monkeypatch.setattr(compaction, "FEWEST", 2)
    for node, one in ((A, OF_A[-1]), (B, OF_B[-1])):
        node.put(store, one)
    with monkeypatch.context() as patched:
        CRASHES[moment](patched)
        with pytest.raises(Killed):
            store.seal()
    crash(store)
    again = open_store(tmp_path)
    assert files(tmp_path) == known_files(tmp_path)
    assert raw_rows(again) == marks_in(ALL)
    again.seal()
    assert raw_rows(again) == marks_in(ALL)
    assert steps(again) == all_at_once(again, ALL)
    assert any("-" in Path(path).stem for path in known_files(tmp_path))
    again.close()


@pytest.mark.slow
def test_sealing_goes_on_where_nothing_can_be_merged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FEWEST", 2)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(compaction, "write", full)
    greet(store)
    for node, one in ALL:
        node.put(store, one)
        assert store.seal() == 1
    assert raw_rows(store) == marks_in(ALL)
    assert steps(store) == all_at_once(store, ALL)


# -- who reads meanwhile ---------------------------------------------------------------------------


def seal_each(store: Store, sent: list[pb.Batch]) -> None:
    for one in sent:
        A.put(store, one)
        store.seal()


@pytest.mark.slow
def test_files_stay_for_whoever_reads_them_and_go_when_he_is_done(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FEWEST", 2)
    A.greet(store)
    sent = training(WORKERS, batches=20)
    seal_each(store, sent[:6])
    raw = store.raw(JOB)
    assert raw
    chunks, root = export.export(raw), tmp_path / "data"
    held = {segment.path for segment in raw.segments}
    del raw
    next(chunks)
    seal_each(store, sent[6:])
    gone = held - known_files(root)
    assert len(gone) > 5
    assert gone <= files(root)
    assert sum(chunk.rows for chunk in chunks if chunk.dataset == "marks") == marks_in(
        [(A, o) for o in sent[:6]]
    )
    store.seal()
    assert not gone & files(root)
    assert files(root) == known_files(root)


@pytest.mark.slow
def test_views_and_exports_find_every_file_while_files_are_merged(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FEWEST", 2)
    monkeypatch.setattr(compaction, "GROWTH", 1)  # as often as can be
    A.greet(store)
    sent = training(WORKERS, stepping=(0, 1), batches=60)
    A.put(store, sent[0])
    done, failures, looked = threading.Event(), [], [0, 0]

    def look(at: int, work: Callable[[], int]) -> None:
        most = 0
        try:
            while not done.is_set():
                found = work()
                assert found >= most
                most, looked[at] = found, looked[at] + 1
        except BaseException as error:
            failures.append(error)

    def viewed() -> int:
        view = store.view(JOB)
        assert view
        return rows(view.steps["steps"])

    def exported_marks() -> int:
        raw = store.raw(JOB)
        assert raw
        return sum(chunk.rows for chunk in export.export(raw) if chunk.dataset == "marks")

    threads = [threading.Thread(target=look, args=pair) for pair in enumerate((viewed, exported_marks))]
    for thread in threads:
        thread.start()
    seal_each(store, sent[1:])
    while not failures and min(looked) < 5:
        store.seal()
    done.set()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert steps(store) == all_at_once(store, [(A, one) for one in sent])


def test_step_deltas_that_are_rebuilt_are_not_merged_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "FEWEST", 1000)
    greet(store)
    seal_each(store, OF_A)
    old = {segment.path for segment in segments(store, "steps")}
    assert len(old) > 4
    monkeypatch.setattr(compaction, "FEWEST", 2)
    B.put(store, *OF_B)  # late
    store.seal()
    assert not old & {segment.path for segment in segments(store)}
    assert count(store, "steps") == 1
    assert steps(store) == all_at_once(store, ALL)
