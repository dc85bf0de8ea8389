"""Runs the measurement in a process of its own, so that nothing it does can take the agent down.

The child writes JSON lines: {"ceiling": ...} for each as it is done, and at the end {"calibration": ...}, or
{"error": ...} and exit status 1.
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
from roofline_agent.calibrate.records import Calibration, Ceiling, ceiling_from_json, from_json

_HINTS = {
    "SIGILL": "the CPU refused an instruction that /proc/cpuinfo promises; report its model and flags",
    "SIGSEGV": "a fault of the measuring code; report the CPU's model and flags",
    "SIGKILL": "perhaps for memory; look at the memory limit of its cgroup and at the kernel log",
    "SIGXCPU": "by the limit on CPU time; raise it (ulimit -t)",
}


class _Heard(NamedTuple):
    """What the child said before it closed its output."""

    last: Ceiling | None = None
    calibration: Calibration | None = None
    error: str | None = None


def run_child(
    command: Sequence[str], progress: Callable[[Ceiling], None], directory: Path, timeout_s: float
) -> Calibration:
    """What the command measures, started in `directory`. Leaves no process behind, however it ends.

    Raises CalibrationError if the command fails, is killed, or takes longer than `timeout_s`.
    """
    # Standard error goes to a file: a pipe that nobody reads could fill up and block the child.
    with tempfile.TemporaryFile() as complaints:
        with _running(command, directory, complaints) as child, _deadline(child, timeout_s) as passed:
            assert child.stdout
            heard = _follow(child.stdout, progress)
            status = child.wait()
        complaints.seek(0)
        said = complaints.read().decode("utf-8", "replace").strip()
    if heard.calibration and status == 0:
        return heard.calibration
    if passed.is_set():
        raise CalibrationError(
            f"the calibration was stopped, as it took longer than {timeout_s:g} s{_after(heard.last)}; "
            "try again when the node is less busy"
        )
    raise CalibrationError(heard.error or explain_exit(status, heard.last, said))


@contextmanager
def _running(
    command: Sequence[str], directory: Path, complaints: IO[bytes]
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
    ) as child:
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


def _follow(lines: Iterable[str], progress: Callable[[Ceiling], None]) -> _Heard:
    """Reads until the child closes its output."""
    heard = _Heard()
    for line in lines:
        if not line.endswith("\n"):  # the child died while it wrote this; its exit status tells more
            break
        said = _parse(line)
        if said.last:
            progress(said.last)
        last, calibration, error = said.last, said.calibration, said.error
        heard = _Heard(last or heard.last, calibration or heard.calibration, error or heard.error)
    return heard


def _parse(line: str) -> _Heard:
    try:
        message = json.loads(line)
        if "ceiling" in message:
            return _Heard(last=ceiling_from_json(message["ceiling"]))
        if "error" in message:
            return _Heard(error=str(message["error"]))
        return _Heard(calibration=from_json(message["calibration"]))
    except (ValueError, TypeError, KeyError) as error:
        raise CalibrationError(f"the measuring process wrote an unexpected line: {line[:200]!r}") from error


def explain_exit(status: int, last: Ceiling | None, said: str) -> str:
    """Why there is no calibration: from the exit status, as subprocess gives it, and standard error."""
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
