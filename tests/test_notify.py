"""What systemd is told, over a real socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline.notify import ServiceManager


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def told(listening: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(listening.recv(4096).decode())
        except BlockingIOError:
            return found


def environ(listening: socket.socket, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": listening.getsockname(), **more}


def test_a_life(systemd: socket.socket) -> None:
    manager = ServiceManager(environ(systemd))
    manager.ready()
    manager.status("3 agents")
    manager.status("3 agents")
    manager.status("4 agents\nREADY=0")
    manager.stopping()
    assert told(systemd) == ["READY=1", "STATUS=3 agents", "STATUS=4 agents READY=0", "STOPPING=1"]


def test_signs_of_life_come_four_times_as_often_as_they_must(systemd: socket.socket) -> None:
    now = [100.0]
    manager = ServiceManager(environ(systemd, WATCHDOG_USEC="40000000"), lambda: now[0])
    assert manager.watchdog_s == 40
    for _ in range(40):
        manager.alive()
        now[0] += 1
    assert told(systemd) == ["WATCHDOG=1"] * 4


@pytest.mark.parametrize(
    "more", [{}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}]
)
def test_without_a_watchdog_no_signs_of_life(systemd: socket.socket, more: dict[str, str]) -> None:
    manager = ServiceManager(environ(systemd, **more))
    manager.alive()
    assert (manager.watchdog_s, told(systemd)) == (0, [])
    assert ServiceManager(environ(systemd, WATCHDOG_USEC="1000000", WATCHDOG_PID=str(os.getpid()))).watchdog_s


def test_abstract_sockets() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0roofline-test-{os.getpid()}")
        listening.setblocking(False)
        ServiceManager({"NOTIFY_SOCKET": f"@roofline-test-{os.getpid()}"}).ready()
        assert told(listening) == ["READY=1"]


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "x" * 300, "vsock:2:1"])
def test_nobody_who_listens_harms_nothing(address: str) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000"})
    manager.ready()
    manager.alive()
    manager.status("text")
    manager.stopping()


def test_listener_that_is_full_holds_nobody_up(systemd: socket.socket) -> None:
    manager = ServiceManager(environ(systemd))
    for number in range(10_000):
        manager.status(str(number))
    assert told(systemd)[0] == "STATUS=0"
