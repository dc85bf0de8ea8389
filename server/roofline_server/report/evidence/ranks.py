"""What is known of one rank, cut out of a job's step tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from roofline.answers.values import Provenance

from ...correlate.kernels import LEVELS, counted_calls
from ...correlate.sampling import ESTIMATED, LIKE
from ...correlate.spans import AMOUNTS
from ...correlate.steps import OWN
from ...model.breakdown import COMMUNICATE, PHASES
from ...model.evidence import (
    NS,
    CountedFlops,
    CounterEvidence,
    GpuEvidence,
    KernelEvidence,
    RankEvidence,
    StepEvidence,
)
from ...records import (
    ABSENT,
    PRECISIONS,
    Bools,
    Floats,
    Ints,
    Metric,
    Table,
    are_equal,
    constant,
    is_constant,
    rows,
    take,
)
from ...sentences import reasons as texts
from ...sentences.wording import joined
from ...store.view import JobView
from ..ranks.members import host_of
from .counters import INSTRUCTIONS, added, counter, coverage_of, read_zero
from .node_counters import BUSY, DRAM, ENERGY
from .reasons import reasons_of
from .sampled import ORIGIN

WIDTHS = ("scalar", "128", "256", "512", "all")
FLOPS = [f"flops.{precision}.{width}" for precision in ("f16", "f32", "f64") for width in WIDTHS]
FLOPS.append("flops.all.all")
OF_PRECISIONS = [f"flops_{precision}" for precision in PRECISIONS if precision]
DEVICE = "setting.device"  # of PyTorch: cuda, cpu
JAX = "hook.jax_calls"
LLC_BOUND = "dram_bytes.llc_bound"
AMX = "amx_busy_cycles"
THREAD_PARTS = ("input", "communicate")
# What the training thread had in a step, and in two of its parts.
RUN = f"{AMOUNTS}run.step.count"
THREAD = [f"{AMOUNTS}{what}.{part}.count" for part in ("step", *THREAD_PARTS) for what in ("run", "delay")]
THREAD += [f"{AMOUNTS}{what}.count" for what in ("gc", "faults", "blocks")]
BUSIEST = ("busiest_run_ns", "busiest_delay_ns")  # of the thread of a process that runs or waits most


def _borders(*counters: str) -> list[str]:
    return [f"{name}.{border}" for name in counters for border in ("begin", "end")]


# What a report reads of the step tables; a report's cost is that of reading it.
NEEDED = {
    "steps": ["examples", "asynchronous", "like", "apart"],
    "steps_kernels": [
        *("flops", "bytes", "kernel_ns", "unmodelled", "calls", "complete", *OF_PRECISIONS),
        *("dram", "dram_calls", "flop_calls", "byte_calls", "gpu_calls", "first_ns", "last_ns"),
        *("l1", "l1_calls", "l2", "l2_calls", "unsized_flops", "idle_bytes", "counted_calls"),
    ],
    "steps_process": ["rss_bytes", *_borders("cpu_ns", "cpu_wait_ns", "stopped_ns", *BUSIEST)],
    "steps_tcp": _borders("tcp_sent_bytes", "tcp_received_bytes"),
    "steps_cgroup": ["cgroup_cpu_limit", *_borders("cgroup_throttled_ns")],
    "steps_gpu": ["gpus", *_borders("gpu_busy_ns", "gpu_tensor_ns", "gpu_dram_bytes", "gpu_copied_bytes")],
    "steps_perf": [*_borders(*FLOPS, AMX, LLC_BOUND), f"{INSTRUCTIONS}.end"]
    + [f"{name}.coverage" for name in FLOPS],
    "steps_spans": [*(f"phase.{name}.ns" for name in (*PHASES, COMMUNICATE)), *THREAD],
    **{
        f"steps_node_{counter_set}": [
            *_borders(*(name for names in sets for name in names)),
            *(f"{name}.coverage" for names in sets for name in names if counter_set in DRAM),
        ]
        for counter_set, sets in {**DRAM, **ENERGY, **BUSY}.items()
    },
}


def evidence_of(
    view: JobView,
    number: int,
    mine: Mapping[str, Table],
    lifetimes: Mapping[str, Table],
    between: Mapping[str, Floats],
) -> RankEvidence:
    """mine: the rank's rows of each step table; lifetimes: the same over its life, for want of steps;
    between: as of RankEvidence."""
    key, facts = view.ranks[number], view.facts.get(number, {})
    counters = {**lifetimes, **mine}
    steps = _step_evidence(mine.get("steps", {}))
    serving = rows(mine.get("steps", {})) > 0 and bool(np.count_nonzero(mine["steps"]["window"] != OWN))
    perf = counters.get("steps_perf", {})
    shared, bound = _shared(mine, DRAM), counter(perf, LLC_BOUND)
    process, tcp = counters.get("steps_process", {}), counters.get("steps_tcp", {})
    rss_peak = samples = None
    if rows(process) and "rss_bytes" in process:
        most = float(np.fmax.reduce(process["rss_bytes"]))
        rss_peak = None if np.isnan(most) else most
    if rows(process) and len(steps.step):
        samples = float(np.mean(process["samples"]))
    kernels, on_gpus = _kernel_evidence(counters.get("steps_kernels", {})), mine.get("steps_gpu", {})
    uses_gpu = rows(on_gpus) > 0 or facts.get(DEVICE) == "cuda"
    if kernels is not None and not kernels.on_gpu and uses_gpu and JAX not in facts:
        kernels = None  # what its CPUs compute meanwhile is not the training's work; XLA's calls are
    uses_gpu = uses_gpu or (kernels is not None and kernels.on_gpu)
    counted = _counted_flops(perf, view.metrics.get("perf", ()))
    return RankEvidence(
        key=f"{key.role}:{key.index}",
        role=key.role,
        host=host_of(view, number),
        steps=steps,
        kernels=kernels,
        counted_flops=None if uses_gpu else counted,
        cpu_ns=_marked(view, "process", "cpu_ns", process),
        sent=_marked(view, "tcp", "tcp_sent_bytes", tcp),
        received=_marked(view, "tcp", "tcp_received_bytes", tcp),
        dram=shared or bound,
        dram_is_bound=shared is None and bound is not None,
        energy=_shared(mine, ENERGY),
        rss_peak=rss_peak,
        samples_per_step=samples,
        serving=serving,
        columns={} if serving else columns_of(steps, mine),
        reasons=_reasons(view, number, perf, uses_gpu),
        between=between,
        cpu_wait=counter(process, "cpu_wait_ns"),
        uses_gpu=uses_gpu,
        gpus=_gpu_evidence(on_gpus),
        cpu_flops=counted if uses_gpu else None,
    )


def columns_of(steps: StepEvidence, mine: Mapping[str, Table]) -> dict[str, Ints]:
    """Per step of a rank, by name: sums of its spans ("phase.input.ns"), and of its kernels when the first
    began and the last had ended ("kernels.first_ns", "kernels.last_ns"), whether all are known
    ("kernels.complete") and, of a rank that recorded some steps only, how ("kernels.origin"); ABSENT where it
    is not known."""
    spans, kernels = mine.get("steps_spans", {}), mine.get("steps_kernels", {})
    of_spans = aligned(steps, spans)
    columns = {n: of_spans(n) for n in spans if n.endswith((".ns", ".count", ".bytes"))}
    # A rank that is ever in a phase is not in it in a step without; of a step of which no span was reported
    # that is not known.
    reported = np.zeros(len(steps.step), bool)
    for name, column in columns.items():
        if name.endswith(".ns"):
            reported |= column > 0
    # Of the training thread all is known of a step, or nothing; a step took it some time on a CPU.
    measured = columns[RUN] > 0 if RUN in columns else np.zeros(len(steps.step), bool)
    of_thread = None if np.count_nonzero(measured) == len(measured) else measured
    of_phases = None if np.count_nonzero(reported) == len(reported) else reported
    for name, column in columns.items():
        if not name.endswith(".bytes"):
            columns[name] = _in_known_steps(column, of_thread if name.startswith(AMOUNTS) else of_phases)
    of_kernels = aligned(steps, kernels)
    for name in ("first_ns", "last_ns", "kernel_ns", "complete", ORIGIN):
        if name in kernels:
            columns[f"kernels.{name}"] = of_kernels(name)
    return columns


def _in_known_steps(column: Ints, known: Bools | None) -> Ints:
    """0 where nothing was reported of a step that is known, ABSENT in the others; as it is where nothing ever
    was. known: None: all steps are."""
    if is_constant(column):
        if column[0] == ABSENT:
            return column
    elif lacking := np.count_nonzero(absent := column == ABSENT):
        if lacking == len(column):
            return column
        column = np.where(absent, 0, column)
    return column if known is None else np.where(known, column, ABSENT)


def aligned(steps: StepEvidence, table: Table) -> Callable[[str], Ints]:
    """Of the names of columns of one of the rank's step tables these columns, per step, not to be written to;
    ABSENT for steps that are not in the table."""
    if rows(table) and not are_equal(table["end_ns"], steps.end_ns):
        at = rows_of(steps, table)
        return lambda name: np.where(at >= 0, table[name][at], ABSENT).astype(np.int64, copy=False)
    if rows(table) or not len(steps.end_ns):  # nearly always
        return lambda name: table[name].astype(np.int64, copy=False)
    return lambda name: np.full(len(steps.end_ns), ABSENT, np.int64)


def rows_of(steps: StepEvidence, table: Table) -> Ints:
    """Where each step is in one of the rank's step tables, which is not empty; -1: it is not there."""
    ends, count = table["end_ns"], len(steps.end_ns)
    if np.array_equal(ends, steps.end_ns[: len(ends)]):
        # Nearly always: counters are known up to the last sample, so only the last steps have none.
        at = np.arange(count)
        return np.where(at < len(ends), at, -1)
    order = np.argsort(ends, kind="stable")
    near = order[np.minimum(np.searchsorted(ends[order], steps.end_ns), len(ends) - 1)]
    return np.where(ends[near] == steps.end_ns, near, -1)


def _step_evidence(table: Table) -> StepEvidence:
    if not rows(table):
        none: Ints = np.zeros(0, np.int64)
        return StepEvidence(none, none, none, none)
    columns = {n: table[n].astype(np.int64, copy=False) for n in StepEvidence._fields if n in table}
    if np.count_nonzero(columns["end_ns"][1:] < columns["end_ns"][:-1]):
        columns = take(columns, np.argsort(columns["end_ns"], kind="stable"))
    return StepEvidence(**columns)


def _kernel_evidence(table: Table) -> KernelEvidence | None:
    # A rank whose libraries executed nothing has no counted FLOPs: absent, not zero.
    if not rows(table) or not np.count_nonzero(table["calls"]):
        return None

    def column(name: str) -> Ints:
        # Step deltas of an older server lack some.
        if name not in table:
            return np.zeros(rows(table), np.int64)
        found: Ints = table[name]
        if is_constant(found):
            return found if found[0] != ABSENT else constant(0, len(found))
        return np.maximum(found, 0).astype(np.int64, copy=False)  # none is negative but ABSENT

    def level(name: str) -> Ints:
        """Bytes of a level of the memory; ABSENT where they were not counted of every call."""
        return np.where(column(f"{name}_calls") == column("calls"), column(name), ABSENT)

    complete, origin = column("complete") > 0, table.get(ORIGIN)
    by_precision = {name.removeprefix("flops_"): column(name) for name in OF_PRECISIONS if name in table}
    return KernelEvidence(
        flops=column("flops"),
        bytes=column("bytes"),
        duration_ns=(table["end_ns"] - table["begin_ns"]).astype(np.int64, copy=False),
        kernel_ns=column("kernel_ns"),
        complete=complete,
        unmodelled=column("unmodelled"),
        on_gpu=bool(np.count_nonzero(column("gpu_calls"))),
        counted=bool((counted_calls(table) > 0).any()),
        has_flops="flop_calls" not in table or bool(np.count_nonzero(table["flop_calls"])),
        has_bytes="byte_calls" not in table or bool(np.count_nonzero(table["byte_calls"])),
        dram=level("dram"),
        by_precision={name: flops for name, flops in by_precision.items() if np.count_nonzero(flops)},
        step=table["step"].astype(np.int64),
        levels={name: level(name) for name in LEVELS if np.count_nonzero(column(f"{name}_calls"))},
        calls=column("calls"),
        unsized_flops=column("unsized_flops"),
        idle_bytes=column("idle_bytes"),
        recorded=None if origin is None else complete & (origin != LIKE) & (origin != ESTIMATED),
        estimated=None if origin is None else origin == ESTIMATED,
    )


def _gpu_evidence(table: Table) -> GpuEvidence | None:
    busy, tensor = _per_second(table, "gpu_busy_ns"), _per_second(table, "gpu_tensor_ns")
    if busy is None:
        return None
    gpus = float(np.fmax.reduce(table["gpus"], initial=1.0)) if "gpus" in table else 1.0
    moved, copied = (_per_second(table, name) for name in ("gpu_dram_bytes", "gpu_copied_bytes"))
    return GpuEvidence(
        busy / NS,
        None if tensor is None else tensor / NS,
        None if moved is None else moved / gpus,
        None if copied is None else copied / gpus,
        int(gpus),
    )


def _per_second(table: Table, name: str) -> float | None:
    counted = counter(table, name)
    return counted.total / counted.seconds if counted is not None and counted.seconds > 0 else None


def _marked(view: JobView, counter_set: str, name: str, table: Table) -> CounterEvidence | None:
    """A counter, marked as its agents describe it."""
    found = counter(table, name)
    estimated = _is_estimated(view.metrics.get(counter_set, ()), (name,))
    return found._replace(estimated=estimated) if found is not None else None


def _is_estimated(metrics: Sequence[Metric], names: Sequence[str]) -> bool:
    return any(m.name in names and m.provenance == Provenance.ESTIMATED for m in metrics)


def _counted_flops(table: Table, metrics: Sequence[Metric]) -> CountedFlops | None:
    """All `flops.*` counters of a rank together; absent where one of them is."""
    names = _flop_counters(table)
    if read_zero(table, names):
        return None
    counted = counter(added(table, names), "added")
    if counted is None:
        return None
    amx = counter(table, AMX)
    estimated = _is_estimated(metrics, names)
    each = {name.removeprefix("flops."): counter(table, name) for name in names}
    by = {name: one.total for name, one in each.items() if one is not None and one.total > 0}
    return CountedFlops(counted, coverage_of(table, names), estimated, amx is not None and amx.total > 0, by)


def _flop_counters(table: Table) -> list[str]:
    # Narrowed twice: to counters with both borders, then to those that were ever read.
    names = [name.removesuffix(".begin") for name in table if name.startswith("flops.")]
    return [name for name in names if f"{name}.end" in table and not np.isnan(table[f"{name}.end"]).all()]


def _reasons(view: JobView, number: int, perf: Table, uses_gpu: bool) -> dict[str, str]:
    reasons = reasons_of(view, number, uses_gpu)
    if uses_gpu or not read_zero(perf, _flop_counters(perf)):
        return reasons
    flops = joined(reasons.get("flops", ""), texts.EVENTS_READ_ZERO)
    return reasons | {"perf": texts.EVENTS_READ_ZERO, "flops": flops}


def _shared(
    mine: Mapping[str, Table], counters: Mapping[str, Sequence[Sequence[str]]]
) -> CounterEvidence | None:
    """A rank's part of what its node counted during its windows: shared out by CPU time."""
    for counter_set, sets in counters.items():
        table = mine.get(f"steps_node_{counter_set}", {})
        for names in sets if rows(table) else ():
            counted = counter(added(table, names), "added")
            if counted is None:
                continue
            share = _cpu_share(mine)
            if share is not None:
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
