"""The indices of processes that are ranks by their marks alone, kept over restarts of the agent.

The first free index is given in the order in which processes mark first, which is another after a restart.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from .processes import Processes

log = logging.getLogger(__name__)


class _Adopted(NamedTuple):
    pid: int
    start_ticks: int
    job: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name


class AdoptedIndices:
    """Gives each process an index of its own, in one file of the agent's state."""

    def __init__(self, processes: Processes, path: Path | None) -> None:
        """path: None keeps them in memory alone."""
        self._processes = processes
        self._path = path
        self._boot = processes.boot()
        self._all = _load(path, self._boot) if path is not None else []

    def index_of(self, pid: int, start_ticks: int, job: str, role: str, taken: Collection[int]) -> int:
        """The index of this process, as before; else the first that is neither taken nor of another
        process."""
        self._all = [one for one in self._all if self._lives(one)]
        others = set(taken)
        for one in self._all:
            if one[:4] == (pid, start_ticks, job, role):
                return one.index
            if one[2:4] == (job, role):
                others.add(one.index)
        index = next(number for number in itertools.count() if number not in others)
        self._all.append(_Adopted(pid, start_ticks, job, role, index))
        self._save()
        return index

    def _lives(self, one: _Adopted) -> bool:
        status = self._processes.status(one.pid)
        return status is not None and status.start_ticks == one.start_ticks

    def _save(self) -> None:
        if self._path is None:
            return
        new = self._path.with_suffix(".new")
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump({"boot": self._boot, "ranks": self._all}, file)
            new.replace(self._path)  # not synced: of no use after a crash of the machine
        except OSError as error:
            log.warning("indices of ranks are not kept for a restart of the agent: %s", error)
            self._path = None


def _load(path: Path, boot: str) -> list[_Adopted]:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["boot"] != boot:
            return []
        return [
            _Adopted(int(pid), int(start), str(job), str(role), int(index))
            for pid, start, job, role, index in kept["ranks"]
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        log.warning("%s is not used: %s", path, error)
        return []
