"""What every rank did when, on the server's clock: steps, phases, collectives, kernels, and unwatched time.

Every row is a stretch of time in a named row of a rank. The first ones introduce: `job` (the whole of it),
`clock` (a host, and the bound on its clock's error, s), `rank` (each, in the order to be shown).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from roofline.answers.report import Gap
from roofline.answers.values import Provenance

from ...chunks import Chunk, Column, split
from ...correlate.spans import AMOUNTS
from ...correlate.steps import OWN
from ...model.evidence import NS
from ...records import ABSENT, KernelKind, Table, rows, take
from ...sentences import steps as texts
from ...sentences.notes import damaged
from ...store import raw_data
from ...store.raw_data import RawData
from ...store.view import JobView
from ..evidence.gaps import alignment_of, find_gaps
from ..evidence.tables import by_rank, picked
from ..questions import Steps
from ..ranks.members import chosen, extent, host_of, name_of
from .columns import columns_of, known
from .notes import write_notes
from .steps import rank_tables

DATASET = "timeline"
# Of the columns of a step those that are shown with its slice.
SHOWN = (
    *("examples", "samples", "cpu_time", "sent_bytes", "received_bytes", "flops", "flops_per_second"),
    *("flops.measured", "asked_bytes", "engine_bytes", "overlap_time"),
)
TRACKS = (("CPU", "cpu_time", "cores"), ("sent", "sent_bytes", "byte/s"))  # name, column, unit a second
MAX_HELD = 1_000_000  # spans or calls that are held at a time
MAX_KERNELS = 2_000_000  # in one answer


def timeline(
    view: JobView, raw: RawData, ranks: Sequence[str], steps: Steps, mode: str, kernels: bool = False
) -> Iterator[Chunk]:
    """Rows: rank, host, row, name, begin_ns, end_ns, and what else is known. Raises BadRequest, UnknownRank.

    Within a rank and a row they come in order of begin. steps: only what happened while a rank was at these.
    """
    numbers = chosen(view, ranks)
    tables = rank_tables(view, numbers, steps, mode)
    limits = _limits(view, numbers, tables, steps)
    notes = write_notes(view, numbers, tables, steps, mode)
    if kernels and not raw_data.count(raw, "calls"):
        notes.append(texts.NO_KERNELS)
    begin, end = extent(view)
    # A rank may have begun before it was met.
    first = raw_data.earliest(raw, ("marks", "spans", "calls"))
    if first is not None:
        begin = min(begin, first)
    yield from split(_introductions(view, numbers, mode, notes, (begin, end)))
    for number, table in tables:
        yield from _steps_of(view, number, table, mode)
    gaps = find_gaps(view)
    for number in numbers:
        yield from split(_unwatched(view, number, gaps, limits[number]))
    for dataset in ("spans", "between") if raw_data.count(raw, "between") else ("spans",):
        for number, spans in _held(raw, dataset, numbers, limits):
            yield from _spans_of(view, number, spans)
    if kernels:
        yield from _executed(view, raw, numbers, limits)
    if since := {path: count for path, count in raw.damaged.items() if path not in view.damaged}:
        yield _note(damaged(since))


Stretches = Mapping[int, tuple[int, int]]  # of time, by rank


def _note(text: str) -> Chunk:
    """What is known only after rows were read."""
    return Chunk(DATASET, [Column(name, np.zeros(0, object)) for name in ("rank", "row", "name")], [text])


def _executed(view: JobView, raw: RawData, numbers: Sequence[int], limits: Stretches) -> Iterator[Chunk]:
    """At most MAX_KERNELS kernels, the layers that they were executed for, and what was waited for."""
    left = MAX_KERNELS
    for number, some in _held(raw, "calls", numbers, limits):
        shown = take(some, np.arange(min(left, rows(some))))
        if rows(shown) and "layer" in shown:
            yield from split(_layers_of(view, number, shown))
        if rows(shown):
            yield from split(_kernels_of(view, raw.kernels, number, shown))
        left -= rows(some)
        if left < 0:
            yield _note(texts.kernels_shown(MAX_KERNELS, raw_data.count_within(raw, "calls", limits)))
            break
    for number, some in _held(raw, "waits", numbers, limits):
        yield from split(_kernels_of(view, raw.kernels, number, some, "waits"))


def _limits(
    view: JobView, numbers: Sequence[int], tables: Sequence[tuple[int, Table]], steps: Steps
) -> Stretches:
    """rank -> the stretch of time it is asked for: all, or while it, else anybody, was at these steps."""
    if not steps.is_bounded:
        return dict.fromkeys(numbers, (-(2**62), 2**62))
    own = {n: (int(t["begin_ns"].min()), int(t["end_ns"].max())) for n, t in tables}
    whole = min((b for b, _ in own.values()), default=0), max((e for _, e in own.values()), default=0)
    return {number: own.get(number, whole) for number in numbers}


def _rows(
    view: JobView, number: int, row: str, names: NDArray[np.object_], table: Table, *more: Column
) -> Chunk:
    """table: time_ns and end_ns of what the rank did in that row."""
    count = len(names)
    shown = [column for column in more if known(column).any()]
    return Chunk(
        DATASET,
        [
            Column("rank", np.full(count, name_of(view, number), object)),
            Column("row", np.full(count, row, object)),
            Column("name", names),
            Column("begin_ns", table["time_ns"].astype(np.int64), "ns", Provenance.MEASURED),
            Column("end_ns", table["end_ns"].astype(np.int64), "ns", Provenance.MEASURED),
            *shown,
        ],
    )


def _introductions(
    view: JobView, numbers: Sequence[int], mode: str, notes: Sequence[str], whole: tuple[int, int]
) -> Chunk:
    begin, end = whole
    clocks = alignment_of(view)
    kinds, ranks, hosts, names, errors = ["job"], [""], [""], [view.job], [np.nan]
    for host, error in clocks:
        kinds.append("clock")
        ranks.append("")
        hosts.append(host)
        names.append(error.reason)
        errors.append(np.nan if error.value is None else error.value)
    for number in numbers:
        kinds.append("rank")
        ranks.append(name_of(view, number))
        hosts.append(host_of(view, number))
        names.append("")
        errors.append(np.nan)
    columns = {"rank": ranks, "host": hosts, "row": kinds, "name": names, "mode": [mode] * len(kinds)}
    return Chunk(
        DATASET,
        [
            *(Column(name, np.array(values, object)) for name, values in columns.items()),
            Column("begin_ns", np.full(len(kinds), begin, np.int64), "ns", Provenance.MEASURED),
            Column("end_ns", np.full(len(kinds), end, np.int64), "ns", Provenance.MEASURED),
            Column("error", np.array(errors, np.float64), "s", Provenance.MEASURED),
        ],
        notes,
    )


def _steps_of(view: JobView, number: int, table: Table, mode: str) -> Iterator[Chunk]:
    own = mode == "synchronous" or not (table["window"] != OWN).any()
    timed = {"time_ns": table["begin_ns"], "end_ns": table["end_ns"]}
    for who in [OWN] if own else np.unique(table["window"]).tolist():
        which = np.ones(rows(table), np.bool_) if own else table["window"] == who
        row = "steps"
        if not own and who in view.ranks:
            row = f"steps of {name_of(view, who)}"
        mine = picked(table, which)
        found = {column.name: column for column in columns_of(view, number, mine, mode)}
        names = np.array([f"step {step}" for step in mine["step"].tolist()], object)
        shown = [found[name] for name in SHOWN if name in found]
        yield from split(_rows(view, number, row, names, picked(timed, which), found["step"], *shown))
        if own:
            yield from _tracks(view, number, mine, found)


def _tracks(view: JobView, number: int, table: Table, columns: Mapping[str, Column]) -> Iterator[Chunk]:
    """Rates over each step, as curves."""
    seconds = (table["end_ns"] - table["begin_ns"]) / NS
    for name, column, unit in TRACKS:
        if column in columns:
            with np.errstate(divide="ignore", invalid="ignore"):
                rate = np.where(seconds > 0, columns[column].values / seconds, np.nan)
            some = np.flatnonzero(~np.isnan(rate))
            timed = {"time_ns": table["begin_ns"][some], "end_ns": table["end_ns"][some]}
            value = Column("value", rate[some], unit, Provenance.MEASURED)
            yield from split(_rows(view, number, "counter", np.full(len(some), name, object), timed, value))


def _unwatched(view: JobView, number: int, found: Sequence[Gap], limits: tuple[int, int]) -> Chunk:
    host = host_of(view, number)
    gaps = [gap for gap in found if gap.host == host and gap.end_ns > limits[0] and gap.begin_ns < limits[1]]
    names = np.array([gap.reason for gap in gaps], object)
    timed: Table = {
        "time_ns": np.array([gap.begin_ns for gap in gaps], np.int64),
        "end_ns": np.array([gap.end_ns for gap in gaps], np.int64),
    }
    return _rows(view, number, "not watched", names, timed)


def _held(
    raw: RawData, dataset: str, numbers: Sequence[int], limits: Stretches
) -> Iterator[tuple[int, Table]]:
    """(rank, its rows in order of time); of so many ranks at a time that what is held stays bounded."""
    at_once = max(1, MAX_HELD * len(raw.ranks) // max(1, raw_data.count(raw, dataset)))
    for first in range(0, len(numbers), at_once):
        some = numbers[first : first + at_once]
        begin, end = min(limits[n][0] for n in some), max(limits[n][1] for n in some)
        without = AMOUNTS if dataset == "spans" else ""  # numbers of a step, without length
        known = by_rank({dataset: raw_data.of_ranks(raw, dataset, some, begin, end, without)})
        for number in some:
            mine = known.pop(number, {}).get(dataset, {})
            if not rows(mine):
                continue
            ends = mine["end_ns"] if "end_ns" in mine else mine["time_ns"] + mine["duration_ns"]
            mine = picked(mine, (ends > limits[number][0]) & (mine["time_ns"] < limits[number][1]))
            if rows(mine):
                yield number, mine


def _spans_of(view: JobView, number: int, spans: Table) -> Iterator[Chunk]:
    # There are millions of spans, of few names: texts are cut and compared once for each name.
    texts_of = spans["name"].tolist()
    names = list(dict.fromkeys(texts_of))
    place = {name: at for at, name in enumerate(names)}
    which = np.fromiter(map(place.__getitem__, texts_of), np.int64, len(texts_of))
    family = np.array([name.partition(".")[0] for name in names], object)
    shown = np.array([name.partition(".")[2] for name in names], object)
    for kind in sorted(set(family.tolist())):
        if f"{kind}." == AMOUNTS:
            continue
        some = np.flatnonzero((family == kind)[which])
        mine = {n: column[some] for n, column in spans.items() if n != "name"}
        row = "phases" if kind == "phase" else kind
        more = (Column("count", mine["count"], "1"), Column("bytes", mine["bytes"], "byte"))
        yield from split(_rows(view, number, row, shown[which[some]], mine, *more))


def _kernels_of(
    view: JobView, kinds: Mapping[int, KernelKind], number: int, calls: Table, row: str = "kernels"
) -> Chunk:
    titles = {k: f"{kind.library} {kind.operation}".strip() for k, kind in kinds.items()}
    names = np.array([titles.get(k, "?") for k in calls["kernel"].tolist()], object)
    problems = {k: kind.problem for k, kind in kinds.items()}
    problem = np.array([problems.get(k, "") for k in calls["kernel"].tolist()], object)
    timed = {"time_ns": calls["time_ns"], "end_ns": calls["time_ns"] + calls["duration_ns"]}
    layers = calls.get("layer", np.full(rows(calls), "", object))
    more = (
        Column("flops", calls.get("flops", np.full(rows(calls), ABSENT)), "FLOP"),
        Column("bytes", calls.get("bytes", np.full(rows(calls), ABSENT)), "byte"),
        Column("problem", problem),
        Column("layer", layers),
    )
    return _rows(view, number, row, names, timed, *more)


def _layers_of(view: JobView, number: int, calls: Table) -> Chunk:
    """Stretches in which a rank was at one layer: its calls, in order of begin, until one of another."""
    layer = calls["layer"]
    begins = np.flatnonzero(np.append(True, layer[1:] != layer[:-1]))
    ends = calls["time_ns"] + calls["duration_ns"]
    timed = {"time_ns": calls["time_ns"][begins], "end_ns": np.maximum.reduceat(ends, begins)}
    named = layer[begins] != ""
    return _rows(view, number, "layers", layer[begins][named], take(timed, named))
