"""A sealing in a process of its own gives what one in the server gives, and may be killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from roofline_server.errors import SealingFailed
from roofline_server.ingest.service import decode_entry
from roofline_server.store.check.reading import check
from roofline_server.store.sealing import process as process_module
from roofline_server.store.sealing.process import SealingProcess
from roofline_server.store.sealing.source import SealingSource
from roofline_server.store.store import Store

from tests.fakes import wait_for

from ...builders import Node, open_store, rank, training
from ..check.stores import answers
from ..histories import ALL, all_at_once, files, greet, steps


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """All its sealings are done by the process."""
    monkeypatch.setattr(process_module, "LARGE_BYTES", 0)
    found = Store(tmp_path / "other", decode_entry, "", SealingProcess(tmp_path / "other"))
    yield found
    found.close()


def play(store: Store) -> None:
    greet(store)
    for number, (node, one) in enumerate(ALL):
        node.put(store, one)
        if number in (len(ALL) // 3, len(ALL) // 2):
            store.seal()
    store.seal()


def test_it_writes_what_the_server_would(tmp_path: Path, store: Store) -> None:
    here = open_store(tmp_path / "here")
    play(here)
    play(store)
    assert answers(store) == answers(here)
    assert files(tmp_path / "other") == files(tmp_path / "here")
    here.close()
    store.close()
    assert check(tmp_path / "other").findings == []


def test_late_data_make_it_begin_the_step_deltas_anew(store: Store) -> None:
    greet(store)
    late = ALL[1]
    for node, one in ALL:
        if one is not late[1]:
            node.put(store, one)
    store.seal()
    late[0].put(store, late[1])
    store.seal()
    assert steps(store) == all_at_once(store, ALL)


def test_killed_amid_a_sealing_it_leaves_no_file_and_the_next_one_seals(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    greet(store)
    for node, one in ALL:
        node.put(store, one)
    before, process = answers(store), store._process
    assert process is not None
    real, asked = SealingSource.progress, []

    def kill(source: SealingSource, job: str) -> Any:
        asked.append(list((tmp_path / "other/segments").rglob("*.parquet")))
        assert process._process is not None
        os.kill(process._process.pid, 9)
        return real(source, job)

    with monkeypatch.context() as patched:
        patched.setattr(SealingSource, "progress", kill)
        with pytest.raises(SealingFailed, match="-9"):
            store.seal()
    assert asked[0], "it had written files"
    assert files(tmp_path / "other") == set()
    assert store.seal() == len(ALL)
    assert answers(store) == before


def test_error_of_the_disk_is_that_of_the_sealing_and_the_process_goes_on(
    tmp_path: Path, store: Store
) -> None:
    greet(store)
    in_the_way = tmp_path / "other/segments"
    in_the_way.write_text("a file where a folder should be")
    ALL[0][0].put(store, ALL[0][1])
    with pytest.raises(NotADirectoryError):
        store.seal()
    in_the_way.unlink()
    assert store.seal() == 1


def test_closing_leaves_much_to_the_next_start_and_ends_the_process(tmp_path: Path, store: Store) -> None:
    greet(store)
    ALL[0][0].put(store, ALL[0][1])
    store.seal()
    process = store._process
    assert process is not None and process._process is not None
    child = process._process
    for node, one in ALL[1:]:
        node.put(store, one)
    before = answers(store)
    store.close()
    assert child.returncode == -9
    with pytest.raises(SealingFailed, match="stops"):
        process.write(None)  # type: ignore[arg-type]
    again = open_store(tmp_path / "other")
    assert answers(again) == before
    again.close()


def test_process_is_made_anew_after_many_sealings_and_ended_after_small_ones(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, node = store._process, Node("a")
    assert process is not None
    node.greet(store)
    sent = iter(training([rank()], batches=8))
    node.put(store, next(sent))
    store.seal()
    first = process._process
    assert first is not None
    for _ in range(9):
        process.was_not_needed()
    assert first.poll() is None
    process.was_not_needed()
    assert first.poll() is not None
    monkeypatch.setattr("roofline_server.store.sealing.process.MOST_SEALINGS", 2)
    for alive in (True, False):
        node.put(store, next(sent))
        store.seal()
        assert (process._process is not None) == alive


def test_it_ends_with_the_server_though_nobody_kills_it(store: Store) -> None:
    node = Node("a")
    node.greet(store)
    node.put(store, training([rank()], batches=1)[0])
    store.seal()
    process = store._process
    assert process is not None and process._process is not None
    child = process._process
    process._connection = None  # as the system closes it for a killed server
    wait_for(lambda: child.poll() is not None)
