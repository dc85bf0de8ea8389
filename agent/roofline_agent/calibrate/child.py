"""Runs a part of the measurement in a process of its own, so that nothing it does can take the agent down.

The child writes JSON lines: {"ceiling": ...}, {"note": ...} and {"sweep": [...]} as they come, at the end
{"end": true}, or {"error": ...} and exit status 1. What it said before it died is kept.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.priority import prefer
from roofline_agent.calibrate.records import Ceiling, SweepPoint, ceiling_from_json, point_from_json

_HINTS = {
    "SIGILL": "the CPU refused an instruction that /proc/cpuinfo promises; report its model and flags",
    "SIGSEGV": "a fault of the measuring code; report the CPU's model and flags",
    "SIGKILL": "perhaps for memory; look at the memory limit of its cgroup and at the kernel log",
    "SIGXCPU": "by the limit on CPU time; raise it (ulimit -t)",
}


class Part(NamedTuple):
    """What a child said until its end; `error`: why that came too early."""

    ceilings: tuple[Ceiling, ...] = ()
    notes: tuple[str, ...] = ()
    sweep: tuple[SweepPoint, ...] = ()
    error: str = ""


class _Heard:
    """Collects what the child says."""

    def __init__(self, progress: Callable[[Ceiling], None]) -> None:
        self._progress = progress
        self.ceilings: list[Ceiling] = []
        self.notes: list[str] = []
        self.sweep: list[SweepPoint] = []
        self.error = ""
        self.ended = False

    def follow(self, lines: Iterable[str]) -> None:
        """Reads until the child closes its output."""
        for line in lines:
            if not line.endswith("\n"):  # the child died while it wrote this; its exit status tells more
                break
            ceiling = self._take(line)
            if ceiling is not None:
                self._progress(ceiling)

    def _take(self, line: str) -> Ceiling | None:
        """The ceiling, if the line tells one."""
        try:
            message = json.loads(line)
            if "ceiling" in message:
                self.ceilings.append(ceiling_from_json(message["ceiling"]))
                return self.ceilings[-1]
            self.notes += [str(message["note"])] if "note" in message else []
            self.sweep += [point_from_json(point) for point in message.get("sweep", [])]
            self.error = str(message.get("error", self.error))
            self.ended |= bool(message.get("end"))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CalibrationError(
                f"the measuring process wrote an unexpected line: {line[:200]!r}"
            ) from error
        return None

    def part(self, error: str) -> Part:
        return Part(tuple(self.ceilings), tuple(self.notes), tuple(self.sweep), error)


def run_child(
    command: Sequence[str],
    progress: Callable[[Ceiling], None],
    directory: Path,
    timeout_s: float,
    preferred: bool = True,
) -> Part:
    """What the command measures, started in `directory`. Leaves no process behind, however it ends.

    preferred: it comes before all others that share the CPUs, where we may have that done.

    Its `error` says so if the command fails, is killed, or takes longer than `timeout_s`; raises
    CalibrationError if it says something that makes no sense.
    """
    heard = _Heard(progress)
    # Standard error goes to a file: a pipe that nobody reads could fill up and block the child.
    with tempfile.TemporaryFile() as complaints:
        with (
            _running(command, directory, complaints, preferred) as child,
            _deadline(child, timeout_s) as passed,
        ):
            assert child.stdout
            heard.follow(child.stdout)
            status = child.wait()
        complaints.seek(0)
        said = complaints.read().decode("utf-8", "replace").strip()
    if heard.ended and status == 0:
        return heard.part("")
    last = heard.ceilings[-1] if heard.ceilings else None
    if passed.is_set():
        return heard.part(
            f"the calibration was stopped, as it took longer than {timeout_s:g} s{_after(last)}; "
            "try again when the node is less busy"
        )
    return heard.part(heard.error or explain_exit(status, last, said))


@contextmanager
def _running(
    command: Sequence[str], directory: Path, complaints: IO[bytes], preferred: bool
) -> Iterator[subprocess.Popen[str]]:
    """The process, killed if it still runs at the end, as when an interrupt breaks off the wait for it."""
    with subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=complaints,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    ) as child:
        if preferred:
            prefer(child.pid)
        try:
            yield child
        finally:
            child.kill()


@contextmanager
def _deadline(child: subprocess.Popen[str], timeout_s: float) -> Iterator[threading.Event]:
    """Kills the process when its time is up; the event says that this happened."""
    passed = threading.Event()

    def stop() -> None:
        passed.set()
        child.kill()

    timer = threading.Timer(timeout_s, stop)
    timer.daemon = True
    timer.start()
    try:
        yield passed
    finally:
        timer.cancel()


def explain_exit(status: int, last: Ceiling | None, said: str) -> str:
    """Why there is no more: from the exit status, as subprocess gives it, and standard error."""
    if status < 0:
        name = _signal_name(-status)
        hint = f": {_HINTS[name]}" if name in _HINTS else ""
        return f"the measuring process was killed by {name}{_after(last)}{hint}"
    reason = said.splitlines()[-1] if said else "it gave no reason"
    return f"the measuring process ended with status {status} and no result{_after(last)}: {reason}"


def _after(last: Ceiling | None) -> str:
    return f" after {last.name}" if last else " before its first result"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
