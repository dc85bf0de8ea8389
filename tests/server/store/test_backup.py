from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from roofline_server.errors import Unavailable
from roofline_server.ingest.service import decode_entry
from roofline_server.store import backup
from roofline_server.store.backup import back_up
from roofline_server.store.check.reading import check
from roofline_server.store.retention.plan import Policy
from roofline_server.store.segments.backup_links import LINKS, links_of_backup
from roofline_server.store.store import Store

from tests.fakes import inherited

from ..builders import crash, open_store, rank, training
from .histories import ALL, JOB, OTHERS, A, B, greet, marks_in, raw_rows, segments, steps

LONG = training(OTHERS, batches=60, first_ns=200 * 10**9, first_sequence=100)


def filled(root: Path) -> Store:
    store = open_store(root)
    greet(store)
    for node, one in ALL[:10]:
        node.put(store, one)
    store.seal()
    for node, one in ALL[10:]:
        node.put(store, one)
    return store


def inodes(root: Path) -> set[int]:
    return {path.stat().st_ino for path in (root / "segments").rglob("*.parquet")}


@pytest.mark.parametrize("copies", [False, True], ids=["links", "copies"])
def test_backup_of_a_server_that_runs_answers_as_it_does(tmp_path: Path, copies: bool) -> None:
    store = filled(tmp_path / "data")
    before = steps(store)
    made = back_up(tmp_path / "data", tmp_path / "copy", copies)
    assert made.is_whole and made.place == tmp_path / "copy"
    assert not inodes(tmp_path / "copy").isdisjoint(inodes(tmp_path / "data")) is not copies
    assert not (tmp_path / "data" / LINKS).exists()
    restored = open_store(tmp_path / "copy")
    assert steps(restored) == before and raw_rows(restored) == marks_in(ALL)
    restored.seal()
    assert steps(restored) == before and raw_rows(restored) == marks_in(ALL)
    restored.close()
    assert steps(store) == before
    store.close()
    assert check(tmp_path / "data").findings == check(tmp_path / "copy").findings == []


@pytest.mark.slow
def test_backups_amid_sealing_and_merging_hold_what_was_acknowledged_when_they_began(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    acknowledged, done = [0], threading.Event()

    def ingest() -> None:
        for at, one in enumerate(LONG):
            B.put(store, one)
            acknowledged[0] = at + 1
            if at % 3 == 0:
                store.seal()
        done.set()

    thread = threading.Thread(target=ingest)
    thread.start()
    least: list[int] = []
    while not done.is_set() or not least:
        least.append(acknowledged[0])
        back_up(tmp_path / "data", tmp_path / f"copy{len(least)}")
    thread.join()
    store.close()
    assert len(least) > 1
    for number, count in enumerate(least, 1):
        restored = open_store(tmp_path / f"copy{number}")
        held = restored.acked("b") - LONG[0].sequence + 1 if restored.acked("b") >= LONG[0].sequence else 0
        assert held >= count
        wanted = marks_in(ALL) + marks_in([(B, one) for one in LONG[:held]])
        assert raw_rows(restored) == wanted
        restored.close()


def test_sealing_between_inbox_and_catalog_has_both_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "data")
    connect, opened = backup.sqlite3.connect, []

    class Late(backup.sqlite3.Connection):
        def execute(self, text: str, *given: Any) -> Any:
            found = super().execute(text, *given)
            if "sqlite_sequence" in text and len(opened) == 1:
                opened.append("inbox read")
                A.put(store, *training([rank()], batches=2, first_ns=900 * 10**9, first_sequence=50))
                store.seal()
            return found

        def backup(self, *given: Any) -> None:
            super().backup(*given)
            opened.append("inbox copied")
            A.put(store, *training([rank()], batches=2, first_ns=950 * 10**9, first_sequence=60))
            store.seal()

    def late(path: Any, **named: Any) -> Any:
        if Path(path).name == "inbox.db" and Path(path).parent.name == "data":
            opened.append("opened") if not opened else None
            return connect(path, factory=Late, **named)
        return connect(path, **named)

    monkeypatch.setattr(backup.sqlite3, "connect", late)
    assert back_up(tmp_path / "data", tmp_path / "copy").is_whole
    monkeypatch.undo()
    assert opened == ["opened", "inbox read", "inbox copied"]
    whole = raw_rows(store, "samples_tcp")
    store.close()
    restored = open_store(tmp_path / "copy")
    assert raw_rows(restored, "samples_tcp") == whole - 2 * 5 and restored.acked("a") == 51
    restored.close()


def test_damaged_data_are_no_backup(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    (segment,) = segments(store, "samples_tcp")
    crash(store)
    path = tmp_path / "data" / segment.path
    path.write_bytes(path.read_bytes()[:-9])
    made = back_up(tmp_path / "data", tmp_path / "copy")
    assert [(found.kind, found.job) for found in made.checked.problems] == [("damaged", JOB)]
    assert made.place.name == "copy.partial" and not (tmp_path / "copy").exists()


def test_interrupted_backup_looks_like_none_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "data")
    whole = raw_rows(store)
    store.close()
    copyfile, copied = shutil.copyfile, []

    def failing(source: Path, target: Path) -> None:
        copyfile(source, target)
        copied.append(Path(target).name)
        if len(copied) == 3:
            Path(target).write_bytes(b"half")
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfile", failing)
        with pytest.raises(Unavailable, match="No space left"):
            back_up(tmp_path / "data", tmp_path / "copy", copies=True)
    assert not (tmp_path / "copy").exists() and not (tmp_path / "data" / LINKS).exists()
    kept = inodes(tmp_path / "copy.partial")
    assert back_up(tmp_path / "data", tmp_path / "copy", copies=True).is_whole
    assert len(inodes(tmp_path / "copy") & kept) >= 2
    assert not (tmp_path / "copy.partial").exists()
    restored = open_store(tmp_path / "copy")
    assert raw_rows(restored) == whole
    restored.close()


# A backup that gets a signal when its databases are copied, and its segments are not.
COMMAND = """
import os, sys
from roofline_server.store import backup
real = backup._take_segments
def signalled(*arguments):
    os.kill(os.getpid(), {number})
    real(*arguments)
backup._take_segments = signalled
sys.argv[1:] = ["backup", {target!r}, "--data", {data!r}]
from roofline_server.__main__ import main
main()
"""


def signalled(root: Path, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    filled(root / "data").close()
    code = COMMAND.format(number=int(number), target=str(root / "copy"), data=str(root / "data"))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_backup_that_a_signal_ends_says_so_and_leaves_no_links(
    tmp_path: Path, number: signal.Signals
) -> None:
    with inherited(number, signal.SIG_DFL):
        done = signalled(tmp_path, number)
    assert done.returncode == 128 + number
    assert done.stderr == (
        f"roofline-server: {number.name} ended the backup; run the command again to continue it from "
        f"{tmp_path}/copy.partial\n"
    )
    assert not (tmp_path / "copy").exists() and not (tmp_path / "data" / LINKS).exists()


def test_backup_under_nohup_goes_on_when_the_terminal_closes(tmp_path: Path) -> None:
    with inherited(signal.SIGHUP, signal.SIG_IGN):
        done = signalled(tmp_path, signal.SIGHUP)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "copy").is_dir()


def interrupted(data: Path, target: Path, copies: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(backup, "check", stop)
        with pytest.raises(KeyboardInterrupt):
            back_up(data, target, copies)


def test_backup_that_goes_on_with_copies_has_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path / "data").close()
    interrupted(tmp_path / "data", tmp_path / "copy", False, monkeypatch)
    assert back_up(tmp_path / "data", tmp_path / "copy", True).is_whole
    assert inodes(tmp_path / "copy").isdisjoint(inodes(tmp_path / "data"))


def test_two_backups_at_once_are_not_made(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    with links_of_backup(tmp_path / "data") as links:
        (links / "held").mkdir()
        with pytest.raises(Unavailable, match="another backup"):
            back_up(tmp_path / "data", tmp_path / "copy")
        open_store(tmp_path / "data").close()
        assert (links / "held").exists(), "a server leaves them to the backup"
    assert back_up(tmp_path / "data", tmp_path / "copy").is_whole


@pytest.mark.parametrize("when", ["start", "removal"])
def test_links_of_a_killed_backup_keep_no_removed_data(tmp_path: Path, when: str) -> None:
    links = tmp_path / LINKS
    store = filled(tmp_path)
    (links / "segments").mkdir(parents=True)
    if when == "removal":
        store.seal()
        store.retention.apply(Policy(0), lambda job: b"")
        assert not links.exists()
    store.close()
    open_store(tmp_path).close()
    assert not links.exists()


def test_file_system_without_links_has_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def link(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    store = filled(tmp_path / "data")
    before = steps(store)
    store.close()
    monkeypatch.setattr(os, "link", link)
    assert back_up(tmp_path / "data", tmp_path / "copy").is_whole
    assert inodes(tmp_path / "copy").isdisjoint(inodes(tmp_path / "data"))
    restored = open_store(tmp_path / "copy")
    assert steps(restored) == before
    restored.close()


def test_databases_of_two_backups_do_not_pass_for_one(tmp_path: Path) -> None:
    filled(tmp_path / "data").close()
    for name in ("first", "second"):
        back_up(tmp_path / "data", tmp_path / name)
    shutil.copyfile(tmp_path / "first/inbox.db", tmp_path / "second/inbox.db")
    with pytest.raises(Unavailable, match="two copies of store"):
        open_store(tmp_path / "second")


def test_existing_directory_and_one_without_data_are_refused(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    filled(tmp_path / "data").close()
    with pytest.raises(Unavailable, match="exists already"):
        back_up(tmp_path / "data", tmp_path / "there")
    with pytest.raises(Unavailable, match="has no catalog"):
        back_up(tmp_path / "there", tmp_path / "copy")
    assert not (tmp_path / "copy.partial").exists()


# -- a catalog in another database -----------------------------------------------------------------------


def elsewhere(root: Path) -> str:
    """A store whose catalog is not in its directory, where one from before may lie; the catalog's URL."""
    url = f"sqlite:///{root}-catalog.db"
    store = Store(root, decode_entry, url)
    greet(store)
    for node, one in ALL:
        node.put(store, one)
    store.close()
    assert not (root / "catalog.db").exists()
    return url


@pytest.mark.parametrize("old", [False, True])
def test_catalog_in_another_database_is_no_backup(tmp_path: Path, old: bool) -> None:
    root = tmp_path / "data"
    elsewhere(root)
    if old:
        (root / "catalog.db").touch()
    with pytest.raises(Unavailable, match=r"in another database.*back up that database"):
        back_up(root, tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "data-catalog.db"]


def test_store_without_its_catalog_is_not_opened_with_a_new_one(tmp_path: Path) -> None:
    root = tmp_path / "data"
    url = elsewhere(root)
    with pytest.raises(Unavailable, match="--catalog"):
        open_store(root)
    assert not (root / "catalog.db").exists() and not (root / "quarantine").exists()
    again = Store(root, decode_entry, url)
    assert raw_rows(again) == marks_in(ALL)
    again.close()


def test_catalog_that_came_back_is_backed_up(tmp_path: Path) -> None:
    root = tmp_path / "data"
    elsewhere(root)
    shutil.copy(tmp_path / "data-catalog.db", root / "catalog.db")
    open_store(root).close()
    assert back_up(root, tmp_path / "copy").is_whole
