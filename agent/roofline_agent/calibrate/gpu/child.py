"""Runs a bench in a process of its own, reads its lines, and ends it when it says nothing any more.

Each line is {"ceiling": ...}, {"gpu": ...}, {"note": ...} or {"done": true}. What was said before a crash
counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

from ..child import explain_exit
from ..records import Ceiling, ceiling_from_json

GRACE_S = 10.0  # a process in the middle of a driver's call dies only after it


class Heard(NamedTuple):
    """What a bench measured, and what is to be said about the rest."""

    ceilings: tuple[Ceiling, ...]
    gpus: tuple[dict[str, Any], ...]  # what the driver says of each: bench.nvml.Facts
    notes: tuple[str, ...]


class _Hearing:
    """The lines so far."""

    def __init__(self, progress: Callable[[Ceiling], None]) -> None:
        self._progress = progress
        self.ceilings: list[Ceiling] = []
        self.gpus: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.is_done = False

    def take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            if "ceiling" in message:
                self.ceilings.append(ceiling_from_json(message["ceiling"]))
                self._progress(self.ceilings[-1])
            elif "gpu" in message:
                self.gpus.append(dict(message["gpu"]))
            elif "note" in message:
                self.notes.append(str(message["note"]))
            self.is_done = self.is_done or "done" in message
        except (ValueError, TypeError) as error:
            self.notes.append(f"the measurement wrote a line that is none of ours ({error}): {line[:100]!r}")

    @property
    def last(self) -> Ceiling | None:
        return self.ceilings[-1] if self.ceilings else None

    def heard(self) -> Heard:
        return Heard(tuple(self.ceilings), tuple(self.gpus), tuple(self.notes))


def listen(
    command: Sequence[str], environ: Mapping[str, str], progress: Callable[[Ceiling], None], silence_s: float
) -> Heard:
    """Never raises for what the command does; leaves no process behind.

    silence_s: so long it may say nothing. How long the whole takes depends on how many GPUs there are.
    """
    hearing = _Hearing(progress)
    with tempfile.TemporaryFile() as complaints:
        try:
            child = _start(command, environ, complaints)
        except OSError as error:
            return Heard((), (), (f"{command[0]} cannot be run: {error.strerror}",))
        try:
            for line in _lines(child, silence_s):
                hearing.take(line)
        except TimeoutError:
            after = f" after {hearing.last.name}" if hearing.last else ""
            hearing.notes.append(f"the measurement was stopped: nothing new for {silence_s:g} s{after}")
            return hearing.heard()
        finally:
            _kill(child)
        if not hearing.is_done:
            complaints.seek(0)
            said = complaints.read()[-4000:].decode("utf-8", "replace").strip()
            hearing.notes.append(explain_exit(child.wait(), hearing.last, said))
    return hearing.heard()


def _start(
    command: Sequence[str], environ: Mapping[str, str], complaints: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        # To a file: a pipe that nobody reads could fill up and block the child.
        stderr=complaints,
        start_new_session=True,  # so that what it starts ends with it
    )


def _lines(child: subprocess.Popen[bytes], silence_s: float) -> Iterator[bytes]:
    """Complete lines until the child closes its output. Raises TimeoutError."""
    assert child.stdout
    held, deadline = b"", time.monotonic() + silence_s
    with child.stdout:
        while True:
            ready, _, _ = select.select([child.stdout], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError
            data = os.read(child.stdout.fileno(), 1 << 16)
            if not data:
                break
            *lines, held = (held + data).split(b"\n")
            if lines:
                deadline = time.monotonic() + silence_s
            yield from lines
    try:
        child.wait(timeout=max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=GRACE_S)
