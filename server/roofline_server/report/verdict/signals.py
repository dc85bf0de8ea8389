"""What is known of every step of the ranks of a job, cut out of its step tables: see model.signals."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...correlate.sampling import RECORDED
from ...model.account.signals import RankSignals
from ...model.breakdown import phase, seconds
from ...model.columns import known_mean, spread_by
from ...model.evidence import NS, RankEvidence, StepEvidence
from ...model.roofline.roof_time import least_time
from ...model.roofline.shares import on_gpu
from ...model.roofline.work import dominant_precision
from ...model.times import durations
from ...records import ABSENT, Floats, Ints, Table, are_equal, constant_float, is_constant, rows
from ...store.view import JobView
from ..ceilings.contention import contention
from ..ceilings.limits import of_rank
from ..ceilings.nodes import cpus_of
from ..evidence.gathering import Gathered
from ..evidence.ranks import aligned, rows_of

KERNEL_THREADS = ("setting.intra_op_threads", "setting.OMP_NUM_THREADS")  # facts: the first that is there
MOST_UNKNOWN = 0.5  # of the steps, of which it is not known how long the GPU was busy
OWN_POOLS = ("hook.tf_", "hook.jax")  # how hooks of frameworks begin that compute in threads of their own
COMPUTING = ("forward", "backward", "optimizer")
THREAD = "thread"  # spans of the training thread: docs/metrics.md


def signals_of(view: JobView, gathered: Gathered) -> dict[int, RankSignals]:
    """Signals of each rank that has steps of its own."""
    ranks = gathered.evidence
    sharing = contention(view, ranks)
    serves = any(rank.role == "ps" for rank in ranks.values())
    found = {}
    for number, rank in ranks.items():
        if len(rank.steps.step) and not rank.serving:
            place = (rank.host, "") if not rank.uses_gpu else None
            parts = sharing.get(place, 1) if place else 1
            found[number] = _signals(view, number, rank, gathered.tables.get(number, {}), parts, serves)
    return found


def _signals(
    view: JobView, number: int, rank: RankEvidence, tables: Mapping[str, Table], parts: int, serves: bool
) -> RankSignals:
    steps = rank.steps
    flops, moved, calls = _work(tables.get("steps_kernels", {}), steps)
    origin = rank.columns.get("kernels.origin")
    cpus = cpus_of(view, rank.host)
    facts = view.facts.get(number, {})
    kernels = seconds(rank, "kernels.kernel_ns")
    busy = _gpu_busy(rank, grown(tables, steps, "gpu", "gpu_busy_ns"))
    if rank.uses_gpu:
        kernels = _gpu_time(rank, busy)
    of_threads = grown_in_rounds if rank.barrier == "join" else grown
    if rank.uses_gpu:
        origin = None  # a GPU is looked at all the time, not in a sample of the steps
    return RankSignals(
        rank=rank.key,
        role=rank.role,
        host=rank.host,
        step=steps.step,
        begin_ns=steps.begin_ns,
        end_ns=steps.end_ns,
        duration=durations(steps),
        cores=cpus / parts if cpus else None,
        input=phase(rank, "input"),
        held=rank.held if rank.held is not None else phase(rank, "communicate"),
        kernels=kernels,
        kernels_most=_in_turns(rank, busy),
        traced=None if origin is None else origin == RECORDED,
        on_gpu=rank.uses_gpu,
        on_gpu_meets=rank.uses_gpu and facts.get("setting.backend", "") == "nccl",
        kernel_threads=kernel_threads(facts),
        roof=_roof(view, number, rank, (flops, moved, calls), parts),
        flops=flops,
        bytes=moved,
        examples=_known(steps.examples),
        phases=_phases(rank),
        run=_thread(rank, "run.step"),
        delay=_thread(rank, "delay.step"),
        input_run=_thread(rank, "run.input"),
        input_delay=_thread(rank, "delay.input"),
        held_run=_thread(rank, "run.communicate"),
        held_delay=_thread(rank, "delay.communicate"),
        gc=_thread(rank, "gc"),
        faults=_known(rank.columns.get(f"{THREAD}.faults.count")),
        blocks=_known(rank.columns.get(f"{THREAD}.blocks.count")),
        threads_run=of_threads(tables, steps, "process", "cpu_ns"),
        threads_delay=of_threads(tables, steps, "process", "cpu_wait_ns"),
        busiest_run=of_threads(tables, steps, "process", "busiest_run_ns"),
        busiest_delay=of_threads(tables, steps, "process", "busiest_delay_ns"),
        stopped=_at_most(grown(tables, steps, "process", "stopped_ns"), steps),
        throttled=_at_most(grown(tables, steps, "cgroup", "cgroup_throttled_ns"), steps),
        waits_for_servers=serves and rank.role in ("worker", "chief"),
        barrier=rank.barrier,
    )


def _phases(rank: RankEvidence) -> Floats | None:
    """Means of the phases in which a rank computes, (3,); None where one is not known."""
    means = [known_mean(phase(rank, name)) for name in COMPUTING]
    return None if None in means else np.array(means, np.float64)


def _gpu_busy(rank: RankEvidence, busy: Floats | None) -> Floats | None:
    """Seconds of each step in which its GPU was busy by NVML, of several the mean; None where that is not
    known of most steps."""
    if not rank.uses_gpu or busy is None or np.isnan(busy).mean() > MOST_UNKNOWN:
        return None
    return spread_by(durations(rank.steps), busy)


def _in_turns(rank: RankEvidence, busy: Floats | None) -> Floats | None:
    """Seconds of each step in which one of its GPUs was busy, if never two were at once: where layers lie
    on several GPUs, each waits for the one before. None: it uses one."""
    if busy is None or rank.gpus is None or rank.gpus.gpus < 2:
        return None
    return np.minimum(rank.gpus.gpus * busy, durations(rank.steps))


def _gpu_time(rank: RankEvidence, busy: Floats | None) -> Floats | None:
    """Seconds of each step in which its GPU computed: by NVML, else by kernels of it that were recorded. None
    where neither is known of most steps."""
    if busy is not None:
        return busy
    return seconds(rank, "kernels.kernel_ns") if rank.kernels is not None else None


def kernel_threads(facts: Mapping[str, str]) -> int | None:
    """Threads that compute in a kernel of a rank. None: not known, as of TensorFlow and JAX, whose kernels
    run in pools of their own while the main thread waits, whatever OMP_NUM_THREADS says."""
    if any(name.startswith(OWN_POOLS) for name in facts):
        return None
    reported = next((facts[name] for name in KERNEL_THREADS if name in facts), "")
    return int(reported) if reported.isdecimal() else None


def _thread(rank: RankEvidence, name: str) -> Floats | None:
    """Seconds of each step; the amount is what the span counts, in ns."""
    counted = _known(rank.columns.get(f"{THREAD}.{name}.count"))
    return None if counted is None else counted / NS


def _known(column: Ints | None) -> Floats | None:
    """NaN where it is absent; None: of no step is it known."""
    if column is None or not len(column):
        return None
    if is_constant(column):
        return None if column[0] == ABSENT else constant_float(float(column[0]), len(column))
    absent = column == ABSENT
    lacking = np.count_nonzero(absent)
    if not lacking:
        return column.astype(np.float64)
    return None if lacking == len(column) else np.where(absent, np.nan, column.astype(np.float64))


def _work(table: Table, steps: StepEvidence) -> tuple[Floats | None, Floats | None, Floats | None]:
    """FLOPs, bytes and calls of the kernels of each step of which all are known."""
    if not rows(table) or "complete" not in table:
        return None, None, None
    of_kernels = aligned(steps, table)
    complete = of_kernels("complete") > 0
    whole = np.count_nonzero(complete) == len(complete)

    def known(name: str) -> Floats | None:
        if name not in table:
            return None
        column = of_kernels(name)
        return _known(column if whole else np.where(complete, column, ABSENT))

    return known("flops"), known("bytes"), known("calls")


def grown(tables: Mapping[str, Table], steps: StepEvidence, counter_set: str, name: str) -> Floats | None:
    """What a counter of ns grew in each step, seconds."""
    table = tables.get(f"steps_{counter_set}", {})
    if not rows(table) or f"{name}.end" not in table:
        return None
    found: Floats = (table[f"{name}.end"] - table[f"{name}.begin"]) / NS
    if not are_equal(table["end_ns"], steps.end_ns):
        at = rows_of(steps, table)
        found = np.where(at < 0, np.nan, found[at])
    return None if np.count_nonzero(np.isnan(found)) == len(found) else found


def grown_in_rounds(
    tables: Mapping[str, Table], steps: StepEvidence, counter_set: str, name: str
) -> Floats | None:
    """What a counter of ns grew, seconds, in each round of a worker that waits for others after its part of
    one, from the end of one part to that of the next. Threads are read more seldom than rounds end, so a
    reading would be spread evenly over a round, though a worker that waits does almost nothing: hence whole
    rounds."""
    table = tables.get(f"steps_{counter_set}", {})
    if not rows(table) or f"{name}.end" not in table:
        return None
    at = rows_of(steps, table)
    reading = np.where(at < 0, np.nan, table[f"{name}.end"][at] / NS)
    follows = np.diff(steps.step, prepend=steps.step[:1]) == 1
    found = np.where(follows, np.diff(reading, prepend=reading[:1]), np.nan)
    return None if np.isnan(found).all() else found


def _at_most(seconds: Floats | None, steps: StepEvidence) -> Floats | None:
    """No more than the step: a limit counts the time of all CPUs, and samples are next to the borders."""
    return None if seconds is None else np.minimum(seconds, durations(steps))


def _roof(
    view: JobView,
    number: int,
    rank: RankEvidence,
    work: tuple[Floats | None, Floats | None, Floats | None],
    parts: int,
) -> Floats | None:
    flops, moved, calls = work
    if flops is None:
        return None
    limits = of_rank(view, number, dominant_precision([rank]), on_gpu(rank))
    return least_time(flops, moved, calls, limits, parts)
