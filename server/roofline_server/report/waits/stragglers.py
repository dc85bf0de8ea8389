"""Who waits for whom in a job: the model's findings with names, and the numbers they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.waits import Cause, Imbalance, RankWaits, Stragglers

from ...model import barrier
from ...model import stragglers as model
from ...model.breakdown import BARRIERS, breakdown, phase, seconds
from ...model.evidence import NS, RankEvidence, StepEvidence
from ...model.servers import ServerCause, skewed
from ...model.stragglers import Finding, RankTimes
from ...model.times import durations
from ...records import ABSENT, Floats, Table, rows
from ...sentences import reasons
from ...sentences import waits as texts
from ...store.view import JobView
from ..evidence.barriers import Barriers
from ..evidence.gathering import gather
from ..evidence.ranks import NEEDED as NEEDED
from ..evidence.ranks import aligned
from ..questions import STEADY_STEPS, Steps
from .servers import Served, evidence_of, load_of, served, stopped_share

STRETCHES = 20  # into which the job is cut to show imbalance over time


def find(view: JobView, steps: Steps = STEADY_STEPS) -> Stragglers:
    """Who held whom up in these steps. Raises BadRequest when the range of steps cannot be."""
    gathered = gather(view, steps)
    mode, tables, barriers = gathered.mode, gathered.tables, gathered.barriers
    training = [gathered.evidence[number] for number in barriers.ranks]
    times = [
        _rank_times(rank, tables.get(number, {}))
        for number, rank in zip(barriers.ranks, training, strict=True)
    ]
    # The median step of all ranks: what servers cost is measured by it.
    step = float(np.median(np.concatenate([rank.duration for rank in times]))) if times else 0.0
    late = barrier.lateness(barriers.held)
    servers = served(view, gathered)
    causes = _causes(times, late, servers, mode)
    unknown = ""
    if not barriers.kind and mode != "asynchronous":
        unknown = barriers.why_not or reasons.NO_STEPS_SEEN
    shown = []
    for found in causes:
        cost = Value(found.cost, "s", Provenance.MEASURED, Scope.PROCESS)
        share = Value(found.share, "1", Provenance.MEASURED, Scope.PROCESS)
        counts = (found.steps, found.of_steps)
        shown.append(Cause(found.rank, found.host, found.kind, cost, share, *counts, found.evidence))
    ranks = []
    for column, (rank, mine) in enumerate(zip(training, times, strict=True)):
        ranks.append(RankWaits(rank.key, rank.role, rank.host, _values(rank, mine, late[:, column])))
    return Stragglers(
        job=view.job,
        mode=mode,
        verdict=model.verdict(causes, unknown, barrier.waits(barriers.held), step),
        barrier=texts.SEEN_BY.get(barriers.kind, ""),
        causes=shown,
        ranks=ranks,
        imbalance=_imbalance(barriers, [rank.key for rank in training]),
        servers=[load_of(view, n, mine, servers.uses[n]) for n, mine in servers.servers.items()],
        notes=[*_notes(mode, barriers), *_uneven(servers)],
    )


def _rank_times(rank: RankEvidence, mine: Mapping[str, Table]) -> RankTimes:
    duration = durations(rank.steps)
    cpu, cpu_wait = (_counter_of_steps(mine, rank.steps, name) for name in ("cpu_ns", "cpu_wait_ns"))
    first = rank.columns.get("kernels.first_ns")
    lead = None
    if first is not None:
        lead = np.where(first == ABSENT, np.nan, np.maximum(0, first - rank.steps.begin_ns) / NS)
    return RankTimes(
        rank.key,
        rank.host,
        duration,
        input=phase(rank, "input"),
        lead=lead,
        kernels=seconds(rank, "kernels.kernel_ns"),
        cpu=cpu,
        cpu_wait=cpu_wait,
        starved=None if cpu is None or cpu_wait is None else model.starved(duration, cpu, cpu_wait),
        stopped=stopped_share(mine),
    )


def _counter_of_steps(mine: Mapping[str, Table], steps: StepEvidence, name: str) -> Floats | None:
    """What a counter of ns grew in each step, seconds."""
    table = mine.get("steps_process", {})
    if not rows(table) or f"{name}.end" not in table:
        return None
    grown = table[f"{name}.end"] - table[f"{name}.begin"]
    known = {"end_ns": table["end_ns"], "at": np.arange(rows(table), dtype=np.int64)}
    at = aligned(steps, known, "at")
    return np.where(at == ABSENT, np.nan, grown[np.maximum(at, 0)] / NS)


def _causes(times: Sequence[RankTimes], late: Floats, servers: Served, mode: str) -> list[Finding]:
    if not times:
        return []
    found = model.late_ranks(times, late) if mode == "synchronous" else model.slow_ranks(times)
    named = {finding.rank for finding in found if finding.kind == "input"}
    found += [finding for finding in model.starved_of_input(times) if finding.rank not in named]
    mean = float(np.mean(np.concatenate([rank.duration for rank in times])))
    found += [_finding(cause, mean) for cause in servers.causes]
    return sorted(found, key=lambda finding: -finding.cost)


def _finding(cause: ServerCause, step: float) -> Finding:
    """step: the workers' mean step, seconds."""
    share = cause.cost / step if step > 0 else 0.0
    return Finding(cause.rank, cause.host, cause.kind, cause.cost, share, 0, 0, evidence_of(cause))


def _uneven(servers: Served) -> list[str]:
    uses = servers.uses.values()
    return [texts.uneven_bytes(use.rank, use.share) for use in uses if use.share and skewed(use, len(uses))]


def _values(rank: RankEvidence, times: RankTimes, late: Floats) -> dict[str, Value]:
    def mean(column: Floats | None, missing: str = reasons.NO_STEPS_SEEN) -> Value:
        known = None if column is None else column[~np.isnan(column)]
        number = float(known.mean()) if known is not None and len(known) else None
        return value(number, "s", Provenance.MEASURED, Scope.PROCESS, missing=missing)

    return {
        "step_time_mean": mean(times.duration),
        **breakdown([rank], Scope.PROCESS),
        "late_per_step": mean(late, texts.NO_ARRIVALS),
        "cpu_time_per_step": mean(times.cpu, texts.NO_CPU_TIME),
        "cpu_wait_per_step": mean(times.cpu_wait, texts.NO_SCHEDULER),
        "kernel_time_per_step": mean(times.kernels, reasons.NO_KERNELS),
    }


def _imbalance(barriers: Barriers, names: Sequence[str]) -> list[Imbalance]:
    """How unevenly ranks arrived in each of at most STRETCHES stretches of steps."""
    grid = barriers.grid
    waits, late = barrier.waits(barriers.held), barrier.lateness(barriers.held)
    found = []
    for part in np.array_split(np.arange(len(grid.step)), min(STRETCHES, len(grid.step)) or 1):
        known = part[np.nanmax(late[part], axis=1, initial=0.0) > 0]
        if not len(known):
            continue
        last = np.nanargmax(late[known], axis=1)
        often = int(np.bincount(last, minlength=len(names)).argmax())
        found.append(
            Imbalance(
                int(grid.step[part[0]]),
                int(grid.step[part[-1]]),
                int(grid.begin_ns[part[0]]),
                int(grid.end_ns[part[-1]]),
                value(float(np.nanmean(waits[known])), "s", Provenance.MEASURED, Scope.ROLE),
                names[often],
                value(float(np.mean(last == often)), "1", Provenance.MEASURED, Scope.ROLE),
            )
        )
    return found


def _notes(mode: str, barriers: Barriers) -> list[str]:
    if mode == "asynchronous":
        return [texts.NOBODY_WAITS]
    if not barriers.kind:
        return [barriers.why_not] if barriers.ranks else []
    return [texts.BY_LAST_KERNEL] if BARRIERS[barriers.kind] == Provenance.ESTIMATED else []
