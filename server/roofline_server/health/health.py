"""Gathers how a running server is doing. What changes within a moment is read in the event loop, the rest in
a thread: clocks of many nodes and a slow disk must not hold up the agents."""

from __future__ import annotations

import asyncio
import os
import platform
import threading
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import __version__
from ..access.audit import Audit
from ..counts import SealingCounts
from ..ingest.committer import MAX_UNSEALED_BYTES, QUEUE_BYTES, Committer
from ..store.store import Store
from .condition import Condition, Distribution
from .disk import quarantined, room
from .jobs import FiguresOfJobs, look
from .readiness import Facts, makes_progress, reasons

RATE_S = 10.0  # over which batches/s are counted, and for which a late event loop is remembered
KEPT_S = 1.0  # a condition is good for so long: many who ask cost no more than one


class Beat(NamedTuple):
    """The event loop at one moment."""

    at: float  # monotonic, s
    lag_s: float
    batches: int


class Health:
    """How one running server is doing."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        sealings: SealingCounts,
        data: Path,
        audit: Audit | None = None,
    ) -> None:
        """audit: that of the guard, where there is one."""
        self._store, self._committer, self._sealings = store, committer, sealings
        self._data, self._audit = data, audit
        self.address = self.http = ""
        self.serving = self.stopping = False
        self.started = time.time()
        self.jobs = FiguresOfJobs(partial(look, store))
        self._workers: Sequence[asyncio.Task[Any]] = ()
        self._beats: deque[Beat] = deque()
        self._asking = asyncio.Lock()
        self._kept: tuple[float, Condition] | None = None

    def watch(self, workers: Sequence[asyncio.Task[Any]]) -> None:
        """What must not end before the server does."""
        self._workers = workers

    def beat(self, lag_s: float) -> None:
        """The event loop came by, so late."""
        now = time.monotonic()
        self._beats.append(Beat(now, lag_s, self._committer.counts.batches))
        while self._beats[0].at < now - RATE_S:
            self._beats.popleft()

    def reasons(self) -> tuple[str, ...]:
        """Why the server cannot take batches now; none: it can."""
        return reasons(self._facts())

    def makes_progress(self, patience_s: float) -> bool:
        return makes_progress(self._facts(), patience_s)

    @property
    def batches_per_s(self) -> float | None:
        """None in the first moments."""
        return _rate(self._beats)

    @property
    def agents(self) -> int:
        return _agents(self._committer.counts.streams)

    async def condition(self) -> Condition:
        """Everything, at most `KEPT_S` old but for its readiness."""
        async with self._asking:
            if self._kept is None or time.monotonic() - self._kept[0] > KEPT_S:
                found = await self._gathered()
                self._kept = time.monotonic(), found
            kept = self._kept[1]
        now = self.reasons()
        return kept if kept.reasons == now else Condition(**{**vars(kept), "reasons": now})

    def _facts(self) -> Facts:
        since = self._committer.committing_since
        return Facts(
            self.serving,
            self.stopping,
            self._committer.failure,
            self._committer.is_full,
            self._sealings.failure,
            None if since is None else time.monotonic() - since,
            not self.stopping and any(worker.done() for worker in self._workers),
            self._committer.catalog_failure,
        )

    async def _gathered(self) -> Condition:
        # Copies of what the event loop changes meanwhile.
        beats, streams = tuple(self._beats), dict(self._committer.counts.streams)
        return await asyncio.to_thread(self._gather, beats, streams)

    def _gather(self, beats: Sequence[Beat], streams: Mapping[tuple[str, int], int]) -> Condition:
        counts, sealings = self._committer.counts, self._sealings
        queued, queued_bytes = self._committer.queued
        errors = self._clock_errors({node for _, node in streams})
        known = [error for error in errors if error is not None]
        disk = room(self._data)
        return Condition(
            version=__version__,
            python=platform.python_version(),
            pid=os.getpid(),
            address=self.address,
            http=self.http,
            started=self.started,
            time=time.time(),
            reasons=self.reasons(),
            agents=_agents(streams),
            streams=sum(streams.values()),
            hold_s=self._committer.hold_s,
            batches=counts.batches,
            batches_per_s=_rate(beats),
            rows=counts.rows,
            bytes=counts.bytes,
            refused=counts.refused,
            doubled=counts.doubled,
            inbox_failure=self._committer.failure,
            queued_batches=queued,
            queued_bytes=queued_bytes,
            queue_limit_bytes=QUEUE_BYTES,
            commit=Distribution.of(counts.commit_seconds),
            unsealed_bytes=self._store.unsealed_bytes,
            unsealed_limit_bytes=MAX_UNSEALED_BYTES,
            seal=Distribution.of(sealings.seconds),
            seals_failed=sealings.failed,
            seal_failure=sealings.failure,
            last_seal=sealings.last,
            clock_error_s=max(known, default=None),
            unmeasured_clocks=len(errors) - len(known),
            damaged=tuple(self._store.damaged),
            quarantined=quarantined(self._data),
            refusals=None if self._audit is None else self._audit.refusals,
            disk_free_bytes=disk.free,
            disk_size_bytes=disk.size,
            loop_lag_s=max((beat.lag_s for beat in beats), default=0.0),
            memory_bytes=_memory_bytes(),
            cpu_s=time.process_time(),
            open_files=_open_files(),
            threads=threading.active_count(),
        )

    def _clock_errors(self, nodes: set[int]) -> list[float | None]:
        """Half-width of what is known of each node's clock now, s; None: nothing was measured."""
        now, clocks = np.array([self._store.now_ns()], np.int64), self._store.clocks()
        found: list[float | None] = []
        for node in nodes:
            clock = clocks[node]
            error = float(clock.error_at(clock.to_node(now))[0])
            found.append(error / 1e9 if clock.is_measured else None)
        return found


def _rate(beats: Sequence[Beat]) -> float | None:
    """Batches/s; None in the first moments."""
    if len(beats) < 2:
        return None
    return (beats[-1].batches - beats[0].batches) / (beats[-1].at - beats[0].at)


def _agents(streams: Collection[tuple[str, int]]) -> int:
    return len({agent for agent, _ in streams})


def _memory_bytes() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _open_files() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None
