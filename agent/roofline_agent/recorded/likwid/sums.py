"""Sums what LIKWID measured on all hardware threads to points: a region, a group, or the whole run."""

from __future__ import annotations

from ..collector import Collector
from ..perf.events import CACHE_LINE
from ..recording import Kernel
from .metrics import CAS, LikwidMetric

_LEVELS = {"l2_bytes": "l2", "l3_bytes": "l3"}
_RUNTIMES = ("Runtime (RDTSC)", "RDTSC Runtime", "Runtime", "Runtime unhalted")


def is_summed(means: LikwidMetric, event: str) -> bool:
    """Whether a point is made of it."""
    return (
        means.unit in ("FLOP", "byte", "FLOP/s")
        or means.metric in _RUNTIMES
        or CAS.fullmatch(event) is not None
    )


class GroupSums:
    """The sums over all threads of one group of counters in one region."""

    def __init__(self, region: str = "", group: str = "") -> None:
        self.region = region
        self.group = group
        self.calls = 0
        self.rows: set[tuple[str, str, str]] = set()  # kind of table, row, column
        self._runtimes: dict[str, dict[str, float]] = {}
        self._raw: dict[str, float] = {}  # metric of an event -> FLOPs
        self._raw_missing = False
        self._rates: dict[str, dict[str, float]] = {}  # precision -> thread -> FLOP/s
        self._moved: dict[str, float] = {}
        self._missing: set[str] = set()
        self._cas = 0.0
        self._done: dict[str, float] = {}  # FLOPs of earlier readings

    def add(self, means: LikwidMetric, event: str, value: float | None, column: str) -> None:
        """One thread's value, in means.unit."""
        # One branch for each kind of value a kernel is made of: FLOPs, time, FLOP/s, bytes, CAS commands.
        if means.unit == "FLOP":
            self._raw_missing |= value is None
            self._raw[means.metric] = self._raw.get(means.metric, 0.0) + (value or 0.0)
        elif means.metric in _RUNTIMES and value is not None:
            self._runtimes.setdefault(means.metric, {})[column] = value
        elif means.metric.startswith("flops_per_s.") and means.metric.count(".") == 1:
            if value is None:
                self._missing.add("rate")
            else:
                self._rates.setdefault(means.metric.split(".")[1], {})[column] = value
        elif means.unit == "byte":
            self._moved[means.metric] = self._moved.get(means.metric, 0.0) + (value or 0.0)
            if value is None:
                self._missing.add(means.metric)
        elif CAS.fullmatch(event) and value is not None:
            self._cas += value * CACHE_LINE

    def add_reading(self, reading: GroupSums) -> None:
        """Another interval of the time line: amounts add up, and rates times their own interval."""
        for name, moved in reading._moved.items():
            self._moved[name] = self._moved.get(name, 0.0) + moved
        self._missing |= reading._missing
        if reading._rates:
            flops = reading._from_rates()
            if not flops:
                self._missing.add("rate")
            for precision, done in flops.items():
                self._done[precision] = self._done.get(precision, 0.0) + done

    def set_time(self, time_s: float) -> None:
        self._runtimes = {_RUNTIMES[0]: {"": time_s}}

    @property
    def time_s(self) -> float | None:
        """Time of the thread that took longest."""
        for name in _RUNTIMES:
            if longest := max(self._runtimes.get(name, {}).values(), default=0.0):
                return longest
        return None

    def flops(self) -> tuple[float | None, str]:
        """From the events where listed, else from the threads' rates and times, with their precision."""
        by_precision: dict[str, float] = {}
        if self._raw and not self._raw_missing:
            for metric, flops in self._raw.items():
                precision = metric.split(".")[1]
                by_precision[precision] = by_precision.get(precision, 0.0) + flops
        elif not self._raw and "rate" not in self._missing:
            by_precision = self._done or self._from_rates()
        if not by_precision:
            return None, ""
        most = max(by_precision, key=by_precision.__getitem__)
        return sum(by_precision.values()), "" if most == "all" or not by_precision[most] else most

    def _from_rates(self) -> dict[str, float]:
        times = next((self._runtimes[name] for name in _RUNTIMES if name in self._runtimes), {})
        if any(column not in times for rates in self._rates.values() for column in rates):
            return {}
        return {
            precision: sum(rate * times[column] for column, rate in rates.items())
            for precision, rates in self._rates.items()
        }

    def bytes(self) -> dict[str, float]:
        """By memory level; a level with a thread whose value is missing is left out."""
        known = {name: moved for name, moved in self._moved.items() if name not in self._missing}
        levels = {level: known[name] for name, level in _LEVELS.items() if name in known}
        if "dram_bytes" in known:
            levels["dram"] = known["dram_bytes"]
        elif "dram_read_bytes" in known and "dram_write_bytes" in known:
            levels["dram"] = known["dram_read_bytes"] + known["dram_write_bytes"]
        elif self._cas and not self._moved:
            levels["dram"] = self._cas
        return levels

    def kernel(self, name: str, found: Collector) -> Kernel | None:
        """None where nothing of it is known."""
        flops, precision = self.flops()
        moved = self.bytes()
        if self._raw_missing or self._missing:
            found.warn("LIKWID could not count everything ('-' or 'nan'); what depends on it is left out")
        if self.time_s is None and flops is None and not moved:
            return None
        note = f"group {self.group}" if self.group else ""
        return Kernel(name, max(self.calls, 1), self.time_s, flops, moved, precision, note, counted=True)
