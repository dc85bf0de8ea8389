"""Kernel calls added up by kind: sums and the spread of time per call, in memory that follows the kinds.

Calls come a piece at a time (`Adder.add`). What is kept of them are sums per group (rank, phase, kind), and
how many of a group lasted how long, in bins a 32nd of an octave wide: quantiles are within 1.6 % of the true
ones, and exact where all calls of a group took equally long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Spread

from ..records import ABSENT, Bools, Floats, Ints, KernelKind, Table, concatenate, rows, take
from .counters import groups
from .kernels import merge

SUMMED = ("flops", "bytes", "dram", "l1", "l2")
MIDDLE_BITS = 5  # of a duration's mantissa that tell its bin: 32 bins an octave
BINS = 64 << MIDDLE_BITS
FLAGS = ("on_gpu", "counted")
ADDED = ("kernel", "duration_ns", *SUMMED, *FLAGS)
KIND_BITS = 24  # of a group's number that tell the kind of kernel
KEPT_ROWS = 1 << 18  # sums and bins that are kept before equal ones are put together
UNKNOWN = KernelKind("", "unknown", "", "", "", "", "")
NS = 1e9
PHASE = "phase."
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
EXTREMES = {"shortest": np.minimum, "longest": np.maximum}

# rank -> stretches of server time whose calls count (begin, end); None: all of the rank's calls.
Stretches = Mapping[int, tuple[Ints, Ints] | None]


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


class Within:
    """Finds in which of many ranks' stretches of time a moment lies.

    Ranks and moments are joined to one number, so that one search finds the stretch of any rank's moment.
    """

    def __init__(self, stretches: Stretches) -> None:
        self._ranks = np.array(sorted(stretches), np.int64)
        merged = {r: merge(s[0].astype(np.int64), s[1].astype(np.int64)) for r, s in stretches.items() if s}
        found = [s for s in merged.values() if len(s[0])]
        first = min((int(begin[0]) for begin, _ in found), default=0)
        last = max((int(end[-1]) for _, end in found), default=0)
        # Beyond both ends there is a moment for all that is outside.
        self._origin, self._shift = first - 1, 0
        while ((last - first + 3) >> self._shift) * (len(self._ranks) + 1) >= 2**62:
            self._shift += 1
        self._span = ((last - first + 2) >> self._shift) + 1
        begins, ends = [], []
        for place, rank in enumerate(self._ranks.tolist()):
            whole = np.array([place * self._span], np.int64), np.array([(place + 1) * self._span], np.int64)
            begin, end = whole if stretches[rank] is None else (self._of(place, b) for b in merged[rank])
            begins.append(begin)
            ends.append(end)
        self._counts = [len(begin) for begin in begins]
        self._begin, self._end = (np.concatenate(s) if s else np.zeros(0, np.int64) for s in (begins, ends))

    def _of(self, place: int | Ints, moments: Ints) -> Ints:
        within = np.clip((moments - self._origin) >> self._shift, 0, self._span - 1)
        found: Ints = place * self._span + within
        return found

    def spread(self, numbers: Mapping[int, Floats]) -> Floats:
        """One number per stretch, given of each rank in order of time; 1 for ranks without any.

        Stretches of a rank that has numbers must lie apart.
        """
        each = zip(self._ranks.tolist(), self._counts, strict=True)
        return np.concatenate([numbers.get(rank, np.ones(count)) for rank, count in each])

    def know(self, rank: Ints) -> Bools:
        """Which of these are ranks that stretches were given of."""
        return np.isin(rank, self._ranks)

    def find(self, rank: Ints, moments: Ints) -> tuple[Ints, Bools]:
        """(number of the stretch, whether it is inside) of each; stretches count by rank, then by time."""
        if not len(self._begin):
            return np.zeros(len(rank), np.int64), np.zeros(len(rank), np.bool_)
        place = np.minimum(np.searchsorted(self._ranks, rank), len(self._ranks) - 1)
        keys = self._of(place, moments)
        at = np.searchsorted(self._begin, keys, side="right") - 1
        inside = (at >= 0) & (keys < self._end[at]) & (self._ranks[place] == rank)
        return at, inside


class Phases:
    """In which phase a rank was at a moment. Phases of a rank do not overlap."""

    def __init__(self, spans: Table) -> None:
        """spans: rank, time_ns, end_ns (server time), name; those not called "phase.NAME" do not count."""
        names = spans["name"].tolist() if rows(spans) else []
        phases = sorted(name for name in dict.fromkeys(names) if name.startswith(PHASE))
        self.names = ["", *(name.removeprefix(PHASE) for name in phases)]
        self._within: Within | None = None
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
        self._within = Within(
            {
                int(apart["rank"][mine.start]): (apart["time_ns"][mine], apart["end_ns"][mine] - 1)
                for mine in groups(apart["rank"])
            }
        )

    def of(self, rank: Ints, moments: Ints) -> Ints:
        """Position in `names` for each."""
        if self._within is None:
            return np.zeros(len(rank), np.int64)
        at, inside = self._within.find(rank, moments)
        return np.where(inside, self._code[at], 0)


class Adder:
    """Adds up pieces of calls.

    stretches: whose calls count, and when; a call belongs to the stretch that holds its middle. weights: for
    how many such stretches each of a rank's stands, see `Within.spread`.
    """

    def __init__(
        self, stretches: Stretches, phases: Phases | None = None, weights: Mapping[int, Floats] | None = None
    ) -> None:
        self._within, self._phases = Within(stretches), phases
        self._weights = self._within.spread(weights) if weights else None
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
        at, inside = self._within.find(rank, middle)
        if not inside.all():
            self.outside += int((self._within.know(rank) & ~inside).sum())
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
        times = _spreads(bins, sums)
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
    key = group * BINS + _bin_of(duration)
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


def _bin_of(duration_ns: Ints) -> Ints:
    """The exponent of a duration and the first bits of its mantissa, as one number."""
    bits = np.maximum(duration_ns, 1).astype(np.float64).view(np.int64) >> (52 - MIDDLE_BITS)
    found: Ints = np.minimum(bits - (1023 << MIDDLE_BITS), BINS - 1)
    return found


def _edge(number: Ints | Floats) -> Floats:
    """Where a bin begins, ns."""
    whole, part = np.divmod(np.asarray(number, np.float64), 1 << MIDDLE_BITS)
    edge: Floats = np.exp2(whole) * (1 + part / (1 << MIDDLE_BITS))
    return edge


def _spreads(bins: Table, sums: Table) -> list[list[float]]:
    """QUANTILES of each group, s: straight lines within a bin."""
    first = np.searchsorted(bins["key"], sums["key"] * BINS)
    last = np.append(first[1:], rows(bins)) - 1
    behind = np.cumsum(bins["calls"])
    before = behind[first] - bins["calls"][first]
    wanted = before[:, None] + np.outer(sums["calls"], QUANTILES)
    at = np.clip(np.searchsorted(behind, wanted), first[:, None], last[:, None])
    part = (wanted - (behind - bins["calls"])[at]) / bins["calls"][at]
    number = bins["key"][at] % BINS
    low, high = _edge(number), _edge(number + 1)
    found = np.clip(low + part * (high - low), sums["shortest"][:, None], sums["longest"][:, None]) / NS
    plain: list[list[float]] = found.tolist()
    return plain
