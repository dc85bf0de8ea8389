"""The table of steps: one row per rank and step, with what was counted in it. Nothing is averaged here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..chunks import Chunk, Column, split
from ..correlate.spans import BUSY, EXPOSED
from ..correlate.steps import LIFE, OWN
from ..errors import BadRequest, UnknownRank
from ..model.evidence import NS
from ..model.roofline import TENSOR_BYTES
from ..model.values import Provenance
from ..records import ABSENT, Bools, Floats, Ints, Table, rows, take
from ..store.view import JobView
from .collectives import FAMILIES, names_of, without_untold
from .evidence import NEEDED as OF_REPORT
from .evidence import by_rank, unite, within
from .members import role_order
from .records import Steps
from .step_notes import write_notes

NEEDED: Mapping[str, Sequence[str] | None] = {
    **{
        name: OF_REPORT[name]
        for name in ("steps", "steps_kernels", "steps_process", "steps_tcp", "steps_perf")
    },
    "steps_spans": None,
}
KEYS = ("window", "step", "begin_ns", "end_ns")
COUNTED = ("steps_process", "steps_tcp", "steps_perf")  # tables whose rows tell how many samples lay inside
PHASES = ("input", "forward", "backward", "communicate", "optimizer")
# The order of the columns; those of single kinds of collectives follow, by name.
ORDER = (
    *("rank", "window_of", "step", "begin_ns", "duration_ns", "examples", "samples", "cpu_time"),
    *("sent_bytes", "received_bytes", "flops", "flops_per_second", "flops.measured"),
    *("bytes.minimum", "intensity.minimum", *(f"{phase}_time" for phase in PHASES)),
    *("asked_count", "asked_bytes", "engine_count", "engine_bytes", "engine_time", "overlap_time"),
)
BY_TIME = "time"  # in the column window_of: no step, but a window of time
BETWEEN = "read at both borders by interpolation between samples"
OVERLAP = "time in which the engine worked and the rank was not blocked by it"

_MEASURED, _REPORTED = Provenance.MEASURED, Provenance.REPORTED


def steps_table(view: JobView, ranks: Sequence[str], steps: Steps, mode: str) -> Iterator[Chunk]:
    """The rows by rank, and of each in order of time; every chunk has the same columns, each with some value.

    ranks: "worker:0"; none: all. mode: how the job steps, as its report says. Raises BadRequest for a range
    that cannot be and UnknownRank.
    """
    numbers = chosen(view, ranks)
    tables = rank_tables(view, numbers, steps, mode)
    if steps.first is None and steps.last is None:
        tables += time_tables(view, numbers)
    found: dict[str, Column] = {}
    for number, table in tables:
        for column in columns_of(view, number, table, mode):
            if column.name not in found and known(column).any():
                found[column.name] = column
    notes = write_notes(view, numbers, tables, steps, mode)
    kinds = sorted((c._replace(values=c.values[:0]) for c in found.values()), key=_place)
    if not kinds:
        yield Chunk("steps", [Column(name, np.zeros(0, np.int64)) for name in ORDER[:5]], notes)
    for number, table in tables:
        mine = {column.name: column for column in columns_of(view, number, table, mode)}
        whole = [mine.get(kind.name) or absent(kind, rows(table)) for kind in kinds]
        yield from split(Chunk("steps", whole, notes))
        notes = []


def chosen(view: JobView, ranks: Sequence[str]) -> list[int]:
    """Numbers of the ranks of these names, or of all, in the order of roles. Raises UnknownRank."""
    names = {f"{key.role}:{key.index}": number for number, key in view.ranks.items()}
    for name in ranks:
        if name not in names:
            some = sorted(names, key=lambda n: (role_order(n.rpartition(":")[0]), int(n.rpartition(":")[2])))
            more = ", ..." if len(some) > 8 else ""
            raise UnknownRank(f"job {view.job} has no rank {name!r}; it has {', '.join(some[:8])}{more}")
    wanted = [names[name] for name in dict.fromkeys(ranks)] or list(view.ranks)
    return sorted(wanted, key=lambda n: (role_order(view.ranks[n].role), view.ranks[n].index))


def rank_tables(view: JobView, numbers: Sequence[int], steps: Steps, mode: str) -> list[tuple[int, Table]]:
    """(rank, its steps as one wide table in order of time) of those of these ranks that have any."""
    if steps.first is not None and steps.last is not None and steps.first > steps.last:
        raise BadRequest(f"steps {steps.first} to {steps.last}: the first comes after the last")
    mine = by_rank({name: within(table, steps) for name, table in view.steps.items() if name in NEEDED})
    stepping = [number for number in numbers if rows(mine.get(number, {}).get("steps", {}))]
    return [(number, _wide(mine[number], mode == "synchronous")) for number in stepping]


def time_tables(view: JobView, numbers: Sequence[int]) -> list[tuple[int, Table]]:
    """For want of steps: (rank, what it counted in windows of equal time) of these ranks that have none."""
    mine = by_rank({name: table for name, table in view.lifetimes.items() if name in NEEDED})
    some = [number for number in numbers if rows(mine.get(number, {}).get("steps", {}))]
    return [(number, _wide(mine[number], synchronous=False)) for number in some]


def _wide(mine: Mapping[str, Table], synchronous: bool) -> Table:
    steps = mine["steps"]
    keys = {name: steps[name].astype(np.int64) for name in KEYS}
    wide: Table = {**keys, "rank": steps["rank"], "examples": steps["examples"].astype(np.int64)}
    for name, table in mine.items():
        if name != "steps":
            at = _places(keys, table)
            for column in table.keys() - {*KEYS, "rank", "start_ns", "samples"}:
                wide[column] = _spread(table[column], at, rows(steps))
    counting = next((mine[name] for name in COUNTED if name in mine), None)
    if counting is not None:
        wide["samples"] = _spread(counting["samples"], _places(keys, counting), rows(steps))
    wide = without_untold(wide)
    if synchronous:
        wide = unite(wide)
    return take(wide, np.lexsort((wide["step"], wide["end_ns"], wide["begin_ns"])))


def _places(keys: Table, table: Table) -> Ints:
    """Per row of a step table the row of `keys` with its window; -1: none."""
    count = rows(keys)
    if count == rows(table) and all(np.array_equal(keys[name], table[name]) for name in KEYS):
        return np.arange(count)
    both = [np.concatenate((keys[name], table[name].astype(np.int64))) for name in KEYS]
    order = np.lexsort(both)
    new = np.append(True, np.any([np.diff(column[order]) != 0 for column in both], axis=0))
    group = np.empty(len(order), np.int64)
    group[order] = np.cumsum(new) - 1
    at = np.full(int(group.max()) + 1, -1)
    at[group[:count]] = np.arange(count)
    places: Ints = at[group[count:]]
    return places


def _spread(column: Floats | Ints, at: Ints, count: int) -> Floats | Ints:
    """The values at their places; of a window that two processes touched that of the one that has it."""
    floats = column.dtype.kind == "f"
    some = (at >= 0) & (~np.isnan(column) if floats else column != ABSENT)
    found = np.full(count, np.nan) if floats else np.full(count, ABSENT, np.int64)
    found[at[some]] = column[some]
    return found


# -- columns -----------------------------------------------------------------------------------------------


def known(column: Column) -> Bools:
    """Which rows have a value."""
    if column.values.dtype.kind == "f":
        numbers: Floats = column.values
        return ~np.isnan(numbers)
    some: Bools = column.values != (ABSENT if column.values.dtype.kind == "i" else "")
    return some


def absent(kind: Column, count: int) -> Column:
    """A column of that kind without any value."""
    fill = {"f": np.nan, "i": ABSENT}.get(kind.values.dtype.kind, "")
    return kind._replace(values=np.full(count, fill, kind.values.dtype))


def _place(column: Column) -> tuple[int, str]:
    name = column.name
    phase_of_its_own = name.endswith("_time")
    return (ORDER.index(name) if name in ORDER else len(ORDER) + (not phase_of_its_own), name)


def columns_of(view: JobView, number: int, table: Table, mode: str) -> list[Column]:
    key = view.ranks[number]
    duration = (table["end_ns"] - table["begin_ns"]).astype(np.int64)
    return [
        Column("rank", np.full(rows(table), f"{key.role}:{key.index}", object)),
        Column("window_of", _window_of(view, table, mode)),
        Column("step", table["step"]),
        Column("begin_ns", table["begin_ns"], "ns", _MEASURED, "server's UNIX time"),
        Column("duration_ns", duration, "ns", _MEASURED),
        Column("examples", table["examples"], "1", _REPORTED),
        *counters(table),
        *_work(table, duration),
        *spans(table),
    ]


def _window_of(view: JobView, table: Table, mode: str) -> NDArray[np.object_]:
    """Whose step it is; empty: the rank's own, or that of all workers together."""
    by_time = bool((table["window"] == LIFE).any())
    if not by_time and (mode == "synchronous" or not (table["window"] != OWN).any()):
        return np.full(rows(table), "", object)
    names = {number: f"{key.role}:{key.index}" for number, key in view.ranks.items()} | {LIFE: BY_TIME}
    return np.array([names.get(who, "") for who in table["window"].tolist()], object)


def counters(table: Table) -> list[Column]:
    """What the rank's counters counted between a step's borders, and on how many samples that stands."""
    found = [Column("samples", table["samples"], "1", _MEASURED)] if "samples" in table else []
    for name, counter, unit, scale in (
        ("cpu_time", "cpu_ns", "s", NS),
        ("sent_bytes", "tcp_sent_bytes", "byte", 1.0),
        ("received_bytes", "tcp_received_bytes", "byte", 1.0),
    ):
        if f"{counter}.end" in table:
            counted = (table[f"{counter}.end"] - table[f"{counter}.begin"]) / scale
            found.append(Column(name, counted, unit, _MEASURED, BETWEEN))
    return found


def _work(table: Table, duration: Ints) -> list[Column]:
    """FLOPs: of recorded kernels, and of what the CPU counted."""
    found = []
    names = [
        name.removesuffix(".end") for name in table if name.startswith("flops.") and name.endswith(".end")
    ]
    names = [name for name in names if not np.isnan(table[f"{name}.end"]).all()]
    if names:
        counted = np.sum([table[f"{name}.end"] - table[f"{name}.begin"] for name in names], axis=0)
        found.append(Column("flops.measured", counted, "FLOP", _MEASURED, BETWEEN))
    # A rank whose libraries executed nothing has no FLOPs that anybody counted: absent, not zero.
    if "calls" not in table or not (table["calls"] > 0).any():
        return found
    own = (table["complete"] > 0) & ((table["window"] == OWN) | (table["window"] == LIFE))
    flops = _of_kernels(table, "flops", "flop_calls", own)
    traffic = _of_kernels(table, "bytes", "byte_calls", own)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(duration > 0, flops / (duration / NS), np.nan)
        intensity = np.where(traffic > 0, (flops - _unsized(table)) / traffic, np.nan)
    on_gpu = "gpu_calls" in table and bool((table["gpu_calls"] > 0).any())
    origin = _MEASURED if on_gpu else Provenance.ANALYTIC
    some = bool((table["unmodelled"] > 0).any())
    why = "pooling, normalisation and element-wise operations are not counted" if some else ""
    found += [
        Column("flops", flops, "FLOP", origin, why),
        Column("flops_per_second", rate, "FLOP/s", origin, why),
        Column("bytes.minimum", traffic, "byte", origin, TENSOR_BYTES),
        Column("intensity.minimum", intensity, "FLOP/byte", origin, f"over {TENSOR_BYTES}"),
    ]
    return found


def _unsized(table: Table) -> Ints:
    """FLOPs of kernels whose bytes nobody knows."""
    unsized = table.get("unsized_flops", np.zeros(rows(table), np.int64))
    return np.where(unsized == ABSENT, 0, unsized)


def _of_kernels(table: Table, name: str, calls: str, watched: Bools) -> Floats:
    """Sums of kernels in steps of which every kernel was recorded; NaN elsewhere, or if none has it."""
    if calls in table and not (table[calls] > 0).any():
        return np.full(rows(table), np.nan)
    return np.where(watched, table[name].astype(np.float64), np.nan)


def spans(table: Table) -> list[Column]:
    """Phases; collectives all together and by kind; what of the engine's work the rank did not wait for."""
    found = []
    names = sorted({name.removesuffix(".ns") for name in table if name.endswith(".ns")})
    for name in names:
        family, _, kind = name.partition(".")
        if family == "phase":
            found.append(Column(_phase_column(kind), _seconds(table[f"{name}.ns"]), "s", _MEASURED))
        elif name not in (BUSY, EXPOSED):
            found += _collective(table, name)
    for family in FAMILIES:
        if kinds := names_of(table, family):
            counts, sizes = _totals(table, kinds)
            found += [
                Column(f"{family}_count", counts, "1", _MEASURED),
                Column(f"{family}_bytes", sizes, "byte", _MEASURED),
            ]
    if f"{BUSY}.ns" in table:
        busy = _seconds(table[f"{BUSY}.ns"])
        found.append(Column("engine_time", busy, "s", _MEASURED, "time in which it executed any collective"))
        if f"{EXPOSED}.ns" in table:
            hidden = busy - _seconds(table[f"{EXPOSED}.ns"])
            found.append(Column("overlap_time", hidden, "s", _MEASURED, OVERLAP))
    return found


def _phase_column(phase: str) -> str:
    """A training may name a phase as another column is named ("cpu")."""
    taken = f"{phase}_time" in ORDER and phase not in PHASES
    return f"phase.{phase}_time" if taken else f"{phase}_time"


def _collective(table: Table, name: str) -> list[Column]:
    found = [Column(f"{name}.time", _seconds(table[f"{name}.ns"]), "s", _MEASURED)]
    for what, unit in (("count", "1"), ("bytes", "byte")):
        if f"{name}.{what}" in table:
            found.append(Column(f"{name}.{what}", table[f"{name}.{what}"].astype(np.int64), unit, _MEASURED))
    return found


def _totals(table: Table, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Counts and bytes of these spans together; ABSENT where there are none, or where bytes are unknown."""
    counts = np.array([table[f"{name}.count"] for name in names], np.int64)
    sizes = np.array([table[f"{name}.bytes"] for name in names], np.int64)
    some = counts != ABSENT
    total = np.where(some, counts, 0).sum(axis=0)
    moved = np.where(sizes != ABSENT, sizes, 0).sum(axis=0)
    unknown = ((sizes == ABSENT) & some & (counts > 0)).any(axis=0) | (sizes == ABSENT).all(axis=0)
    nobody = ~some.any(axis=0)
    return np.where(nobody, ABSENT, total), np.where(nobody | unknown, ABSENT, moved)


def _seconds(nanoseconds: Ints) -> Floats:
    return np.where(nanoseconds == ABSENT, np.nan, nanoseconds / NS)
