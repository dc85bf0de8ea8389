"""A recording as the batches of an agent: one rank, its counters, its kernels, its steps."""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple, TypeVar

from ..records import (
    Batch,
    Call,
    Event,
    EventKind,
    KernelShape,
    Mark,
    MarkKind,
    MetricKind,
    Rank,
    Sample,
    Samples,
    Scope,
)
from .collector import Collector
from .recording import LEVELS, Counter, Launch
from .series import Series, columns, counter_set, is_of_process, scope_of

RECORDED = "recorded"  # a rank's `framework`: it was a file
VALUES_PER_BATCH = 25_000
THINGS_PER_BATCH = 1000
MOST_PARTS = 200_000  # calls that all sums of a file are sent as
MAX_TEXT = 1000
_MAX_COUNT = 2**62
LONGEST_S = 50 * 366 * 86400.0  # nothing is recorded for half a century: a larger number is no time
IMPOSSIBLE = "{} at times that cannot be are not sent"
# Tools whose counters are those of a live source go where its values go, and so fill the same of a report.
SETS = {
    "perf stat": ("perf", "perf_system"),
    "likwid": ("likwid", "likwid"),
    "dcgm": ("dcgm", "dcgm"),
    "nvidia-smi": ("gpu", "gpu"),
}

T = TypeVar("T")


class Target(NamedTuple):
    """The job and rank that a recording is sent for."""

    job: str
    role: str
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    begin_ns: int  # node time of the recording's time zero
    user: str = ""  # who imports it

    @property
    def rank(self) -> Rank:
        return Rank(self.job, self.role, self.index, 0, 0, framework=RECORDED, user=self.user)


def identity(digest: str, target: Target) -> str:
    """The agent that a recording is: the same for the same file and target, so that sending it again adds
    nothing."""
    text = f"{digest}/{target.job}/{target.role}/{target.index}"
    return uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16]).hex


def is_time(*seconds: float | None) -> bool:
    """Whether these can be times of a recording, s from its begin; None is no time that could be wrong."""
    return all(one is None or -LONGEST_S <= one <= LONGEST_S for one in seconds)


def duration_s(found: Collector) -> float:
    """How long the recording lasted, as far as anything in it shows; 0 where nothing does."""
    longest = max(0.0, *_times(found))
    # Activities overlap: their times count only where nothing else has one.
    return longest or max((phase.time_s for phase in found.phases if is_time(phase.time_s)), default=0.0)


def _times(found: Collector) -> Iterator[float]:
    """Ends of what is in it, from its begin on; those that can be."""
    laid = 0.0
    for launch in _launches(found):
        begin = laid if launch.start_s is None else launch.start_s
        end = begin + (launch.time_s or 0.0)
        if is_time(end):
            laid = end
            yield end
    span = found.facts.get("span_s")
    ends = [
        found.duration_s,
        found.run.time_s if found.run else None,
        span if isinstance(span, (int, float)) else None,
    ]
    counted = (counter.t_s for counter in found.counters)
    stepped = (step.t_s + (step.step_time_s or 0.0) for step in found.steps if step.t_s is not None)
    yield from (end or 0.0 for end in chain(ends, counted, stepped) if is_time(end))


def places_something(found: Collector, target: Target) -> bool:
    """Whether anything of it has a place in time, or is a ceiling, which needs none."""
    end = target.begin_ns + 1
    if found.ceilings or duration_s(found) * 1e9 >= 1:
        return True
    samples = _rows(found, target.rank, target.begin_ns, end)
    calls, marks = _calls(found, target.rank, target.begin_ns), _marks(found, target.rank, target.begin_ns)
    return any(True for things in (samples, calls, marks) for _ in things)


def batches(found: Collector, target: Target) -> Iterator[Batch]:
    """All of it, in batches that follow each other without a hole. Warns the collector of what cannot go."""
    begin = target.begin_ns
    end = begin + max(1, round(duration_s(found) * 1e9))
    rank = target.rank
    if end <= begin + 1 and any(c.t_s is None and c.kind == "total" for c in found.counters):
        found.warn("it does not say how long it ran: totals have no place in time and are not sent")
    started = Event(EventKind.RANK_STARTED, begin, begin, rank)
    ended = [Event(EventKind.RANK_EXITED, end, end, rank)]
    if _covers(found):
        ended.append(Event(EventKind.KERNELS_COVERED, begin, end, rank))
    # The first batch covers the whole time; the others hold more of the same time.
    yield Batch(begin, end, events=[started], ranks=[rank])
    for samples in _rows(found, rank, begin, end):
        yield Batch(end, end, samples=samples, ranks=[rank])
    for calls in _groups(_calls(found, rank, begin)):
        yield Batch(end, end, calls=calls, ranks=[rank])
    for marks in _groups(_marks(found, rank, begin)):
        yield Batch(end, end, marks=marks, ranks=[rank])
    yield Batch(end, end, events=ended, ranks=[rank])


def _covers(found: Collector) -> bool:
    """Whether its kernels are all there were at any time. Those laid one behind the other are so as a whole
    only: they tell nothing of one step."""
    if any(step.t_s is not None and step.step_time_s is not None for step in found.steps):
        laid = (one for one in _launches(found) if one.start_s is None and one.time_s is not None)
        if any(laid):
            return False
    return any(True for _ in _launches(found))


def _groups(things: Iterator[T]) -> Iterator[list[T]]:
    while some := list(islice(things, THINGS_PER_BATCH)):
        yield some


# -- counters ----------------------------------------------------------------------------------------


def _rows(found: Collector, rank: Rank, begin: int, end: int) -> Iterator[Samples]:
    """The rows of the rank, then those of parts of its node, some at a time."""
    # One set for each of process and node, cumulative values and gauges.
    extra = _phase_counters(found)
    for process in (True, False):
        some, left_out = columns([*found.counters, *extra] if extra else found.counters, process)
        if left_out:
            found.warn(f"{left_out} counters found no room in a set and are not sent")
        if not some:
            continue
        for gauges in (False, True):
            mine = [c for c in some if (c.kind == MetricKind.GAUGE) == gauges]
            if not mine:
                continue
            chosen = (
                c
                for log in (found.counters, extra)
                for c in log
                if is_of_process(c) == process and is_time(c.t_s)
            )
            series = Series(rank if process else None, mine, begin, end if end > begin + 1 else None)
            name = set_name(found.tool, process, gauges)
            for rows in _of_one_scope(series.rows(chosen), VALUES_PER_BATCH // len(mine)):
                made = counter_set(name, mine, Scope.PROCESS if process else scope_of(rows[0].instance))
                yield {made: rows}


def _phase_counters(found: Collector) -> list[Counter]:
    counters: list[Counter] = []
    for phase in found.phases:
        name = f"phase.{phase.name}"
        counters.append(Counter(f"{name}.seconds", phase.name, phase.time_s, "s", "process"))
        counters.append(Counter(f"{name}.count", phase.name, float(phase.count), "1", "process"))
    return counters


def set_name(tool: str, process: bool, gauges: bool) -> str:
    """Name of the counter set of a tool's values.

    Gauges have a set of their own: what one file counts under a name another may give as a rate, and a store
    knows one kind of metric by a name.
    """
    known = next((sets for name, sets in SETS.items() if tool.lower().startswith(name)), None)
    if known and (not gauges or known[0] in ("dcgm", "gpu")):
        return known[0 if process else 1]
    made = "recorded_" + (re.sub(r"[^a-z0-9]+", "_", tool.lower()).strip("_")[:40] or "file")
    return f"{made}_gauges" if gauges else made


def _of_one_scope(rows: Iterator[Sample], size: int) -> Iterator[list[Sample]]:
    """Groups of rows, each of one kind of scope, as a block has one."""
    group: list[Sample] = []
    for row in rows:
        if group and (len(group) >= size or scope_of(group[0].instance) != scope_of(row.instance)):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


# -- kernels and steps -------------------------------------------------------------------------------


def _launches(found: Collector) -> Iterator[Launch]:
    """Every launch; of kernels that the tool summed up itself, one for all their launches."""
    yield from found.launches or ()
    for kernel in found.summed:
        yield Launch(
            kernel.name,
            kernel.time_s,
            kernel.flops,
            kernel.bytes,
            precision=kernel.precision,
            note=kernel.note,
            count=kernel.launches,
            on_gpu=kernel.on_gpu,
            counted=kernel.counted,
        )


def _calls(found: Collector, rank: Rank, begin: int) -> Iterator[Call]:
    """Launches in time; those without a start are laid one behind the other."""
    laid = 0.0
    most_parts = MOST_PARTS // max(1, sum(launch.count > 1 for launch in _launches(found)))
    for launch in _launches(found):
        if launch.time_s is None:
            found.warn("kernels without a time cannot be placed and are not sent")
            continue
        start = laid if launch.start_s is None else launch.start_s
        if not (is_time(start, start + launch.time_s) and launch.time_s >= 0):
            found.warn(IMPOSSIBLE.format("kernels"))
            continue
        laid = start + launch.time_s
        placed = "" if launch.start_s is not None else "placed behind the kernel before it"
        parts = max(1, min(launch.count, most_parts))
        if parts < launch.count:
            found.warn("of kernels that were launched very often, a call that is sent stands for several")
        shape, lasted = shape_of(_part(launch, parts), placed), launch.time_s / parts
        for at in range(parts):
            yield Call(rank, shape, begin + round((start + at * lasted) * 1e9), round(lasted * 1e9))


def _part(launch: Launch, parts: int) -> Launch:
    """One of so many equal parts of a sum."""
    if launch.count == 1:
        return launch
    return launch._replace(
        flops=None if launch.flops is None else launch.flops / parts,
        bytes={level: moved / parts for level, moved in launch.bytes.items()},
        note="; ".join(filter(None, (launch.note, f"sum of {launch.count} launches in equal parts"))),
    )


def shape_of(launch: Launch, placed: str = "") -> KernelShape:
    """What was executed. placed: how it is known when, if the file does not say."""
    return KernelShape(
        launch.library or RECORDED,
        launch.name[:MAX_TEXT],
        launch.variant[:MAX_TEXT],
        launch.precision,
        "",
        launch.problem[:MAX_TEXT],
        _count(launch.flops),
        _count(launch.bytes.get("minimum")),
        "; ".join(filter(None, (launch.note, placed)))[:MAX_TEXT],
        **{f"{level}_bytes": _count(launch.bytes.get(level)) for level in LEVELS},
        layer=launch.layer[:MAX_TEXT],
        on_gpu=launch.on_gpu,
        counted=launch.counted,
    )


def _count(number: float | None) -> int | None:
    return None if number is None or not 0 <= number < _MAX_COUNT else round(number)


def _marks(found: Collector, rank: Rank, begin: int) -> Iterator[Mark]:
    batch = _count(found.throughput.batch if found.throughput else None)
    for step in found.steps:
        if step.t_s is None or step.step_time_s is None:
            found.warn("the file does not say when its steps were: they are not sent")
            return
        if not (is_time(step.t_s, step.step_time_s) and abs(step.step) < _MAX_COUNT):
            found.warn(IMPOSSIBLE.format("steps"))
            continue
        start = begin + round(step.t_s * 1e9)
        stop = start + round(step.step_time_s * 1e9)
        yield Mark(rank, rank, MarkKind.BEGIN, step.step, None, start)
        yield Mark(rank, rank, MarkKind.END, step.step, batch, stop)
