"""What jobs are said to be: tags, found without reading any segment.

Ranks say them as facts "tag.NAME=VALUE". They are durable with the batch that brought them, and in the
catalog from the next sealing on.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...clock import NodeClock
from ...ingest.decode import Decoded
from ...records import NODE_JOB, EventKind, Table, rows
from .catalog import Catalog

TAG = re.compile(r"tag\.([a-z][a-z0-9_.-]{0,63})=(.{1,256})", re.DOTALL)
MAX_TAGS, MAX_VALUES = 64, 64  # names of a job, values of one name: ranks can say anything
EXPERIMENT = "experiment"


class _Saying(NamedTuple):
    job: str
    name: str
    value: str


class Tags:
    """Tags of all jobs. Thread-safe."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._jobs: dict[str, dict[str, dict[str, int]]] = {}  # job -> name -> value -> when last said
        self._unsaved: dict[_Saying, int] = {}
        for job, name, value, said_ns in catalog.tags():
            self._jobs.setdefault(job, {}).setdefault(name, {})[value] = said_ns

    def take(self, decoded: Decoded, clock: Callable[[], NodeClock]) -> None:
        """Remember what a batch says; the same batch again changes nothing. clock: of the node that says it.

        A saying is as old as its event, however late the batch comes: it may have lain in the agent's spool.
        """
        for frame in decoded.frames:
            if frame.dataset == "events" and frame.job != NODE_JOB:
                self._take(frame.job, frame.base, clock)

    def _take(self, job: str, events: Table, clock: Callable[[], NodeClock]) -> None:
        if not rows(events):
            return
        for at in np.flatnonzero(events["kind"] == EventKind.FACT):
            found = TAG.fullmatch(str(events["text"][at]))
            if found and found[2].isprintable():
                (said_ns,) = clock().to_server(events["time_ns"][at : at + 1]).tolist()
                self._say(_Saying(job, *found.groups()), said_ns)

    def _say(self, what: _Saying, said_ns: int) -> None:
        with self._lock:
            names = self._jobs.setdefault(what.job, {})
            values = names.get(what.name, {})
            if what.value in values:
                if said_ns <= values[what.value]:
                    return
            elif len(values) >= MAX_VALUES or (not values and len(names) >= MAX_TAGS):
                return
            names[what.name] = {**values, what.value: said_ns}
            self._unsaved[what] = said_ns

    def save(self) -> None:
        """Make durable what is new."""
        with self._lock:
            unsaved, self._unsaved = self._unsaved, {}
        try:
            self._catalog.put_tags((*what, said_ns) for what, said_ns in unsaved.items())
        except Exception:
            with self._lock:
                self._unsaved = {**unsaved, **self._unsaved}
            raise

    def of(self, job: str) -> dict[str, str]:
        """A job's tags by name; of several values that said last."""
        with self._lock:
            names = {name: dict(values) for name, values in self._jobs.get(job, {}).items()}
        return {name: _newest(values) for name, values in sorted(names.items())}

    def jobs(self, name: str, value: str) -> list[str]:
        """The jobs whose tag `name` is `value`, in order of their ids."""
        with self._lock:
            candidates = [job for job, names in self._jobs.items() if value in names.get(name, ())]
        return sorted(job for job in candidates if self.of(job)[name] == value)


def _newest(values: dict[str, int]) -> str:
    return max(values, key=lambda value: (values[value], value))
