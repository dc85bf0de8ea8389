from __future__ import annotations

import time
from pathlib import Path

import pytest
from roofline_server.server_time import TOLERANCE_NS, ServerTime, boot

from .builders import UNIX, S, catalog_of, open_store


class Machine:
    """A head node's two clocks."""

    def __init__(self) -> None:
        self.steady_ns, self.unix_ns = 5 * S, UNIX

    def pass_time(self, ns: int) -> None:
        self.steady_ns += ns
        self.unix_ns += ns

    def time(self, base_ns: int | None = None) -> ServerTime:
        return ServerTime(base_ns, lambda: self.steady_ns, lambda: self.unix_ns)


def test_begins_as_unix_time() -> None:
    assert abs(ServerTime()() - time.time_ns()) < S
    assert Machine().time()() == UNIX


def test_runs_on_when_unix_time_is_set() -> None:
    head = Machine()
    now = head.time()
    head.unix_ns -= 3600 * S
    head.pass_time(7 * S)
    assert now() == UNIX + 7 * S


def test_server_started_again_goes_on_in_the_same_time() -> None:
    head = Machine()
    base = head.time().base_ns
    head.unix_ns += TOLERANCE_NS // 2
    head.pass_time(S)
    assert head.time(base)() == UNIX + S


def test_server_started_again_takes_a_time_that_was_set_far_away(caplog: pytest.LogCaptureFixture) -> None:
    head = Machine()
    base = head.time().base_ns
    head.unix_ns += 3600 * S
    assert head.time(base)() == UNIX + 3600 * S
    assert "set by 3600.0 s" in caplog.text


def test_an_interrupted_reading_is_not_taken() -> None:
    head, readings = Machine(), [0]

    def unix() -> int:
        readings[0] += 1
        found = head.unix_ns
        if readings[0] == 1:
            head.pass_time(S)  # others ran between the two readings
        return found

    assert ServerTime(None, lambda: head.steady_ns, unix)() == UNIX + S


def test_store_keeps_its_time(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    base = first.now_ns.base_ns
    first.close()
    # As if UNIX time had been slewed since.
    again = open_store(tmp_path)
    again.close()
    with catalog_of(tmp_path) as catalog:
        catalog.put_state(f"clock {boot()}", str(base + 1000))
    third = open_store(tmp_path)
    assert third.now_ns.base_ns == base + 1000
    third.close()
