"""Who waits for whom in a job: the model's findings with names, and the numbers they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..errors import BadRequest
from ..model import barrier
from ..model import stragglers as model
from ..model.breakdown import BARRIERS, breakdown, phase, seconds
from ..model.evidence import NS, RankEvidence, StepEvidence
from ..model.servers import ServerTimes, slow_servers, uneven_servers
from ..model.stragglers import Finding, RankTimes
from ..model.values import Provenance, Scope, Value, value
from ..records import ABSENT, Floats, Table, rows
from ..store.view import JobView
from .barriers import held_in, how_seen, trains, with_waits
from .build import mode_of
from .evidence import NEEDED as NEEDED_BY_REPORT
from .evidence import aligned, by_rank, evidence_of, unite, within
from .members import role_order
from .records import ALL_STEPS, Cause, Imbalance, RankWaits, Steps, Stragglers
from .servers import load_of, server_times, stopped_share

NEEDED = {
    **NEEDED_BY_REPORT,
    "steps_process": [*NEEDED_BY_REPORT["steps_process"], "cpu_wait_ns.begin", "cpu_wait_ns.end", "stopped"],
}
STRETCHES = 20  # into which the job is cut to show imbalance over time


def find(view: JobView, steps: Steps = ALL_STEPS) -> Stragglers:
    """Who held whom up in these steps. Raises BadRequest when the range of steps cannot be."""
    if steps.first is not None and steps.last is not None and steps.first > steps.last:
        raise BadRequest(f"steps {steps.first} to {steps.last}: the first comes after the last")
    mode = mode_of(view)
    tables = {name: within(table, steps) for name, table in view.steps.items()}
    if mode == "synchronous":
        tables = {name: unite(table) for name, table in tables.items()}
    mine = by_rank(tables)
    order = sorted(view.ranks, key=lambda n: (role_order(view.ranks[n].role), view.ranks[n].index))
    evidence = {number: evidence_of(view, number, mine.get(number, {}), {}) for number in order}
    evidence = with_waits(evidence, mode)
    training = {number: rank for number, rank in evidence.items() if trains(rank)}
    kind, why_not = how_seen(list(training.values()), mode, any(r.role == "ps" for r in evidence.values()))
    grid = barrier.align([rank.steps for rank in training.values()])
    held = held_in(grid, list(training.values()), kind) if kind else None
    times = _rank_times(training, mine, grid, held)
    servers = {n: server_times(view, n, mine.get(n, {})) for n in order if view.ranks[n].role == "ps"}
    causes = _causes(times, list(servers.values()), mode)
    seen = bool(kind) or mode == "asynchronous" or bool(causes)
    return Stragglers(
        job=view.job,
        mode=mode,
        verdict=model.verdict(causes, seen, why_not or "no steps were seen"),
        barrier=BARRIERS[kind][0] if kind else "",
        causes=[_cause(cause) for cause in causes],
        ranks=[
            RankWaits(rank.key, rank.role, rank.host, _values(rank, time))
            for rank, time in zip(training.values(), times, strict=True)
        ],
        imbalance=_imbalance(grid, held, [rank.key for rank in training.values()])
        if held is not None
        else [],
        servers=[load_of(view, number, times_) for number, times_ in servers.items()],
        notes=[
            *_notes(mode, kind, why_not, list(training.values())),
            *uneven_servers(list(servers.values())),
        ],
    )


def _rank_times(
    training: Mapping[int, RankEvidence],
    mine: Mapping[int, Mapping[str, Table]],
    grid: barrier.Grid,
    held: Floats | None,
) -> list[RankTimes]:
    ranks = list(training.values())
    late = None if held is None else barrier.lateness(held)
    placed = {
        "duration": grid.place([(r.steps.end_ns - r.steps.begin_ns) / NS for r in ranks]),
        "input": grid.place([phase(r, "input") for r in ranks]),
        "lead": grid.place([_lead(r) for r in ranks]),
        "kernels": grid.place([seconds(r, "kernels.kernel_ns") for r in ranks]),
        "cpu": grid.place([_counted(mine, n, r.steps, "cpu_ns") for n, r in training.items()]),
        "cpu_wait": grid.place([_counted(mine, n, r.steps, "cpu_wait_ns") for n, r in training.items()]),
    }
    placed["starved"] = model.starved(*(placed[name] for name in ("duration", "cpu", "cpu_wait")))
    return [
        RankTimes(
            rank.key,
            rank.host,
            late=None if late is None else late[:, column],
            stopped=stopped_share(mine.get(number, {})),
            **{name: values[:, column] for name, values in placed.items()},
        )
        for column, (number, rank) in enumerate(training.items())
    ]


def _lead(rank: RankEvidence) -> Floats | None:
    """From the begin of each step to its first kernel, seconds."""
    first = rank.columns.get("kernels.first_ns")
    if first is None:
        return None
    return np.where(first == ABSENT, np.nan, np.maximum(0, first - rank.steps.begin_ns) / NS)


def _counted(
    mine: Mapping[int, Mapping[str, Table]], number: int, steps: StepEvidence, name: str
) -> Floats | None:
    """What a counter of ns grew in each step, seconds."""
    table = mine.get(number, {}).get("steps_process", {})
    if not rows(table) or f"{name}.end" not in table:
        return None
    grown = table[f"{name}.end"] - table[f"{name}.begin"]
    known = {"end_ns": table["end_ns"], "at": np.arange(rows(table), dtype=np.int64)}
    at = aligned(steps, known, "at")
    return np.where(at == ABSENT, np.nan, grown[np.maximum(at, 0)] / NS)


def _causes(times: Sequence[RankTimes], servers: Sequence[ServerTimes], mode: str) -> list[Finding]:
    if not times:
        return []
    found = model.late_ranks(times) if mode == "synchronous" else model.slow_ranks(times)
    named = {finding.rank for finding in found if finding.kind == "input"}
    found += [finding for finding in model.starved_of_input(times) if finding.rank not in named]
    step = float(np.nanmedian(np.concatenate([rank.duration for rank in times])))
    found += slow_servers(servers, step)
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


def _values(rank: RankEvidence, times: RankTimes) -> dict[str, Value]:
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
        "late_per_step": mean(times.late, "when its ranks wait for each other is not seen"),
        "cpu_time_per_step": mean(times.cpu, "no CPU time was read"),
        "cpu_wait_per_step": mean(times.cpu_wait, "the kernel's scheduler statistics were not read"),
        "kernel_time_per_step": mean(times.kernels, "no kernels were recorded"),
    }


def _imbalance(grid: barrier.Grid, held: Floats, names: Sequence[str]) -> list[Imbalance]:
    """How unevenly ranks arrived in each of at most STRETCHES stretches of steps."""
    waits, late = barrier.waits(held), barrier.lateness(held)
    found = []
    for part in np.array_split(np.arange(len(grid.step)), min(STRETCHES, len(grid.step)) or 1):
        known = part[~np.isnan(late[part]).all(axis=1)]
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
