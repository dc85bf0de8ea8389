"""Who waits for whom in a job: the model's findings with names, and the numbers they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.waits import Cause, Imbalance, RankWaits, Stragglers

from ...model import barrier
from ...model.breakdown import BARRIERS, breakdown, seconds
from ...model.causes.server_use import skewed
from ...model.evidence import RankEvidence
from ...model.times import durations
from ...records import Floats, Ints, Table
from ...sentences import reasons
from ...sentences import waits as texts
from ...store.view import JobView
from ..evidence.barriers import Barriers
from ..evidence.gathering import gather
from ..evidence.steady import left_out_notes
from ..questions import STEADY_STEPS, Steps, once_of_steady
from ..verdict.findings import Findings, findings
from ..verdict.servers import Served, load_of, served
from ..verdict.signals import grown

STRETCHES = 20  # into which the job is cut to show imbalance over time


def find(view: JobView, steps: Steps = STEADY_STEPS) -> Stragglers:
    """Who held whom up in these steps, not to be written to. Raises BadRequest when the range of steps cannot
    be."""
    return _find(view, steps)


@once_of_steady
def _find(view: JobView, steps: Steps) -> Stragglers:
    gathered = gather(view, steps)
    mode, tables, barriers = gathered.mode, gathered.tables, gathered.barriers
    late = barrier.lateness(barriers.held)
    servers = served(view, gathered)
    found = findings(view, gathered, servers)
    ranks = []
    for column, number in enumerate(barriers.ranks):
        rank, mine = gathered.evidence[number], tables.get(number, {})
        ranks.append(RankWaits(rank.key, rank.role, rank.host, _values(rank, mine, late[:, column])))
    names, last = [gathered.evidence[number].key for number in barriers.ranks], _last(late)
    return Stragglers(
        job=view.job,
        mode=mode,
        verdict=_verdict(mode, barriers, names, servers, found),
        barrier=texts.SEEN_BY.get(barriers.kind, ""),
        causes=[
            Cause(f.rank, f.host, f.kind, f.cost, f.share, *_times_last(last, names, f.rank), f.evidence)
            for f in [*found.named, *found.minor]
        ],
        ranks=ranks,
        imbalance=_imbalance(barriers, names),
        servers=[load_of(view, n, mine, servers.uses[n]) for n, mine in servers.servers.items()],
        notes=[*_notes(mode, barriers), *_uneven(servers), *left_out_notes(view, steps)],
    )


def _verdict(mode: str, barriers: Barriers, names: Sequence[str], servers: Served, found: Findings) -> str:
    """names: of the ranks that would wait for each other."""
    if not found.named and mode == "asynchronous" and not servers.servers:
        return texts.NO_RANK_WAITS
    if found.named or barriers.kind or mode == "asynchronous" or not barriers.ranks:
        return found.headline
    return texts.only(names[0]) if len(names) == 1 else texts.unknown(barriers.why_not)


def _last(late: Floats) -> Ints:
    """Of each step of which that is known the rank that came last, by its column; -1: none was late."""
    known = late[~np.isnan(late).all(axis=1)] if late.size else late[:0]
    if not len(known):
        return np.zeros(0, np.int64)
    return np.where(np.nanmax(known, axis=1) > 0, np.nanargmax(known, axis=1), -1)


def _times_last(last: Ints, names: Sequence[str], ranks: str) -> tuple[int, int]:
    """In how many steps any of these ranks ("ddp:0, ddp:1") came last, and of how many that is known; of
    none: where they are all ranks, or one that others do not wait for."""
    columns = [names.index(rank) for rank in ranks.split(", ") if rank in names]
    return (int(np.isin(last, columns).sum()), len(last)) if columns else (0, 0)


def _uneven(servers: Served) -> list[str]:
    uses = servers.uses.values()
    return [texts.uneven_bytes(use.rank, use.share) for use in uses if use.share and skewed(use, len(uses))]


def _values(rank: RankEvidence, mine: Mapping[str, Table], late: Floats) -> dict[str, Value]:
    def mean(column: Floats | None, missing: str = reasons.NO_STEPS_SEEN) -> Value:
        known = None if column is None else column[~np.isnan(column)]
        number = float(known.mean()) if known is not None and len(known) else None
        return value(number, "s", Provenance.MEASURED, Scope.PROCESS, missing=missing)

    return {
        "step_time_mean": mean(durations(rank.steps)),
        **breakdown([rank], Scope.PROCESS),
        "late_per_step": mean(late, texts.NO_ARRIVALS),
        "cpu_time_per_step": mean(grown(mine, rank.steps, "process", "cpu_ns"), texts.NO_CPU_TIME),
        "cpu_wait_per_step": mean(grown(mine, rank.steps, "process", "cpu_wait_ns"), texts.NO_SCHEDULER),
        "kernel_time_per_step": mean(seconds(rank, "kernels.kernel_ns"), reasons.NO_KERNELS),
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
        return [barriers.why_not] if len(barriers.ranks) > 1 else []
    return [texts.BY_LAST_KERNEL] if BARRIERS[barriers.kind] == Provenance.ESTIMATED else []
