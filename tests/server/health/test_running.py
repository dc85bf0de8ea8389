"""The file, the socket and the lock by which a server is found."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest
from roofline_server.health import running
from roofline_server.health.running import Running

ME = Running(7, "127.0.0.1:7642", "", 1000.0, "0.1.0")


def test_what_is_written_is_read_by_its_user_alone(tmp_path: Path) -> None:
    running.write(tmp_path, ME)
    assert running.read(tmp_path) == ME
    assert stat.S_IMODE((tmp_path / running.FILE).stat().st_mode) == 0o600
    running.remove(tmp_path)
    assert running.read(tmp_path) is None
    running.remove(tmp_path)  # again: nothing to do


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1}', "\0", '{"pid": 1, "more": 2}'])
def test_file_that_says_nothing_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / running.FILE).write_text(text)
    assert running.read(tmp_path) is None


def test_lock_says_whether_a_server_lives(tmp_path: Path) -> None:
    assert not running.is_locked(tmp_path)
    lock = os.open(tmp_path / running.LOCK, os.O_RDWR | os.O_CREAT)
    assert not running.is_locked(tmp_path)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert running.is_locked(tmp_path)
    os.close(lock)
    assert not running.is_locked(tmp_path)


def test_socket_works_in_deep_folders_and_in_place_of_one_that_was_left(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    running.socket_of(deep).close()
    with running.socket_of(deep) as at, running.connected(deep, 5.0) as mine:
        mine.sendall(b"x")
        theirs, _ = at.accept()
        with theirs:
            assert theirs.recv(1) == b"x"
    assert stat.S_IMODE((deep / running.SOCKET).stat().st_mode) == 0o600
    with pytest.raises(ConnectionRefusedError):
        running.connected(deep, 5.0)
