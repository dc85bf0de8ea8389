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
from ...model.servers import ServerTimes, slow_servers, uneven_servers
from ...model.stragglers import Finding, RankTimes
from ...model.times import durations
from ...records import ABSENT, Floats, Table, rows
from ...store.view import JobView
from ..evidence.barriers import held_in, how_seen, trains, with_waits
from ..evidence.gathering import check, mode_of
from ..evidence.ranks import NEEDED as NEEDED_BY_REPORT
from ..evidence.ranks import aligned, by_rank, evidence_of, unite, within
from ..evidence.replays import without_replays
from ..questions import ALL_STEPS, Steps
from ..ranks.members import role_order
from .servers import load_of, server_times, stopped_share

NEEDED = {
    **NEEDED_BY_REPORT,
    "steps_process": [*NEEDED_BY_REPORT["steps_process"], "stopped"],
}
STRETCHES = 20  # into which the job is cut to show imbalance over time


def find(view: JobView, steps: Steps = ALL_STEPS) -> Stragglers:
    """Who held whom up in these steps. Raises BadRequest when the range of steps cannot be."""
    check(steps)
    mode = mode_of(view)
    tables = {name: within(table, steps) for name, table in view.steps.items()}
    if mode == "synchronous":
        tables = {name: unite(table) for name, table in tables.items()}
    mine = without_replays(view, by_rank(tables), mode)
    order = sorted(view.ranks, key=lambda n: (role_order(view.ranks[n].role), view.ranks[n].index))
    evidence = {number: evidence_of(view, number, mine.get(number, {}), {}) for number in order}
    evidence = with_waits(evidence, mode)
    training = {number: rank for number, rank in evidence.items() if trains(rank)}
    kind, why_not = how_seen(list(training.values()), mode, any(r.role == "ps" for r in evidence.values()))
    # Ranks that step independently share no steps: there is nothing to put side by side.
    grid = barrier.align([rank.steps for rank in training.values()] if kind else [])
    held = held_in(grid, list(training.values()), kind) if kind else np.zeros((0, len(training)))
    late = barrier.lateness(held)
    times = [_rank_times(rank, mine.get(number, {})) for number, rank in training.items()]
    servers = {n: server_times(view, n, mine.get(n, {})) for n in order if view.ranks[n].role == "ps"}
    causes = _causes(times, late, list(servers.values()), mode)
    unknown = "" if kind or mode == "asynchronous" else why_not or "no steps were seen"
    step = _median_step(times)
    return Stragglers(
        job=view.job,
        mode=mode,
        verdict=model.verdict(causes, unknown, barrier.waits(held), step),
        barrier=BARRIERS[kind][0] if kind else "",
        causes=[_cause(cause) for cause in causes],
        ranks=[
            RankWaits(rank.key, rank.role, rank.host, _values(rank, time, late[:, column]))
            for column, (rank, time) in enumerate(zip(training.values(), times, strict=True))
        ],
        imbalance=_imbalance(grid, held, [rank.key for rank in training.values()]),
        servers=[load_of(view, number, times_) for number, times_ in servers.items()],
        notes=[
            *_notes(mode, kind, why_not, list(training.values())),
            *uneven_servers(list(servers.values())),
        ],
    )


def _rank_times(rank: RankEvidence, mine: Mapping[str, Table]) -> RankTimes:
    duration = durations(rank.steps)
    cpu, cpu_wait = (_counted(mine, rank.steps, name) for name in ("cpu_ns", "cpu_wait_ns"))
    return RankTimes(
        rank.key,
        rank.host,
        duration,
        input=phase(rank, "input"),
        lead=_lead(rank),
        kernels=seconds(rank, "kernels.kernel_ns"),
        cpu=cpu,
        cpu_wait=cpu_wait,
        starved=None if cpu is None or cpu_wait is None else model.starved(duration, cpu, cpu_wait),
        stopped=stopped_share(mine),
    )


def _median_step(times: Sequence[RankTimes]) -> float:
    return float(np.median(np.concatenate([rank.duration for rank in times]))) if times else 0.0


def _lead(rank: RankEvidence) -> Floats | None:
    """From the begin of each step to its first kernel, seconds."""
    first = rank.columns.get("kernels.first_ns")
    if first is None:
        return None
    return np.where(first == ABSENT, np.nan, np.maximum(0, first - rank.steps.begin_ns) / NS)


def _counted(mine: Mapping[str, Table], steps: StepEvidence, name: str) -> Floats | None:
    """What a counter of ns grew in each step, seconds."""
    table = mine.get("steps_process", {})
    if not rows(table) or f"{name}.end" not in table:
        return None
    grown = table[f"{name}.end"] - table[f"{name}.begin"]
    known = {"end_ns": table["end_ns"], "at": np.arange(rows(table), dtype=np.int64)}
    at = aligned(steps, known, "at")
    return np.where(at == ABSENT, np.nan, grown[np.maximum(at, 0)] / NS)


def _causes(
    times: Sequence[RankTimes], late: Floats, servers: Sequence[ServerTimes], mode: str
) -> list[Finding]:
    if not times:
        return []
    found = model.late_ranks(times, late) if mode == "synchronous" else model.slow_ranks(times)
    named = {finding.rank for finding in found if finding.kind == "input"}
    found += [finding for finding in model.starved_of_input(times) if finding.rank not in named]
    found += slow_servers(servers, _median_step(times))
    return sorted(found, key=lambda finding: -finding.cost)


def _cause(cause: Finding) -> Cause:
    return Cause(
        cause.rank,
        cause.host,
        cause.kind,
        Value(cause.cost, "s", Provenance.MEASURED, Scope.PROCESS),
        Value(cause.share, "1", Provenance.MEASURED, Scope.PROCESS),
        cause.steps,
        cause.of_steps,
        cause.evidence,
    )


def _values(rank: RankEvidence, times: RankTimes, late: Floats) -> dict[str, Value]:
    def mean(column: Floats | None, why: str, origin: Provenance = Provenance.MEASURED) -> Value:
        known = None if column is None else column[~np.isnan(column)]
        number = float(known.mean()) if known is not None and len(known) else None
        return value(number, "s", origin, Scope.PROCESS, missing=why)

    step = value(
        float(times.duration[~np.isnan(times.duration)].mean()), "s", Provenance.MEASURED, Scope.PROCESS
    )
    return {
        "step_time_mean": step,
        **breakdown([rank], Scope.PROCESS),
        "late_per_step": mean(late, "when its ranks wait for each other is not seen"),
        "cpu_time_per_step": mean(times.cpu, "no CPU time was read"),
        "cpu_wait_per_step": mean(times.cpu_wait, "the kernel's scheduler statistics were not read"),
        "kernel_time_per_step": mean(times.kernels, "no kernels were recorded"),
    }


def _imbalance(grid: barrier.Grid, held: Floats, names: Sequence[str]) -> list[Imbalance]:
    """How unevenly ranks arrived in each of at most STRETCHES stretches of steps."""
    waits, late = barrier.waits(held), barrier.lateness(held)
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


def _notes(mode: str, kind: str, why_not: str, training: Sequence[RankEvidence]) -> list[str]:
    notes = []
    if mode == "asynchronous":
        notes.append("the ranks step independently: nobody waits for a slow one, it only does fewer steps")
    elif not kind and training:
        notes.append(why_not)
    if kind and BARRIERS[kind][1] == Provenance.ESTIMATED:
        notes.append("the end of a rank's last kernel stands for its arrival: what follows counts as held")
    return notes
