"""Watches a Horovod timeline while a rank runs: spans of what was requested of Horovod, fused and executed.

A timeline that the user asked for (HOROVOD_TIMELINE, horovodrun --timeline-filename) is read and left alone.
One of our own is made only on request, because it is not free: Horovod's writer spins on a core of rank 0 as
long as the training runs. And all ranks of a job must agree: Horovod exchanges more bits between its ranks
if HOROVOD_TIMELINE is set, so a job in which only some ranks have it hangs. Therefore nothing that may differ
between ranks decides whether it is set; if no file can be created, there is just nothing to read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import IO

from roofline_step.packets import Span

from .events import TimelineDecoder
from .private_file import BLOCK, free_blocks, path, private_file
from .spans import Spans
from .tail import TailParser

READ_BYTES = 4 << 20  # in one look: parsing more would hold the rank's output up
HEADER_BYTES = 160  # of the first event, which has the time when the file was begun
KEPT_BYTES = BLOCK  # at the beginning, never freed
CLOCK_STEP_NS = 1_000_000_000  # the wall clock may be set back by this much meanwhile
TIMELINE, MARK_CYCLES, DYNAMIC = "HOROVOD_TIMELINE", "HOROVOD_TIMELINE_MARK_CYCLES", "DYNAMIC"
READ = "ROOFLINE_HOROVOD_TIMELINE_READ"  # informs the hooks in the rank that rank 0's requests come from here
# Horovod's own first, then its launchers', then MPI's.
_RANKS = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


class TimelineWatch:
    """Reads one file as it grows. Never raises, never blocks."""

    def __init__(
        self, environ: Mapping[str, str], own: IO[bytes] | None = None, name: str | None = None
    ) -> None:
        """environ: what the command needs. own: our file, whose blocks are freed once read. name: the user's
        file, which may appear later."""
        self.environ = environ
        self._own, self._name = own, name
        self._started_ns = time.time_ns()
        self._descriptor = own.fileno() if own is not None else None
        self._start_anew(b"")

    def _start_anew(self, header: bytes) -> None:
        # An earlier run may have left a file in the same place: its header has an earlier time.
        _, _, text = header.partition(b'"start_time_since_epoch_in_micros":')
        digits = text.split(b"}")[0].strip()
        is_number = digits.isdigit()
        self._header = header
        self._is_ours = is_number and int(digits) * 1000 >= self._started_ns - CLOCK_STEP_NS
        self._offset, self._freed = 0, KEPT_BYTES
        self._parser, self._timeline, self._spans = TailParser(), TimelineDecoder(), Spans()

    def look(self) -> list[Span]:
        """What is new since the last look."""
        try:
            if self._name is not None:
                self._open_current(self._name)
            if self._descriptor is None:
                return []
            return self._read(self._descriptor)
        except (OSError, ValueError, OverflowError):
            return []

    def close(self) -> None:
        """Forget the file; one of our own vanishes."""
        if self._own is not None:
            self._own.close()
        elif self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = self._name = None

    def _open_current(self, name: str) -> None:
        """Open the user's file; another one may come in its place."""
        if self._descriptor is not None:
            if os.path.samestat(os.fstat(self._descriptor), os.stat(name)):
                return
            os.close(self._descriptor)
            self._descriptor = None
        self._descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def _read(self, descriptor: int) -> list[Span]:
        header = os.pread(descriptor, HEADER_BYTES, 0)
        if len(header) < HEADER_BYTES:
            return []
        if header != self._header:  # an elastic job starts the file again with every reset
            self._start_anew(header)
        if not self._is_ours:
            return []
        data = os.pread(descriptor, READ_BYTES, self._offset)
        data = data[:-1] if data.endswith(b"]") else data
        self._offset += len(data)
        wall_to_node_ns = time.monotonic_ns() - time.time_ns()
        for event in self._parser.feed(data):
            for record in self._timeline.add(event):
                self._spans.add(record, wall_to_node_ns)
        end = (self._offset - 1) // BLOCK * BLOCK  # Horovod goes one byte back to write on
        if self._own is not None and end > self._freed:
            free_blocks(descriptor, self._freed, end)
            self._freed = end
        return self._spans.take()


def watch(
    environ: Mapping[str, str], wanted: bool, say: Callable[[str], None] = lambda _: None
) -> TimelineWatch | None:
    """How the timeline of this rank is read; None when there is none to read.

    wanted: every rank of this job gets one, so that rank 0 writes it.
    """
    named = environ.get(TIMELINE)
    if named:
        # Only rank 0 writes the file; others on its node could read it and take it for their own.
        if named == DYNAMIC or not may_be_coordinator(environ):
            return None
        return TimelineWatch({READ: "1"}, name=os.path.abspath(named))
    if not wanted:
        return None
    file = private_file()
    switches = {TIMELINE: DYNAMIC, MARK_CYCLES: "1"}
    if file is None:
        if may_be_coordinator(environ):
            say(
                "roofline-agent: what Horovod executes is not seen, for neither the temporary folder nor"
                " /dev/shm can hold its timeline: set TMPDIR to a folder on a file system that takes holes in"
                " files (ext4, xfs, btrfs, tmpfs), and no limit on file sizes (ulimit -f)"
            )
        return TimelineWatch(switches)
    return TimelineWatch({**switches, TIMELINE: path(file), READ: "1"}, file)


def may_be_coordinator(environ: Mapping[str, str]) -> bool:
    """Whether this is rank 0, or a rank whose number nothing names."""
    return next((environ[name] for name in _RANKS if environ.get(name)), "0") == "0"
