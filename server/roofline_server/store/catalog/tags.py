"""Tags of jobs, found without reading any segment.

Ranks report them as facts "tag.NAME=VALUE". They are durable with the batch that brought them, and in the
catalog from the next sealing on.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...clock import NodeClock
from ...records import NODE_JOB, DecodedBatch, EventKind, rows
from .catalog import Catalog

TAG = re.compile(r"tag\.([a-z][a-z0-9_.-]{0,63})=(.{1,256})", re.DOTALL)
MAX_TAGS, MAX_VALUES = 64, 64  # names of a job, values of one name: ranks can report anything
EXPERIMENT = "experiment"
ENDED = "slurm.state"  # reported once, when Slurm has ended a job


class _Tag(NamedTuple):
    job: str
    name: str
    value: str


class Tags:
    """Tags of all jobs. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._jobs: dict[str, dict[str, dict[str, int]]] = {}  # job -> name -> value -> when last reported
        self._unsaved: dict[_Tag, int] = {}
        self.job_ended = False  # Slurm has ended a job since the last sealing
        for job, name, value, reported_ns in catalog.tags():
            self._jobs.setdefault(job, {}).setdefault(name, {})[value] = reported_ns

    def add(self, batch: DecodedBatch, clock: Callable[[], NodeClock]) -> None:
        """Remember the tags of a batch; the same batch again changes nothing. clock: that of its node.

        A tag is as old as its event, however late the batch comes: it may have lain in the agent's spool.
        """
        for frame in batch.frames:
            events = frame.base
            if frame.dataset != "events" or frame.job == NODE_JOB or not rows(events):
                continue
            for at in np.flatnonzero(events["kind"] == EventKind.FACT):
                found = TAG.fullmatch(str(events["text"][at]))
                if found and found[2].isprintable():
                    (reported_ns,) = clock().to_server(events["time_ns"][at : at + 1]).tolist()
                    self._add(_Tag(frame.job, *found.groups()), reported_ns)

    def _add(self, tag: _Tag, reported_ns: int) -> None:
        with self._lock:
            names = self._jobs.setdefault(tag.job, {})
            values = names.get(tag.name, {})
            if tag.value in values:
                if reported_ns <= values[tag.value]:
                    return
            elif len(values) >= MAX_VALUES or (not values and len(names) >= MAX_TAGS):
                return
            names[tag.name] = {**values, tag.value: reported_ns}
            self._unsaved[tag] = reported_ns
            self.job_ended |= tag.name == ENDED

    def save(self) -> None:
        """Make durable what is new."""
        with self._lock:
            unsaved, self._unsaved = self._unsaved, {}
            self.job_ended = False
        try:
            self._catalog.put_tags((*tag, reported_ns) for tag, reported_ns in unsaved.items())
        except Exception:
            with self._lock:
                self._unsaved = {**unsaved, **self._unsaved}
            raise

    def of(self, job: str) -> dict[str, str]:
        """A job's tags by name; of several values the one reported last."""
        with self._lock:
            names = {name: dict(values) for name, values in self._jobs.get(job, {}).items()}
        newest = {}
        for name, values in sorted(names.items()):
            _, newest[name] = max((reported_ns, value) for value, reported_ns in values.items())
        return newest

    def jobs(self, name: str, value: str) -> list[str]:
        """The jobs whose tag `name` is `value`, in order of their ids."""
        with self._lock:
            candidates = [job for job, names in self._jobs.items() if value in names.get(name, ())]
        return sorted(job for job in candidates if self.of(job)[name] == value)
