"""The columns of the table of steps: what they are called, their units, and where their values come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from roofline.answers.values import Provenance

from ...chunks import Column
from ...correlate.kernels import counted_calls
from ...correlate.sampling import ESTIMATED, LIKE
from ...correlate.spans import BUSY, EXPOSED
from ...correlate.steps import OWN, TIME_WINDOW
from ...model.evidence import NS
from ...records import ABSENT, Bools, Floats, Ints, Metric, Table, rows
from ...sentences import origins
from ...sentences.wording import joined
from ...store.view import JobView
from ..evidence.collectives import FAMILIES, names_of
from ..evidence.counters import read_zero
from ..evidence.sampled import ORIGIN
from ..ranks.members import name_of

PHASES = ("input", "forward", "backward", "communicate", "optimizer")
# The order of the columns; those of single kinds of collectives follow, by name.
ORDER = (
    *("rank", "window_of", "step", "begin_ns", "duration_ns", "examples", "samples", "cpu_time"),
    *("sent_bytes", "received_bytes", "kernels", "flops", "flops_per_second", "flops.measured"),
    *("bytes.minimum", "intensity.minimum", *(f"{phase}_time" for phase in PHASES)),
    *("asked_count", "asked_bytes", "engine_count", "engine_bytes", "engine_time", "overlap_time"),
)
# How a step's kernels are known, where only some steps were recorded.
HOW_KNOWN = np.array(["", "recorded", "like", "estimated"], object)
BY_TIME = "time"  # in the column window_of: no step, but a window of time

_MEASURED, _REPORTED = Provenance.MEASURED, Provenance.REPORTED


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


def place(column: Column) -> tuple[int, str]:
    """What columns are sorted by."""
    name = column.name
    phase_of_its_own = name.endswith("_time")
    return (ORDER.index(name) if name in ORDER else len(ORDER) + (not phase_of_its_own), name)


def columns_of(view: JobView, number: int, table: Table, mode: str) -> list[Column]:
    """All columns that can be made of a rank's wide table of steps; some may have no value at all."""
    duration = (table["end_ns"] - table["begin_ns"]).astype(np.int64)
    return [
        Column("rank", np.full(rows(table), name_of(view, number), object)),
        Column("window_of", _window_of(view, table, mode)),
        Column("step", table["step"]),
        Column("begin_ns", table["begin_ns"], "ns", _MEASURED, origins.SERVER_TIME),
        Column("duration_ns", duration, "ns", _MEASURED),
        Column("examples", table["examples"], "1", _REPORTED),
        *counters(table),
        *_flop_columns(table, duration, view.metrics.get("perf", ())),
        *spans(table),
    ]


def _window_of(view: JobView, table: Table, mode: str) -> NDArray[np.object_]:
    """The rank that the step is of; empty: the rank's own, or that of all workers together."""
    by_time = bool((table["window"] == TIME_WINDOW).any())
    if not by_time and (mode == "synchronous" or not (table["window"] != OWN).any()):
        return np.full(rows(table), "", object)
    names = {number: name_of(view, number) for number in view.ranks} | {TIME_WINDOW: BY_TIME}
    return np.array([names.get(who, "") for who in table["window"].tolist()], object)


def counters(table: Table) -> list[Column]:
    """What the rank's counters counted between a step's borders, and on how many samples that is based."""
    found = [Column("samples", table["samples"], "1", _MEASURED)] if "samples" in table else []
    for name, counter, unit, scale in (
        ("cpu_time", "cpu_ns", "s", NS),
        ("sent_bytes", "tcp_sent_bytes", "byte", 1.0),
        ("received_bytes", "tcp_received_bytes", "byte", 1.0),
    ):
        if f"{counter}.end" in table:
            counted = (table[f"{counter}.end"] - table[f"{counter}.begin"]) / scale
            found.append(Column(name, counted, unit, _MEASURED, origins.INTERPOLATED))
    return found


def _flop_columns(table: Table, duration: Ints, metrics: Sequence[Metric]) -> list[Column]:
    """FLOPs: of recorded kernels, and of what the CPU counted."""
    columns = []
    names = [
        name.removesuffix(".end") for name in table if name.startswith("flops.") and name.endswith(".end")
    ]
    names = [name for name in names if not np.isnan(table[f"{name}.end"]).all()]
    if names and not read_zero(table, names):
        counted = np.sum([table[f"{name}.end"] - table[f"{name}.begin"] for name in names], axis=0)
        estimated = any(m.name in names and m.provenance == Provenance.ESTIMATED for m in metrics)
        origin = Provenance.ESTIMATED if estimated else _MEASURED
        columns.append(Column("flops.measured", counted, "FLOP", origin, origins.INTERPOLATED))
    # A rank whose libraries executed nothing has no counted FLOPs: absent, not zero.
    if "calls" not in table or not (table["calls"] > 0).any():
        return columns
    own = (table["complete"] > 0) & ((table["window"] == OWN) | (table["window"] == TIME_WINDOW))
    flops = _of_kernels(table, "flops", "flop_calls", own)
    traffic = _of_kernels(table, "bytes", "byte_calls", own)
    # FLOPs of kernels without known bytes are left out of the intensity.
    unsized = table.get("unsized_flops", np.zeros(rows(table), np.int64))
    unsized = np.where(unsized == ABSENT, 0, unsized)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(duration > 0, flops / (duration / NS), np.nan)
        intensity = np.where(traffic > 0, (flops - unsized) / traffic, np.nan)
    least = Provenance.ANALYTIC  # what tensors need if each moves once is never measured
    how = origins.UNMODELLED if (table["unmodelled"] > 0).any() else ""
    if ORIGIN in table:
        columns.append(Column("kernels", HOW_KNOWN[np.maximum(0, table[ORIGIN])]))
        how = joined(origins.OF_LIKE, how)
        if not (table[ORIGIN] == LIKE).any() and (table[ORIGIN] == ESTIMATED).any():
            least = Provenance.ESTIMATED
    origin = _MEASURED if (counted_calls(table) > 0).any() else least
    columns += [
        Column("flops", flops, "FLOP", origin, how),
        Column("flops_per_second", rate, "FLOP/s", origin, how),
        Column("bytes.minimum", traffic, "byte", least, origins.TENSOR_BYTES),
        Column("intensity.minimum", intensity, "FLOP/byte", least, origins.OVER_TENSOR_BYTES),
    ]
    return columns


def _of_kernels(table: Table, name: str, calls: str, watched: Bools) -> Floats:
    """Sums of kernels in steps of which every kernel was recorded; NaN elsewhere, or if none has it."""
    if calls in table and not (table[calls] > 0).any():
        return np.full(rows(table), np.nan)
    return np.where(watched, table[name].astype(np.float64), np.nan)


def spans(table: Table) -> list[Column]:
    """Phases; collectives all together and by kind; what of the engine's work the rank did not wait for."""
    columns = []
    names = sorted({name.removesuffix(".ns") for name in table if name.endswith(".ns")})
    for name in names:
        family, _, kind = name.partition(".")
        if family == "phase":
            column = f"{kind}_time"
            if column in ORDER and kind not in PHASES:
                column = f"{name}_time"  # a training may name a phase as another column is named ("cpu")
            columns.append(Column(column, _seconds(table[f"{name}.ns"]), "s", _MEASURED))
        elif name not in (BUSY, EXPOSED):
            columns.append(Column(f"{name}.time", _seconds(table[f"{name}.ns"]), "s", _MEASURED))
            for what, unit in (("count", "1"), ("bytes", "byte")):
                if f"{name}.{what}" in table:
                    numbers = table[f"{name}.{what}"].astype(np.int64)
                    columns.append(Column(f"{name}.{what}", numbers, unit, _MEASURED))
    for family in FAMILIES:
        if kinds := names_of(table, family):
            counts, sizes = _counts_and_bytes(table, kinds)
            columns += [
                Column(f"{family}_count", counts, "1", _MEASURED),
                Column(f"{family}_bytes", sizes, "byte", _MEASURED),
            ]
    if f"{BUSY}.ns" in table:
        busy = _seconds(table[f"{BUSY}.ns"])
        columns.append(Column("engine_time", busy, "s", _MEASURED, origins.ENGINE_TIME))
        if f"{EXPOSED}.ns" in table:
            hidden = busy - _seconds(table[f"{EXPOSED}.ns"])
            columns.append(Column("overlap_time", hidden, "s", _MEASURED, origins.OVERLAP))
    return columns


def _counts_and_bytes(table: Table, names: Sequence[str]) -> tuple[Ints, Ints]:
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
