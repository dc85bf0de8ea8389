from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.ingest.decode import origin_of
from roofline_server.ingest.service import decode_entry
from roofline_server.records import NodeKey
from roofline_server.store.check.reading import check
from roofline_server.store.check.repair import repair
from roofline_server.store.store import Store

from ...builders import catalog_of, crash, machine, open_store
from ..histories import JOB, OF_A, A, B, greet
from .stores import answers, filled, flip, kinds, lose

# -- segments ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spoil", [flip, lambda path: path.write_bytes(path.read_bytes()[:99])])
def test_damaged_raw_data_are_set_apart_and_reports_go_on_saying_so(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    store = filled(tmp_path)
    store.close()
    path = next((tmp_path / "segments/job-job/samples_tcp").iterdir())
    sound = path.read_bytes()
    spoil(path)
    assert [(f.kind, f.job) for f in check(tmp_path).problems] == [("damaged", JOB)]
    repair(tmp_path)
    found = check(tmp_path)
    assert found.problems == [] and {f.kind for f in found.findings} == {"lost"}
    relative = str(path.relative_to(tmp_path))
    assert (tmp_path / "quarantine" / relative).read_bytes() != sound
    again = open_store(tmp_path)
    with catalog_of(tmp_path) as catalog:
        assert relative in catalog.paths()
    again.close()
    path.write_bytes(sound)  # of a backup
    (tmp_path / "quarantine" / relative).unlink()
    assert check(tmp_path).findings == []


def test_damaged_step_deltas_are_made_anew(tmp_path: Path) -> None:
    store = filled(tmp_path)
    before = answers(store)
    store.close()
    flip(next((tmp_path / "segments/job-job/steps_process").iterdir()))
    assert kinds(tmp_path) == ["damaged"]
    repair(tmp_path)
    assert check(tmp_path).findings == []
    again = open_store(tmp_path)
    assert answers(again) == before
    again.close()


def test_missing_file_is_said_with_its_job_and_rows(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = next((tmp_path / "segments/job-job/calls").iterdir())
    path.unlink()
    (found,) = check(tmp_path).problems
    assert (found.kind, found.job, found.what) == ("missing", JOB, str(path.relative_to(tmp_path)))
    assert found.rows
    assert any("put it back" in text for text in repair(tmp_path).left)
    assert kinds(tmp_path) == []


def test_sound_file_in_quarantine_takes_the_place_of_a_missing_one(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = next((tmp_path / "segments/job-job/calls").iterdir())
    apart = tmp_path / "quarantine" / path.relative_to(tmp_path)
    apart.parent.mkdir(parents=True)
    path.rename(apart)
    repair(tmp_path)
    assert path.exists() and not apart.exists()
    assert kinds(tmp_path) == []


# -- inbox ---------------------------------------------------------------------------------------------


def test_damaged_batch_costs_itself_and_is_dropped_by_name(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A)
    crash(store)
    with closing(sqlite3.connect(tmp_path / "inbox.db")) as db, db:
        db.execute("update batch set data = zeroblob(length(data)) where sequence = 4")
    assert [(f.kind, f.rows) for f in check(tmp_path).problems] == [("damaged batch", None)]
    assert any("batch 4 of agent a" in text for text in repair(tmp_path).left)
    open_store(tmp_path).close()
    assert kinds(tmp_path) == ["apart"]
    assert any("1 damaged batches are dropped: 4 of agent a" in text for text in repair(tmp_path).done)
    assert kinds(tmp_path) == []


def test_inbox_of_another_store_is_found(tmp_path: Path) -> None:
    for name in ("one", "other"):
        filled(tmp_path / name).close()
    shutil.copyfile(tmp_path / "other/inbox.db", tmp_path / "one/inbox.db")
    assert kinds(tmp_path / "one") == ["foreign"]


def put(store: Store, one: pb.Batch, boot: str) -> None:
    """A batch of node A, as agents send it that say its boot, or not."""
    entry = A.entry(store, one)
    data = pb.AgentMessage(batch=one, boot=boot).SerializeToString()
    store.commit([(entry._replace(data=data), decode_entry(entry, store.name_ids))])


def without_catalog(root: Path, store: Store) -> None:
    """The server is killed, its catalog is lost, and the next one sets apart what it does not know."""
    crash(store)
    lose(root, "catalog")
    (root / "catalog.copy.db").unlink(missing_ok=True)
    crash(open_store(root))


@pytest.mark.parametrize("boot", ["boot", ""])
def test_batches_of_a_lost_catalog_are_read_once_their_agent_has_come_back(tmp_path: Path, boot: str) -> None:
    store = open_store(tmp_path)
    greet(store)
    for one in OF_A:
        put(store, one, boot)
    before = answers(store)
    without_catalog(tmp_path, store)
    assert ["does not know its agent" in text for text in repair(tmp_path, "", origin_of).left] == [
        True
    ] * len(OF_A)
    store = open_store(tmp_path)
    for node in (B, A):  # which get other numbers than they had
        node.greet(store)
    store.seal()  # which makes the clocks durable
    crash(store)
    (done,) = repair(tmp_path, "", origin_of).done
    assert f"{len(OF_A)} batches" in done
    store = open_store(tmp_path)
    assert answers(store) == before
    store.close()
    assert check(tmp_path).findings == []
    again = open_store(tmp_path)
    assert answers(again) == before
    assert again.acked("a") == len(OF_A)
    again.close()


def test_batch_of_a_boot_that_nobody_knows_any_more_is_kept_and_said(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    greet(store)
    put(store, OF_A[0], "boot")
    without_catalog(tmp_path, store)
    store = open_store(tmp_path)
    store.hello(NodeKey("a", "later"), machine("host-a"))
    crash(store)
    (left,) = repair(tmp_path, "", origin_of).left
    assert "started anew" in left
    assert [finding.kind for finding in check(tmp_path).findings] == ["lost"]
