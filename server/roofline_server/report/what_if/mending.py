"""What mending one rank, one server or one part of the account would give, by the replay of the job."""

from __future__ import annotations

from ...errors import BadRequest
from ...model.account import NOT_ITS_OWN, PARTS
from ...model.intervals import interval
from ...model.replay import Replay, job_of
from ...model.what_if import Range
from ...sentences import what_if as texts
from ...store.view import JobView
from ..evidence.gathering import Gathered
from ..verdict.build import accounts_of
from ..verdict.servers import Served

LEAST_STEPS = 8


def mend(
    view: JobView, gathered: Gathered, serving: Served, what: str
) -> tuple[Range | None, list[str], list[str]]:
    """(seconds a step, what it stands on, what to know). what: "ddp:1", "ps:0" or "input". Raises BadRequest
    for anything else."""
    server = next((signals for signals in serving.servers.values() if signals.rank == what), None)
    if server is not None:
        return _server(serving, what)
    known = accounts_of(view, gathered)
    numbers = [n for n in gathered.barriers.ranks if n in known.accounts]
    ranks = [known.accounts[n].rank for n in numbers]
    mendable = [part for part in PARTS if part == "transfer" or part not in NOT_ITS_OWN]
    parts = [part for part in mendable if any(part in known.accounts[n].parts for n in numbers)]
    if what not in ranks and what not in parts:
        raise BadRequest(texts.no_such(what, [*ranks, *(s.rank for s in serving.servers.values()), *parts]))
    grid = gathered.barriers.grid
    job = job_of([known.signals[n] for n in numbers], [known.accounts[n] for n in numbers], grid)
    if (
        job is None
        or len(job.measured) < LEAST_STEPS
        or (serving.servers and gathered.mode == "asynchronous")
    ):
        return None, [], [texts.INDEPENDENT if serving.servers else texts.NO_STEPS]
    replay = Replay(job)
    played = job.played()
    if what in job.ranks:
        then = replay.like_others([job.ranks.index(what)], list(job.parts))
    elif what == "transfer":
        then = replay.without_transfer()
    else:
        then = replay.without([what])
    gain = interval(played - then)
    step = float(played.mean())
    basis = [
        texts.steady_steps(len(played), len(job.ranks)),
        texts.replayed(float(job.measured.mean()), step),
    ]
    return Range(step - gain.mean, step - gain.high, step - gain.low), basis, []


def _server(serving: Served, what: str) -> tuple[Range | None, list[str], list[str]]:
    cause = next((cause for cause in serving.causes if cause.rank == what), None)
    rate = sum(worker.steps_per_second for worker in serving.workers.values())
    if cause is None or not rate > 0:
        return None, [], [texts.not_a_cause(what)]
    cycle = len(serving.workers) / rate
    basis = [texts.demands([use.rank], [use.demand.low]) for use in [cause.use] if use.demand is not None]
    bounds = cause.bounds
    return Range(cycle - cause.cost, cycle - bounds.high, cycle - bounds.low), basis, [texts.BOUNDS]
