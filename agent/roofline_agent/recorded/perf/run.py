"""Sums up one run of `perf stat` to one point of the roofline: FLOPs, DRAM bytes, seconds.

A sum is given only where everything that belongs to it was counted; else a warning gives the reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import pairwise
from operator import add

from ..cells import Array
from ..collector import Collector
from ..columns import spread
from ..recording import Kernel
from .events import EventMeaning, flop_meaning
from .lines import RowColumns
from .row import PerfRow

NAME = "(whole run)"
_HYBRID = ("cpu_core", "cpu_atom", "cpu_lowpower")
Taker = Callable[[Iterable[float]], None]
_CHANNELS = 8  # memory channels of a Zen 2 or 3 server, each with an event of its own
_WIDTHS = ("scalar", "128", "256")


class _EventSum:
    """What one event, or several that add up, counted in all."""

    def __init__(self) -> None:
        self.total = 0.0
        self.missing = 0

    def add(self, values: Iterable[float]) -> None:
        """One after the other, so that the sum is the same however many are added at once."""
        self.total = reduce(add, values, self.total)


class PerfRun:
    """One run; `add` everything counted in it, then `close`."""

    def __init__(self, target: str = "", runs: int = 1) -> None:
        self.target = target
        self.runs = runs
        self.rows = 0
        self.elapsed_s: float | None = None  # as perf prints in a line of its own
        self.last_s: float | None = None  # the latest interval
        self.duration_s: float | None = None  # the event duration_time
        # How long a memory controller was counted: as long as the run, for it belongs to no process.
        self.enabled_s: float | None = None
        self.has_amx = False
        self._flops: defaultdict[tuple[str, int], _EventSum] = defaultdict(_EventSum)
        self._dram: defaultdict[tuple[str, str], _EventSum] = defaultdict(_EventSum)
        self._counted_on: dict[str, int] = {}  # hybrid PMU -> its events that counted
        self._seen: set[tuple[str, str, str]] = set()  # of the current reading
        self._unnamed_twice = False
        self._channels: set[str] = set()  # data controllers of AMD's data fabric
        self._cgroups: set[str] = set()
        self._coverage = 1.0

    def add(
        self, row: PerfRow, means: EventMeaning, value: float | None, found: Collector, line: int
    ) -> None:
        """Take in one row; value in means.unit."""
        self.rows += 1
        if row.t_s is not None and row.t_s != self.last_s:
            self._seen.clear()
            self.note_time(row.t_s)
        if value is not None:
            self._note_pmu(means, 1)
        if not means.family:
            if value is not None and (taker := self._taker(row, means)):
                taker((value,))
            return
        if row.cpus == 0 and value is None:
            return  # no CPU of this part has that counter: nothing is missing
        if means.family == "dram" and row.t_s is None and row.runtime_ns and row.coverage:
            self.enabled_s = max(self.enabled_s or 0.0, row.runtime_ns / row.coverage / 1e9)
        if self._is_new(row, means, found, line):
            self._note_place(row, means)
            if value is not None:
                self._note_coverage(row.coverage)
            counted = self._sum(means)
            if value is None:
                counted.missing += 1
            else:
                counted.add((value,))

    def add_columns(self, rows: RowColumns, means: Sequence[EventMeaning], values: Array) -> bool:
        """The same as `add` for each of the rows. means: of each kind. False: nothing was taken in, as time
        goes back or an event occurs twice in a reading."""
        times, which = rows.times_s, rows.which
        events = [(row.scope, row.cgroup, row.event) for row in rows.kinds]
        if times[0] < (self.last_s or 0.0) or not (times[1:] >= times[:-1]).all():
            return False
        if len(set(events)) < len(events) or not _are_read_once(times, which, len(events)):
            return False
        begun = which[times == self.last_s] if times[0] == self.last_s else ()  # rows of the reading before
        if not self._seen.isdisjoint(events[kind] for kind in begun):
            return False
        self.rows += len(times)
        if times[-1] != self.last_s:
            self._seen.clear()
        self._seen.update(events[kind] for kind in which[times == times[-1]])
        self.note_time(float(times[-1]))
        taken: dict[Taker, list[bool]] = {}  # the kinds whose values go to each
        for kind, meaning in enumerate(means):
            if meaning.group in _HYBRID:
                self._note_pmu(meaning, int((which == kind).sum()))
            if meaning.family:
                self._note_place(rows.kinds[kind], meaning)
                self._note_coverage(float(rows.coverages[which == kind].min()))
            if taker := self._taker(rows.kinds[kind], meaning):
                taken.setdefault(taker, [False] * len(means))[kind] = True
        for taker, mine in taken.items():
            taker(values[spread(mine, which)].tolist())
        return True

    def _taker(self, row: PerfRow, means: EventMeaning) -> Taker | None:
        """What takes in the values of such rows; None: the run's point needs nothing of them."""
        if means.family:
            return self._sum(means).add
        if means.metric == "duration_time":
            return self._add_durations if row.t_s is not None else self._set_duration
        return self._note_amx if means.metric.startswith("exe.amx_busy") else None

    def _sum(self, means: EventMeaning) -> _EventSum:
        key = (means.group, means.bits), (means.group, means.part)
        return self._flops[key[0]] if means.family == "flops" else self._dram[key[1]]

    def _add_durations(self, values: Iterable[float]) -> None:
        self.duration_s = reduce(add, values, self.duration_s or 0.0)

    def _set_duration(self, values: Iterable[float]) -> None:
        (self.duration_s,) = values

    def _note_amx(self, values: Iterable[float]) -> None:
        self.has_amx = any(values) or self.has_amx

    def _note_pmu(self, means: EventMeaning, count: int) -> None:
        if means.group in _HYBRID:
            self._counted_on[means.group] = self._counted_on.get(means.group, 0) + count

    def _note_place(self, row: PerfRow, means: EventMeaning) -> None:
        if row.cgroup and len(self._cgroups) < 1000:
            self._cgroups.add(row.cgroup)
        if means.group == "data_controller":
            self._channels.add(row.event)

    def _note_coverage(self, coverage: float | None) -> None:
        if coverage and coverage < self._coverage:
            self._coverage = coverage

    def note_time(self, t_s: float | None) -> None:
        """An interval ended."""
        self.last_s = t_s if t_s is not None else self.last_s

    def _is_new(self, row: PerfRow, means: EventMeaning, found: Collector, line: int) -> bool:
        """The same event in two groups counts the same thing twice (intel/PerfSpect, pull request 565)."""
        key = (row.scope, row.cgroup, row.event)
        if key not in self._seen:
            self._seen.add(key)
            return True
        if means.family == "dram" and "/" not in row.event and "[" not in row.event:
            self._unnamed_twice = True  # one row for each memory controller, or the same again: no telling
        found.warn(f"{row.event} stands there more than once for the same place; taken once in the sum", line)
        return False

    @property
    def time_s(self) -> float | None:
        known = (self.elapsed_s, self.duration_s, self.last_s)
        return next((t for t in known if t), None)

    def kernel(self, name: str, found: Collector) -> Kernel | None:
        """The run as a point, None where nothing is known of it; warns of what is missing."""
        flops, precision = self._all_flops(found)
        moved = self._all_dram(found)
        time_s = self.time_s or (self.enabled_s if moved is not None else None)
        if time_s is None and flops is None and moved is None:
            return None
        notes: list[str] = []
        if self._coverage < 1:
            notes.append(f"multiplexed: counted {int(self._coverage * 100)} % of the time or more")
        if self.runs > 1:
            notes.append(f"mean of {self.runs} runs")
        if self.has_amx:
            notes.append("AMX FLOPs are missing")
        levels = {"dram": moved} if moved is not None else {}
        return Kernel(name, 1, time_s, flops, levels, precision, "; ".join(notes))

    def _all_flops(self, found: Collector) -> tuple[float | None, str]:
        if self.has_amx:
            found.warn("exe.amx_busy > 0: AMX was at work and no event counts its FLOPs; they are incomplete")
        if not self._flops:
            return None, ""
        cgroups = sorted(name.strip("/") for name in self._cgroups)
        if any(b.startswith(a + "/") or not a for a, b in pairwise(cgroups)):
            found.warn("some cgroups lie in others: their FLOPs cannot be added up")
            return None, ""
        chosen = self._distinct_flops(found)
        # A sum with a part missing is none: the run has its FLOPs in full, or not at all.
        missing = []
        for (_, bits), one in chosen.items():
            name = _metric(bits)
            if one.missing and name:
                missing.append(name)
        if missing:
            found.warn(f"not counted, or not all the time: {', '.join(missing)}; the run has no FLOPs")
            return None, ""
        self._warn_of_gaps(chosen, found)
        by_precision: dict[str, float] = {}
        for (_, bits), one in chosen.items():
            precision = _metric(bits).split(".")[1]
            by_precision[precision] = by_precision.get(precision, 0.0) + one.total
        total = sum(by_precision.values()) if chosen else None
        most = max(by_precision, key=by_precision.__getitem__) if total else ""
        return total, "" if most == "all" else most

    def _distinct_flops(self, found: Collector) -> dict[tuple[str, int], _EventSum]:
        """The sums to add up, by PMU and kinds: an event whose kinds a wider one counts is left out."""
        chosen: dict[tuple[str, int], _EventSum] = {}
        for (group, bits), one in sorted(self._flops.items(), key=lambda pair: -pair[0][1].bit_count()):
            if any(group == other and bits & done for other, done in chosen):
                continue
            if group in _HYBRID and self._counted_on and group not in self._counted_on:
                found.warn(f"no event of {group} was counted: taken as if nothing ran there")
                continue
            chosen[group, bits] = one
        return chosen

    def _warn_of_gaps(self, chosen: dict[tuple[str, int], _EventSum], found: Collector) -> None:
        names = {_metric(bits) for _, bits in chosen}
        if any(name.startswith("flops.all.") for name in names):
            return
        for precision in ("f64", "f32"):
            counted = {name.split(".")[2] for name in names if name.startswith(f"flops.{precision}.")}
            gaps = [width for width in _WIDTHS if width not in counted]
            if counted and gaps and "all" not in counted:
                found.warn(
                    f"no event counted {precision} operations of width {', '.join(gaps)}: "
                    f"FLOPs are a lower bound"
                )

    def _all_dram(self, found: Collector) -> float | None:
        groups = sorted({group for group, _ in self._dram})
        whole = {group: moved for group in groups if (moved := self._dram_of(group, found)) is not None}
        if len(whole) > 1:
            found.warn(f"DRAM traffic is counted by {', '.join(whole)}; the run has that of {min(whole)}")
        if self._unnamed_twice and whole:
            found.warn("whether repeated DRAM rows are several controllers cannot be told; the run has none")
            return None
        return whole[min(whole)] if whole else None

    def _dram_of(self, group: str, found: Collector) -> float | None:
        parts = {part: one for (other, part), one in self._dram.items() if other == group}
        if any(one.missing for one in parts.values()):
            found.warn(f"{group}: some rows were not counted; the run has no DRAM bytes from it")
            return None
        if 0 < len(self._channels) < _CHANNELS and group == "data_controller":
            found.warn(f"{len(self._channels)} of {_CHANNELS} data controllers: DRAM bytes are a lower bound")
        if "both" in parts:
            return parts["both"].total
        if len(parts) < 2:
            found.warn(f"{group}: only {next(iter(parts))}s were counted; the run has no DRAM bytes from it")
            return None
        return sum(one.total for one in parts.values())


def _are_read_once(times: Array, which: Array, kinds: int) -> bool:
    """Whether none of the kinds occurs twice at a time. times: in order."""
    if (which[kinds:] == which[:-kinds]).all():  # in turns, as perf prints them
        return bool((times[kinds:] > times[:-kinds]).all())
    return len(set(zip(times.tolist(), which.tolist(), strict=True))) == len(times)


def _metric(bits: int) -> str:
    means = flop_meaning(bits)
    return means.metric if means else ""
