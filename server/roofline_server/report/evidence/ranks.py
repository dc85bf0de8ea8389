"""What is known of one rank, cut out of a job's step tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from roofline.answers.values import Provenance

from ...correlate.kernels import LEVELS
from ...correlate.steps import OWN, union
from ...model.breakdown import COMMUNICATE, PHASES
from ...model.evidence import CountedFlops, CounterEvidence, KernelEvidence, RankEvidence, StepEvidence
from ...records import ABSENT, PRECISIONS, Ints, Metric, Table, rows, take
from ...store.view import JobView
from ..questions import ALL_STEPS, Steps
from ..ranks.members import host_of
from .counters import added, counter, coverage_of, picked
from .node_counters import BUSY, DRAM, ENERGY
from .reasons import reasons_of

WIDTHS = ("scalar", "128", "256", "512", "all")
FLOPS = [f"flops.{precision}.{width}" for precision in ("f16", "f32", "f64") for width in WIDTHS]
FLOPS.append("flops.all.all")
OF_PRECISIONS = [f"flops_{precision}" for precision in PRECISIONS if precision]
LLC_BOUND = "dram_bytes.llc_bound"
AMX = "amx_busy_cycles"


def _borders(*counters: str) -> list[str]:
    return [f"{name}.{border}" for name in counters for border in ("begin", "end")]


# What a report reads of the step tables; a report's cost is that of reading it.
NEEDED = {
    "steps": ["examples", "asynchronous"],
    "steps_kernels": [
        *("flops", "bytes", "kernel_ns", "unmodelled", "calls", "complete", *OF_PRECISIONS),
        *("dram", "dram_calls", "flop_calls", "byte_calls", "gpu_calls", "first_ns", "last_ns"),
        *("l1", "l1_calls", "l2", "l2_calls", "unsized_flops", "idle_bytes"),
    ],
    "steps_process": ["rss_bytes", *_borders("cpu_ns", "cpu_wait_ns")],
    "steps_tcp": _borders("tcp_sent_bytes", "tcp_received_bytes"),
    "steps_perf": [*_borders(*FLOPS, AMX, LLC_BOUND), *(f"{name}.coverage" for name in FLOPS)],
    "steps_spans": [f"phase.{name}.ns" for name in (*PHASES, COMMUNICATE)],
    **{
        f"steps_node_{counter_set}": [
            *_borders(*(name for names in sets for name in names)),
            *(f"{name}.coverage" for names in sets for name in names if counter_set in DRAM),
        ]
        for counter_set, sets in {**DRAM, **ENERGY, **BUSY}.items()
    },
}


def by_rank(tables: Mapping[str, Table]) -> dict[int, dict[str, Table]]:
    """rank -> its rows of each table."""
    found: dict[int, dict[str, Table]] = {}
    for name, table in tables.items():
        if not rows(table):
            continue
        ranks = table["rank"]
        if np.any(ranks[1:] < ranks[:-1]):
            table = take(table, np.argsort(ranks, kind="stable"))
            ranks = table["rank"]
        edges = [0, *(np.flatnonzero(ranks[1:] != ranks[:-1]) + 1).tolist(), len(ranks)]
        for begin, end in pairwise(edges):
            rank = int(table["rank"][begin])
            found.setdefault(rank, {})[name] = {n: column[begin:end] for n, column in table.items()}
    return found


def within(table: Table, steps: Steps) -> Table:
    """The rows of these steps."""
    if not rows(table) or steps == ALL_STEPS:
        return table
    wanted = np.ones(rows(table), bool)
    if steps.first is not None:
        wanted &= table["step"] >= steps.first
    if steps.last is not None:
        wanted &= table["step"] <= steps.last
    return picked(table, wanted)


def where(table: Table, column: str, wanted: int) -> Table:
    return picked(table, table[column] == wanted) if rows(table) else table


def unite(table: Table) -> Table:
    """The table with the windows of serving ranks as synchronous steps."""
    if not rows(table) or (own := table["window"] == OWN).all():
        return table
    parts = (take(table, own), union(take(table, ~own)))
    return {name: np.concatenate([part[name] for part in parts]) for name in table}


def evidence_of(
    view: JobView, number: int, mine: Mapping[str, Table], lifetimes: Mapping[str, Table]
) -> RankEvidence:
    """mine: the rank's rows of each step table; lifetimes: the same over its life, for want of steps."""
    key = view.ranks[number]
    counters = {**lifetimes, **mine}
    steps = _steps(mine.get("steps", {}))
    serving = rows(mine.get("steps", {})) > 0 and bool(np.any(mine["steps"]["window"] != OWN))
    shared, bound = _shared(mine, DRAM), counter(counters.get("steps_perf", {}), LLC_BOUND)
    process, tcp = counters.get("steps_process", {}), counters.get("steps_tcp", {})
    return RankEvidence(
        key=f"{key.role}:{key.index}",
        role=key.role,
        host=host_of(view, number),
        steps=steps,
        kernels=_kernels(counters.get("steps_kernels", {})),
        counted_flops=_counted_flops(counters.get("steps_perf", {}), view.metrics.get("perf", ())),
        cpu_ns=counter(process, "cpu_ns"),
        sent=counter(tcp, "tcp_sent_bytes"),
        received=counter(tcp, "tcp_received_bytes"),
        dram=shared or bound,
        dram_is_bound=shared is None and bound is not None,
        energy=_shared(mine, ENERGY),
        rss_peak=_peak(process, "rss_bytes"),
        samples_per_step=float(np.mean(process["samples"])) if rows(process) and len(steps.step) else None,
        serving=serving,
        columns={} if serving else columns_of(steps, mine),
        reasons=reasons_of(view, number),
        cpu_wait=counter(process, "cpu_wait_ns"),
    )


def columns_of(steps: StepEvidence, mine: Mapping[str, Table]) -> dict[str, Ints]:
    """Per step of a rank, by name: what its spans say ("phase.input.ns"), and of its kernels when the first
    began and the last had ended ("kernels.first_ns", "kernels.last_ns"), and whether all were recorded
    ("kernels.complete"); ABSENT where it is not known."""
    spans, kernels = mine.get("steps_spans", {}), mine.get("steps_kernels", {})
    found = {n: aligned(steps, spans, n) for n in spans if n.endswith((".ns", ".count", ".bytes"))}
    # A rank that is ever in a phase is not in it in a step without; of a step of which nothing was told that
    # is not known.
    told = np.zeros(len(steps.step), bool)
    for name in found:
        told |= (found[name] > 0) & name.endswith(".ns")
    for name, column in found.items():
        if not name.endswith(".bytes") and (column != ABSENT).any():
            found[name] = np.where(told, np.where(column == ABSENT, 0, column), ABSENT)
    for name in ("first_ns", "last_ns", "kernel_ns", "complete"):
        if name in kernels:
            found[f"kernels.{name}"] = aligned(steps, kernels, name)
    return found


def aligned(steps: StepEvidence, table: Table, name: str) -> Ints:
    """A column of one of the rank's step tables, per step; ABSENT for steps that the table lacks."""
    if np.array_equal(table["end_ns"], steps.end_ns):  # nearly always
        found: Ints = table[name].astype(np.int64)
        return found
    order = np.argsort(table["end_ns"], kind="stable")
    ends = table["end_ns"][order]
    at = np.minimum(np.searchsorted(ends, steps.end_ns), len(ends) - 1)
    same = (ends[at] == steps.end_ns) if len(ends) else np.zeros(len(steps.end_ns), bool)
    return np.where(same, table[name][order][at], ABSENT).astype(np.int64)


def _steps(table: Table) -> StepEvidence:
    if not rows(table):
        none: Ints = np.zeros(0, np.int64)
        return StepEvidence(none, none, none, none)
    columns = {name: table[name].astype(np.int64, copy=False) for name in StepEvidence._fields}
    if np.any(np.diff(columns["end_ns"]) < 0):
        columns = take(columns, np.argsort(columns["end_ns"], kind="stable"))
    return StepEvidence(**columns)


def _kernels(table: Table) -> KernelEvidence | None:
    # A rank whose libraries executed nothing has no FLOPs that anybody counted: absent, not zero.
    if not rows(table) or not table["calls"].any():
        return None

    def column(name: str) -> Ints:
        # Step deltas of an older server lack some.
        if name not in table:
            return np.zeros(rows(table), np.int64)
        return np.where(table[name] == ABSENT, 0, table[name]).astype(np.int64)

    return KernelEvidence(
        flops=column("flops"),
        bytes=column("bytes"),
        duration_ns=column("end_ns") - column("begin_ns"),
        kernel_ns=column("kernel_ns"),
        complete=column("complete") > 0,
        unmodelled=column("unmodelled"),
        on_gpu=bool((column("gpu_calls") > 0).any()),
        has_flops="flop_calls" not in table or bool((table["flop_calls"] != 0).any()),
        has_bytes="byte_calls" not in table or bool((table["byte_calls"] != 0).any()),
        dram=_level(column, "dram"),
        by_precision=_by_precision(table, column),
        step=table["step"].astype(np.int64),
        levels={name: _level(column, name) for name in LEVELS if column(f"{name}_calls").any()},
        calls=column("calls"),
        unsized_flops=column("unsized_flops"),
        idle_bytes=column("idle_bytes"),
    )


def _level(column: Callable[[str], Ints], name: str) -> Ints:
    """Bytes of a level of the memory; ABSENT where they were not counted of every call."""
    return np.where(column(f"{name}_calls") == column("calls"), column(name), ABSENT)


def _by_precision(table: Table, column: Callable[[str], Ints]) -> dict[str, Ints]:
    found = {name.removeprefix("flops_"): column(name) for name in OF_PRECISIONS if name in table}
    return {precision: flops for precision, flops in found.items() if flops.any()}


def _counted_flops(table: Table, metrics: Sequence[Metric]) -> CountedFlops | None:
    """All `flops.*` counters of a rank together; absent where one of them is."""
    names = [name.removesuffix(".begin") for name in table if name.startswith("flops.")]
    names = [name for name in names if f"{name}.end" in table and not np.isnan(table[f"{name}.end"]).all()]
    counted = counter(added(table, names), "added")
    if counted is None:
        return None
    amx = counter(table, AMX)
    estimated = any(m.name in names and m.provenance == Provenance.ESTIMATED for m in metrics)
    each = {name.removeprefix("flops."): counter(table, name) for name in names}
    by = {name: one.total for name, one in each.items() if one is not None and one.total > 0}
    return CountedFlops(counted, coverage_of(table, names), estimated, amx is not None and amx.total > 0, by)


def _shared(
    mine: Mapping[str, Table], counters: Mapping[str, Sequence[Sequence[str]]]
) -> CounterEvidence | None:
    """A rank's part of what its node counted during its windows: shared out by CPU time."""
    for counter_set, sets in counters.items():
        table = mine.get(f"steps_node_{counter_set}", {})
        for names in sets if rows(table) else ():
            counted = counter(added(table, names), "added")
            share = None if counted is None else _cpu_share(mine)
            if counted is not None and share is not None:
                total, each = counted.total * share, counted.per_window * share
                return counted._replace(total=total, per_window=each, coverage=coverage_of(table, names))
    return None


def _cpu_share(mine: Mapping[str, Table]) -> float | None:
    """CPU time of the rank over that of all that ran on its node, in the rank's windows."""
    own = counter(mine.get("steps_process", {}), "cpu_ns")
    everyone = counter(mine.get("steps_node_node", {}), "node_cpu_busy_ns")
    if own is None or everyone is None or not everyone.per_window > 0:
        return None
    return min(1.0, own.per_window / everyone.per_window)


def _peak(table: Table, name: str) -> float | None:
    if not rows(table) or name not in table or np.isnan(table[name]).all():
        return None
    return float(np.nanmax(table[name]))
