"""Full disks, and directories that cannot be had: what is kept stays whole."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from roofline_server.errors import Unavailable
from roofline_server.store.catalog import catalog as catalog_module
from roofline_server.store.catalog.catalog import Catalog
from roofline_server.store.intake.inbox import Inbox
from roofline_server.store.sealing import writing
from roofline_server.store.store import Store

from ..builders import connections, open_store
from .histories import JOB, OF_A, A, all_at_once, files, greet, known_files, marks_in, raw_rows, steps


def test_full_disk_takes_nothing_of_a_group_and_leaves_earlier_data_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = connections(monkeypatch)
    store = open_store(tmp_path)
    greet(store)
    A.put(store, OF_A[0])
    inbox = opened["inbox.db"]
    pages = inbox.execute("pragma page_count").fetchone()[0]
    inbox.execute(f"pragma max_page_count = {pages + 1}")
    with pytest.raises(sqlite3.OperationalError):
        A.put(store, *OF_A[1:])
    assert store.acked("a") == 1
    assert raw_rows(store) == marks_in([(A, OF_A[0])])
    assert [key.index for key in store.ranks_of(JOB).values()] == [0, 1]
    inbox.execute("pragma max_page_count = 1000000")
    A.put(store, *OF_A[1:])
    assert steps(store) == all_at_once(store, [(A, one) for one in OF_A])
    store.close()


def test_disk_that_is_full_while_sealing_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    greet(store)
    A.put(store, *OF_A)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(writing, "write", full)
        with pytest.raises(OSError, match="No space"):
            store.seal()
    assert store.seal() == len(OF_A)
    assert steps(store) == all_at_once(store, [(A, one) for one in OF_A])


@pytest.mark.parametrize("took", [False, True], ids=["before it has", "when it has"])
def test_catalog_that_fails_as_it_takes_a_sealing_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: bool
) -> None:
    """As when the connection to it is lost, before the answer comes or before it was asked."""
    real = Catalog.prepared

    @contextlib.contextmanager
    def prepared(self: Catalog, sealing: Any) -> Iterator[Callable[[], None]]:
        with real(self, sealing) as commit:

            def fail() -> None:
                if took:
                    commit()
                raise sqlalchemy.exc.OperationalError("commit", None, Exception("connection lost"))

            yield fail

    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A[:2])
    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "prepared", prepared)
        if took:
            assert store.seal() == 2
        else:
            with pytest.raises(sqlalchemy.exc.OperationalError):
                store.seal()
    assert files(tmp_path) == known_files(tmp_path)
    A.put(store, *OF_A[2:])
    assert store.seal() == len(OF_A) - (2 if took else 0)
    assert files(tmp_path) == known_files(tmp_path)
    assert raw_rows(store) == marks_in([(A, one) for one in OF_A])
    store.close()


@pytest.mark.parametrize("took", [False, True], ids=["before it has", "when it has"])
def test_catalog_that_is_away_after_a_sealing_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, took: bool
) -> None:
    """Whether it has taken the sealing is known only when it is back."""
    real = Catalog.prepared

    def fail(*_: Any) -> Any:
        raise sqlalchemy.exc.OperationalError("commit", None, Exception("connection lost"))

    @contextlib.contextmanager
    def prepared(self: Catalog, sealing: Any) -> Iterator[Callable[[], None]]:
        with real(self, sealing) as commit:

            def take_and_go() -> None:
                if took:
                    commit()
                away.setattr(Catalog, "sealed_through", fail)
                fail()

            yield take_and_go

    store = open_store(tmp_path)
    greet(store)
    A.put(store, *OF_A[:2])
    with monkeypatch.context() as away:
        away.setattr(Catalog, "prepared", prepared)
        with pytest.raises(sqlalchemy.exc.OperationalError):
            store.seal()
    A.put(store, *OF_A[2:])
    assert store.seal() == len(OF_A) - (2 if took else 0)
    assert files(tmp_path) == known_files(tmp_path)
    assert raw_rows(store) == marks_in([(A, one) for one in OF_A])
    store.close()


def test_batches_are_kept_while_the_catalog_is_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    greet(store)
    A.put(store, *OF_A[:2])
    real = catalog_module._put_lifetimes

    def put(*given: Any) -> None:
        real(*given)
        other = threading.Thread(target=A.put, args=(store, OF_A[2]))
        other.start()
        other.join(20)
        assert not other.is_alive()

    monkeypatch.setattr(catalog_module, "_put_lifetimes", put)
    assert store.seal() == 2
    assert store.unsealed_bytes > 0
    assert steps(store) == all_at_once(store, [(A, one) for one in OF_A[:3]])


def test_disk_that_is_full_at_the_start_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    open_store(tmp_path).close()
    monkeypatch.setattr(Inbox, "delete", full)
    with pytest.raises(Unavailable, match="disk is full"):
        open_store(tmp_path)


def test_file_in_place_of_the_directory_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(Unavailable, match="data"):
        open_store(tmp_path / "data")


def test_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "inbox.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(Unavailable, match="not a database"):
        open_store(tmp_path)
