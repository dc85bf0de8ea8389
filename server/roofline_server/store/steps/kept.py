"""Step tables that were read for one question, kept for the next: a page asks for verdict, roofline and step
times of a job at once, and again for steps that somebody picks. Only a limited number of bytes is kept, and
not for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...records import Table, is_constant
from ..segments.stacking import ByRank, RowSource
from ..view import JobView

MOST_BYTES = 512 << 20
# Since the last question. A job that brings more is another one with the next batch.
KEPT_S, UNSEALED_KEPT_S = 30.0, 1.0


class Wanted(NamedTuple):
    """A step table, and which of its columns; columns None: all."""

    name: str
    columns: tuple[str, ...] | None


class Kept:
    """Tables of one job at one moment. Who holds `lock` may read and add."""

    def __init__(self, lasts_s: float) -> None:
        self.lock = threading.Lock()
        self.lasts_s, self.used_s = lasts_s, 0.0
        self.new: Mapping[str, Table] | None = None  # of steps that are not stored; None: not made yet
        self._by_rank = ByRank()
        self._tables: dict[str, tuple[Wanted, Table]] = {}
        self._views: dict[frozenset[str], JobView] = {}  # by the names of all columns that they have

    def table(self, wanted: Wanted, sources: Callable[[], Sequence[RowSource]]) -> Table:
        """By rank, with the columns that are wanted, as far as there are any; not to be written to."""
        known, table = self._tables.get(wanted.name, (None, {}))
        if known is None or not _covers(known.columns, wanted.columns):
            if known is not None:
                self._views.clear()  # they would keep the table that this one replaces
            table = self._by_rank.table(sources())
            for column in table.values():
                column.flags.writeable = False  # others will read it, too
            self._tables[wanted.name] = wanted, table
        if wanted.columns is None:
            return dict(table)
        return {name: column for name, column in table.items() if name in wanted.columns}

    def view(self, made: JobView) -> JobView:
        """The view that an earlier question was answered from, with what was computed once from it, where
        this one is the same in everything; else this one, for the next question."""
        columns = frozenset(f"{table}.{name}" for table, some in made.steps.items() for name in some)
        known = self._views.get(columns)
        if known is not None and same(known._replace(clocks={}), made._replace(clocks={})):
            return known
        self._views[columns] = made
        return made

    @property
    def bytes(self) -> int:
        """Bytes of memory that its tables take."""
        tables = [*(table for _, table in list(self._tables.values())), *(self.new or {}).values()]
        each = {id(one): one for table in tables for one in table.values()}
        each |= {id(one): one for one in self._by_rank.orders}
        return sum(0 if is_constant(one) else one.nbytes for one in each.values())


class KeptSteps:
    """Steps of one data directory that are kept for the next question. Thread-safe."""

    def __init__(self, most_bytes: int = MOST_BYTES, now: Callable[[], float] = time.monotonic) -> None:
        self._most_bytes, self._now = most_bytes, now
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Hashable, Kept]] = {}  # by job, the one used last at the end

    def of(self, job: str, moment: Hashable, is_sealed: bool) -> Kept:
        """What is kept of a job as it is now. moment: differs where anything of its steps does."""
        with self._lock:
            known, kept = self._kept.pop(job, (None, None))
            if kept is None or known != moment:
                kept = Kept(KEPT_S if is_sealed else UNSEALED_KEPT_S)
            kept.used_s = self._now()
            self._kept[job] = moment, kept
            self._forget()
            return kept

    def forget(self) -> int:
        """Let go of what nobody has asked for lately, and of what is too much; how many bytes that were.
        Never waits for a reader."""
        with self._lock:
            return self._forget()

    def _forget(self) -> int:
        now, room, gone = self._now(), self._most_bytes, 0
        for job, (_, kept) in reversed(list(self._kept.items())):
            size = kept.bytes
            room -= size
            if room < 0 or now - kept.used_s > kept.lasts_s:
                del self._kept[job]
                gone += size
        return gone


def _covers(known: Collection[str] | None, wanted: Collection[str] | None) -> bool:
    return known is None or (wanted is not None and set(wanted) <= set(known))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, and made of equal tables, records, lists and dicts in the same order."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, Mapping):
        return same(list(one), list(other)) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or (one != one and other != other))  # NaN is as absent here as there
