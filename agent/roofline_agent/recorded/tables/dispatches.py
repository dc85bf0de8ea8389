"""Dispatches of kernels on AMD's GPUs and what was counted in them, as launches and counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..cells import Array
from ..collector import Collector
from ..columns import largest
from ..recording import Counter, Launch, LaunchColumns
from .amd import FLOP_COUNTERS, reading_of, weighed, work_of

NANOSECOND = 1e-9
MAX_COUNTERS = 20_000  # values that are neither FLOPs nor bytes
_MOST_GPUS = 1000  # that are told apart
_SEVERAL_GPUS = "kernels of {} GPUs, which may be those of several ranks: all are taken for one rank"
_IN_KIB = ("fetch_size", "write_size")
_OF_BYTES = ("tcc_ea", "tcc_bubble")


class Dispatch(NamedTuple):
    """One execution of a kernel. span_s: start and duration, None where these are not known; are_sums:
    whether its counters are sums of numbers that are in the file."""

    name: str
    span_s: tuple[float, float] | None
    counters: Mapping[str, float] = {}
    gpu: str = ""
    problem: str = ""
    are_sums: bool = False


class DispatchColumns(NamedTuple):
    """Dispatches in which the same was counted, a number each; `which` of the names each has."""

    names: Sequence[str]
    which: Array
    places: Array  # of each among all that are taken together
    starts_s: Array
    times_s: Array
    counters: Mapping[str, Array] = {}
    problems: Sequence[str] = ()


class Dispatches:
    """Takes those of one file. The clock of the GPU's driver has no date: times are since the first."""

    def __init__(self, found: Collector, are_elsewhere: bool = False) -> None:
        """are_elsewhere: whether they are launches of another file; then only other counters are kept."""
        self._found = found
        self._are_elsewhere = are_elsewhere
        self._zero_s: float | None = None
        self._gpus: set[str] = set()

    def take(self, one: Dispatch) -> None:
        if not self._are_elsewhere:
            self._note_gpus((one.gpu,))
            self._take_launch(one)
        for name, value in one.counters.items():
            if is_other(name):
                if self.room <= 0:
                    self.warn_of_room(1)
                    return
                counter = other(name, one.gpu, value)
                self._found.counters.append(counter._replace(printed=None) if one.are_sums else counter)

    def _take_launch(self, one: Dispatch) -> None:
        work = work_of(one.counters)
        self._found.launch(
            Launch(
                one.name,
                one.span_s[1] if one.span_s else None,
                work.flops,
                {} if work.hbm_bytes is None else {"dram": work.hbm_bytes},
                start_s=self._since_zero(one.span_s[0]) if one.span_s else None,
                precision=work.precision,
                library="hip",
                problem=one.problem,
                note=work.note,
            )
        )

    def take_columns(self, several: Sequence[DispatchColumns], gpus: Sequence[str]) -> None:
        """Take in many dispatches in columns, but for other counters, which are not kept. gpus: that they
        were on."""
        if self._are_elsewhere:
            return
        self._note_gpus(gpus)
        first = min(several, key=lambda one: int(one.places[0]))
        self._since_zero(float(first.starts_s[0]))
        self._found.launch_columns([launches for one in several for launches in self._launches(one)])

    def _launches(self, of: DispatchColumns) -> Iterator[LaunchColumns]:
        starts = of.starts_s - (self._zero_s or 0.0)
        reading = reading_of(frozenset(of.counters))
        flops = [weighed(terms, of.counters) for terms in reading.flops.values()]
        moved = {"dram": weighed(reading.hbm_bytes, of.counters)} if reading.hbm_bytes else {}
        kinds = largest(flops, len(of.which))
        for kind in sorted(set(kinds.tolist())):
            mine = (kinds == kind).nonzero()[0]
            is_counted = bool(flops) and (kind >= 0 or not reading.note)
            yield LaunchColumns(
                Launch(
                    "",
                    None,
                    precision=list(reading.flops)[kind] if kind >= 0 else "",
                    library="hip",
                    note=reading.note if kind >= 0 else "",
                ),
                of.names,
                of.which[mine],
                of.places[mine],
                of.times_s[mine],
                sum(flops[1:], flops[0])[mine] if is_counted else None,
                {level: values[mine] for level, values in moved.items()},
                starts[mine],
                [of.problems[at] for at in mine.tolist()] if of.problems else (),
            )

    def _note_gpus(self, gpus: Sequence[str]) -> None:
        if len(self._gpus) < _MOST_GPUS:
            self._gpus.update(gpus)

    def finish(self) -> None:
        if (many := len(self._gpus - {""})) > 1:
            self._found.warn(_SEVERAL_GPUS.format(many))

    @property
    def room(self) -> int:
        """How many other counters are still kept."""
        return MAX_COUNTERS - len(self._found.counters)

    def warn_of_room(self, times: int) -> None:
        """times: dispatches of which counters are left out."""
        self._found.warn(f"more than {MAX_COUNTERS} other counters; the rest are left out", 0, times)

    def _since_zero(self, start_s: float) -> float:
        if self._zero_s is None:
            self._zero_s = start_s
        return start_s - self._zero_s


def is_other(counter: str) -> bool:
    """Whether it is neither of FLOPs nor of bytes."""
    return not (counter.lower().startswith(_OF_BYTES) or counter.upper() in FLOP_COUNTERS)


def scale_of(counter: str) -> float:
    """What one of it is: sizes are in KiB."""
    return 1024.0 if counter.lower() in _IN_KIB else 1.0


def other(name: str, gpu: str, value: float | None = None) -> Counter:
    scale = scale_of(name)
    base, printed = ("byte", "KiB") if scale != 1 else ("1", "")
    scaled, where = None if value is None else scale * value, f"gpu {gpu or 0}"
    return Counter(name, name, scaled, base, where, kind="gauge", printed=value, printed_unit=printed)
