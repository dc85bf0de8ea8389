from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from roofline.answers.values import Provenance, Scope
from roofline_server.records import ABSENT, Frame, Metric, rows
from roofline_server.store.sealing import source
from roofline_server.store.segments.frames import tables_of
from roofline_server.store.steps import shares
from roofline_server.store.store import Store

from ...builders import PROCESS, Node, S, canonical, packed, rank, samples, steps_of_all, training
from ..histories import JOB, segments

ROWS = 10


def metric(name: str, is_double: bool = False) -> Metric:
    return Metric("process", name, 1, "1", Scope.PROCESS, Provenance.MEASURED, is_double, "")


ONE, OTHER = (metric("a"), metric("b")), (metric("b"), metric("c", is_double=True))


def frame(first: int, metrics: tuple[Metric, ...] = ONE, **more: Any) -> Frame:
    base = {"time_ns": np.arange(first, first + ROWS), **more}
    values = np.full((len(metrics), ROWS), first, np.int64)
    return Frame("job", "samples_process", base, metrics, values)


def size(of: Frame) -> int:
    assert of.values is not None
    return of.base["time_ns"].nbytes + of.values.nbytes


def test_frames_that_fit_are_one_table() -> None:
    frames = [frame(0), frame(10), frame(20)]
    (table,) = tables_of([frames], 3 * size(frames[0]))
    assert table["time_ns"].tolist() == list(range(30))
    assert table["a"].tolist() == [0] * 10 + [10] * 10 + [20] * 10


def test_frames_that_do_not_fit_are_several_tables_in_order() -> None:
    frames = [frame(10 * i) for i in range(5)]
    found = list(tables_of([frames], 2 * size(frames[0])))
    assert [rows(table) for table in found] == [20, 20, 10]
    assert np.concatenate([table["time_ns"] for table in found]).tolist() == list(range(50))


def test_frame_larger_than_a_piece_is_a_table_of_its_own() -> None:
    assert [rows(table) for table in tables_of([[frame(0), frame(10)]], 1)] == [10, 10]


def test_tables_have_the_columns_of_all_frames() -> None:
    texts = np.array(["x"] * ROWS, object)
    first, second = tables_of([[frame(0), frame(10, OTHER, instance=texts)]], 1)
    assert list(first) == list(second)
    assert [c.dtype for c in first.values()] == [c.dtype for c in second.values()]
    assert first["instance"].tolist() == [""] * ROWS
    assert np.isnan(first["c"]).all()
    assert second["a"].tolist() == [ABSENT] * ROWS
    assert second["instance"].tolist() == ["x"] * ROWS


def test_sealing_in_small_pieces_loses_and_changes_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PIECE_BYTES", 1)
    monkeypatch.setattr(shares, "SHARE_BYTES", 1)
    node = Node("a")
    node.greet(store)
    sent = training([rank(index=0), rank(index=1, pid=101)], stepping=(0, 1))
    for one in sent[::2]:  # in some batches a part of each rank too, in a column that others lack
        one.instances.append("part")
        one.samples.append(samples(0, [(0, one.begin_ns, (one.begin_ns, 2))], PROCESS))
        one.samples[-1].instance = packed([0])
    node.put(store, *sent)
    before = store.view(JOB)
    assert before
    store.seal()
    after = store.view(JOB)
    assert after
    files = {segment.dataset: segment for segment in segments(store)}
    assert pq.ParquetFile(tmp_path / "data" / files["marks"].path).num_row_groups == len(sent)
    assert files["steps"].rows > 10
    assert canonical(after.steps) == canonical(before.steps)
    assert canonical(after.steps) == canonical(steps_of_all(store, JOB, [(node, one) for one in sent]))
    assert after.parts == before.parts
    assert files["marks"].end_ns - files["marks"].begin_ns > 30 * S
