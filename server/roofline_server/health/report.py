"""What `roofline-server status` says, for people: pure, from what was found."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .condition import Condition
from .running import Running

MOST_NAMED = 5  # files
LITTLE_BYTES, LITTLE_PART = 1 << 30, 0.05
LATE_SEAL_S, LATE_LOOP_S = 300.0, 1.0
LARGE_CLOCK_ERROR_S = 0.01
NEARLY_FULL = 0.8

READY, NOT_READY, NOT_RUNNING = 0, 1, 3  # exit codes


@dataclass(frozen=True)
class Status:
    """How a data directory is, and the server that works there, if one does."""

    data: Path
    exists: bool
    locked: bool
    left: Running | None  # what a server wrote as it started, which may have been killed since
    condition: Condition | None  # None: it does not run, or does not answer
    disk_used_bytes: int
    disk_free_bytes: int | None
    disk_size_bytes: int | None
    quarantined: int

    @property
    def state(self) -> str:
        if not self.locked:
            return "not running"
        if self.condition is None:
            return "no answer"
        return "ready" if self.condition.ready else "not ready"

    @property
    def exit_code(self) -> int:
        if not self.locked:
            return NOT_RUNNING
        return READY if self.state == "ready" else NOT_READY


def text(status: Status) -> str:
    rows = [*_server(status), *_disk(status)]
    lines = [f"{name:<10} {value}" for name, value in rows]
    lines += [f"\nwarning: {one}" for one in warnings(status)]
    return "\n".join(lines)


def _server(status: Status) -> Iterator[tuple[str, str]]:
    now = status.condition
    if now is None:
        yield "server", _without_answer(status)
        return
    yield "server", f"running (pid {now.pid}, version {now.version}) since {_day(now.started)}"
    yield "ready", "yes" if now.ready else f"no: {'; '.join(now.reasons)}"
    yield "address", now.address
    yield "http", now.http or "off"
    rate = "" if now.batches_per_s is None else f", {now.batches_per_s:.1f} batches/s"
    held = f", asked to gather for {now.hold_s:g} s before they send" if now.hold_s else ""
    yield "agents", f"{now.agents} connected{rate}{held}"
    yield "taken", f"{_batches(now.batches)}, {now.rows} rows, {_size(now.bytes)} since the start"
    waiting = f"{_batches(now.queued_batches)} ({_size(now.queued_bytes)}) before the inbox"
    limit = f"{_size(now.unsealed_bytes)} of at most {_size(now.unsealed_limit_bytes)}"
    yield "backlog", f"{waiting}, {limit} before a sealing"
    yield "sealing", _sealing(now)
    if now.clock_error_s is not None:
        yield "clocks", f"known to {1e6 * now.clock_error_s:.0f} us or better on connected nodes"


def _without_answer(status: Status) -> str:
    if not status.exists:
        return f"not running: there is no data directory {status.data}"
    if not status.locked:
        return "not running" + ("; the last one was killed" if status.left else "")
    who = f" (pid {status.left.pid} at {status.left.address})" if status.left else ""
    return f"running{who}, but it does not answer: it is starting or stopping, or it hangs; see its log"


def _sealing(now: Condition) -> str:
    if now.last_seal is None:
        return "none yet"
    mean = f", {now.seal.total / now.seal.number:.2f} s each" if now.seal.number else ""
    return f"the last {now.time - now.last_seal:.0f} s ago{mean}"


def _disk(status: Status) -> Iterator[tuple[str, str]]:
    if status.exists:
        free = "" if status.disk_free_bytes is None else f", {_size(status.disk_free_bytes)} free"
        yield "data", f"{status.data}: {_size(status.disk_used_bytes)} used{free}"


def warnings(status: Status) -> list[str]:
    """What somebody should look at, and what to do."""
    found = [*_disk_warnings(status)]
    if status.condition is not None:
        found += _warnings(status.condition)
    return found


def _disk_warnings(status: Status) -> Iterator[str]:
    free, size = status.disk_free_bytes, status.disk_size_bytes
    if free is not None and size and free < min(LITTLE_BYTES, LITTLE_PART * size):
        yield (
            f"only {_size(free)} free on the disk of {status.data}: when it is full, agents keep their data "
            "and wait; make room, or move the data to a larger disk"
        )
    if status.quarantined:
        yield (
            f"{_files(status.quarantined)} set apart in {status.data / 'quarantine'}: README.txt there says "
            "how to put them back"
        )


def _warnings(now: Condition) -> Iterator[str]:
    if now.damaged:
        some = ", ".join(now.damaged[:MOST_NAMED]) + (", ..." if len(now.damaged) > MOST_NAMED else "")
        yield (
            f"{_files(len(now.damaged))} damaged and left out of reports: {some}; put them back from a "
            "backup while the server is stopped, and check the disk"
        )
    if now.seal_failure:
        yield (
            f"the last sealing failed ({now.seal_failure}); nothing is lost, the data stay in the inbox, but "
            "agents wait when that is full"
        )
    elif now.unsealed_bytes and now.time - (now.last_seal or now.started) > LATE_SEAL_S:
        yield f"data wait and nothing was sealed for {now.time - (now.last_seal or now.started):.0f} s"
    if now.unsealed_bytes > NEARLY_FULL * now.unsealed_limit_bytes:
        yield "sealing barely keeps up: agents will soon wait; a faster disk or fewer samples a second help"
    if now.queued_bytes > NEARLY_FULL * now.queue_limit_bytes:
        yield "the inbox's disk barely keeps up: agents will soon wait"
    if now.refused:
        yield (
            f"{_batches(now.refused)} refused as malformed, and missing: the log names the agents; update "
            "those"
        )
    if now.loop_lag_s > LATE_LOOP_S:
        yield f"the server was busy for {now.loop_lag_s:.1f} s at a stretch lately: it lacks CPU time"
    if now.clock_error_s is not None and now.clock_error_s > LARGE_CLOCK_ERROR_S:
        yield (
            f"a node's clock is known to {1e3 * now.clock_error_s:.0f} ms only: comparisons of moments "
            "between nodes are that wrong; the network delays its answers"
        )


def _batches(number: int) -> str:
    return f"{number} batch" if number == 1 else f"{number} batches"


def _files(number: int) -> str:
    return "1 file is" if number == 1 else f"{number} files are"


def _size(number: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} B" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
