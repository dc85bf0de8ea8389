"""Kernel calls added up by kind: sums and the spread of time per call, in memory that follows the kinds.

Calls come a piece at a time (`Adder.add`). What is kept of them are sums per group (rank, phase, kind), and
how many of a group lasted how long (`duration_bins`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Spread

from ..records import ABSENT, Floats, Ints, KernelKind, Table, concatenate, rows, take
from .counters import groups
from .duration_bins import BINS, bin_of, quantiles
from .stretch_index import Stretches, StretchIndex

SUMMED = ("flops", "bytes", "dram", "l1", "l2")
FLAGS = ("on_gpu", "counted")
ADDED = ("kernel", "duration_ns", *SUMMED, *FLAGS)
KIND_BITS = 24  # of a group's number that tell the kind of kernel
KEPT_ROWS = 1 << 18  # sums and bins that are kept before equal ones are put together
UNKNOWN = KernelKind("", "unknown", "", "", "", "", "")
PHASE = "phase."
EXTREMES = {"shortest": np.minimum, "longest": np.maximum}


class KernelTotal(NamedTuple):
    """All calls of one kind of kernel by one rank, in one phase where phases are asked for.

    phase: "forward", "backward", "optimizer", ... by the span "phase.NAME" that holds the call's middle; ""
    where none does, and where phases were not asked for. A GPU's kernels run when the GPU comes to them,
    which may be in another phase than that which launched them.
    time_ns: of all calls together. flops, bytes (minimum), dram, l1, l2: sums over all calls, FLOP and bytes;
    None unless they are known of every call. 0 FLOP is a kernel that computes nothing, None one whose FLOPs
    are not known. time: of one call, s; its count is that of the calls that were recorded. Where calls have
    weights, sums and numbers of calls are of all that they stand for.
    """

    rank: int
    kind: KernelKind
    phase: str
    calls: float
    time_ns: float
    flops: float | None
    bytes: float | None
    dram: float | None
    l1: float | None
    l2: float | None
    on_gpu: bool
    time: Spread
    counted: bool = False  # its FLOPs, by a profiler


class Phases:
    """In which phase a rank was at a moment. Phases of a rank do not overlap."""

    def __init__(self, spans: Table) -> None:
        """spans: rank, time_ns, end_ns (server time), name; those not called "phase.NAME" do not count."""
        names = spans["name"].tolist() if rows(spans) else []
        phases = sorted(name for name in dict.fromkeys(names) if name.startswith(PHASE))
        self.names = ["", *(name.removeprefix(PHASE) for name in phases)]
        self._stretches: StretchIndex | None = None
        if not phases:
            return
        codes = {name: code for code, name in enumerate(phases, 1)}
        code = np.array([codes.get(name, 0) for name in names], np.int64)
        some = take({**spans, "code": code}, code > 0)
        some = take(some, np.lexsort((some["time_ns"], some["rank"])))
        # Each is cut where the next of its rank begins; none is empty.
        begin, end = some["time_ns"].astype(np.int64), some["end_ns"].astype(np.int64)
        follows = some["rank"][1:] == some["rank"][:-1]
        end[:-1] = np.where(follows, np.minimum(end[:-1], begin[1:]), end[:-1])
        apart = take({**some, "time_ns": begin, "end_ns": end}, end > begin + 1)
        self._code = apart["code"]
        # Neighbours that touch would become one stretch: each ends a moment before the next begins.
        self._stretches = StretchIndex(
            {
                int(apart["rank"][mine.start]): (apart["time_ns"][mine], apart["end_ns"][mine] - 1)
                for mine in groups(apart["rank"])
            }
        )

    def of(self, rank: Ints, moments: Ints) -> Ints:
        """Position in `names` for each."""
        if self._stretches is None:
            return np.zeros(len(rank), np.int64)
        at, inside = self._stretches.find(rank, moments)
        return np.where(inside, self._code[at], 0)


class Adder:
    """Adds up pieces of calls.

    stretches: whose calls count, and when; a call belongs to the stretch that holds its middle. weights: for
    how many such stretches each of a rank's stands, see `StretchIndex.spread`.
    """

    def __init__(
        self, stretches: Stretches, phases: Phases | None = None, weights: Mapping[int, Floats] | None = None
    ) -> None:
        self._stretches, self._phases = StretchIndex(stretches), phases
        self._weights = self._stretches.spread(weights) if weights else None
        self._names = phases.names if phases is not None else [""]
        self._sums: list[Table] = []
        self._bins: list[Table] = []
        self._kept = 0
        self.outside = 0  # calls of the ranks asked for that lie in no stretch

    def add(self, calls: Table) -> None:
        """calls: rank, kernel (number), time_ns, duration_ns, and where there are flops, bytes, dram, l1, l2,
        on_gpu, counted; server time."""
        rank = calls["rank"].astype(np.int64)
        middle = calls["time_ns"] + calls["duration_ns"] // 2
        at, inside = self._stretches.find(rank, middle)
        if not inside.all():
            self.outside += int((self._stretches.know(rank) & ~inside).sum())
            added = {name: calls[name] for name in ADDED if name in calls}
            calls, rank, middle, at = take(added, inside), rank[inside], middle[inside], at[inside]
        if not rows(calls):
            return
        phase = 0 if self._phases is None else self._phases.of(rank, middle)
        group = (rank * len(self._names) + phase) << KIND_BITS | calls["kernel"].astype(np.int64)
        sums, bins = _added(group, calls, None if self._weights is None else self._weights[at])
        self._sums.append(sums)
        self._bins.append(bins)
        self._kept += rows(sums) + rows(bins)
        if self._kept > KEPT_ROWS:
            self._put_together()

    def _put_together(self) -> None:
        self._sums = [_by_key(concatenate(self._sums))]
        self._bins = [_by_key(concatenate(self._bins))]
        # As much again may come before the next time: else many kinds would be put together at every piece.
        self._kept = -(rows(self._sums[0]) + rows(self._bins[0]))

    def totals(self, kinds: Mapping[int, KernelKind]) -> list[KernelTotal]:
        """By rank, then most time first. kinds: what the numbers in `kernel` stand for."""
        if not self._sums:
            return []
        self._put_together()
        sums, bins = self._sums[0], self._bins[0]
        times = quantiles(bins, sums)
        plain = {name: column.tolist() for name, column in sums.items()}
        found = []
        for at, group in enumerate(plain["key"]):
            rank, phase = divmod(group >> KIND_BITS, len(self._names))
            calls = plain["calls"][at]
            known: dict[str, float | None] = dict.fromkeys(SUMMED)
            for name in SUMMED:
                if plain[f"{name}_calls"][at] == calls:
                    known[name] = plain[name][at]
            p5, p25, p50, p75, p95 = times[at]
            on_gpu, counted = (plain[name][at] > 0 for name in FLAGS)
            found.append(
                KernelTotal(
                    rank,
                    kinds.get(group & (1 << KIND_BITS) - 1, UNKNOWN),
                    self._names[phase],
                    calls,
                    plain["time_ns"][at],
                    **known,
                    on_gpu=on_gpu,
                    time=Spread(p5, p25, p50, p75, p95, plain["recorded"][at]),
                    counted=counted if plain["counted_calls"][at] else on_gpu,
                )
            )
        return sorted(found, key=lambda total: (total.rank, -total.time_ns))


def _added(group: Ints, calls: Table, weight: Floats | None) -> tuple[Table, Table]:
    """Sums by group, and calls by group and bin (key: group x BINS + bin). weight: of each call; None: 1."""
    duration = calls["duration_ns"].astype(np.int64)
    key = group * BINS + bin_of(duration)
    order = np.argsort(key)
    key = key[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    weight = None if weight is None else weight[order]
    bins: Table = {"key": key[first], "calls": _count(weight, first, len(key))}
    groups = key[first] // BINS
    at = first[np.append(True, groups[1:] != groups[:-1])]
    ordered = duration[order]
    sums: Table = {
        "key": key[at] // BINS,
        "calls": _count(weight, at, len(key)),
        "recorded": _lengths(at, len(key)),
        # Sums of a long job's FLOPs leave int64.
        "time_ns": np.add.reduceat(ordered if weight is None else ordered * weight, at),
        "shortest": np.minimum.reduceat(ordered, at),
        "longest": np.maximum.reduceat(ordered, at),
    }
    for name in (*SUMMED, *FLAGS):
        sums[name], sums[f"{name}_calls"] = _sum_of(calls.get(name), order, at, weight)
    return sums, bins


def _sum_of(
    column: Ints | None, order: Ints, at: Ints, weight: Floats | None
) -> tuple[Floats, Ints | Floats]:
    """Sums of what is known, and of how many calls it is. weight: in the order `order`."""
    if column is None:
        return np.zeros(len(at)), np.zeros(len(at), np.int64)
    ordered = column[order]
    known = ordered != ABSENT
    if weight is not None:
        numbers = np.where(known, ordered, 0) * weight
        return np.add.reduceat(numbers, at), np.add.reduceat(np.where(known, weight, 0.0), at)
    if known.all():
        return np.add.reduceat(ordered.astype(np.float64), at), _lengths(at, len(ordered))
    return (
        np.add.reduceat(np.where(known, ordered, 0).astype(np.float64), at),
        np.add.reduceat(known.astype(np.int64), at),
    )


def _count(weight: Floats | None, first: Ints, count: int) -> Ints | Floats:
    """How many each group is, of `count` in order; weight: how many each of them is, None: 1."""
    return _lengths(first, count) if weight is None else np.add.reduceat(weight, first)


def _lengths(first: Ints, count: int) -> Ints:
    return np.diff(np.append(first, count)).astype(np.int64)


def _by_key(table: Table) -> Table:
    """Rows of the same key added up, in order of keys."""
    order = np.argsort(table["key"])
    key = table["key"][order]
    at = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    found: Table = {"key": key[at]}
    for name in table.keys() - {"key"}:
        found[name] = EXTREMES.get(name, np.add).reduceat(table[name][order], at)
    return found
