"""What fixing one rank, one server or one part of the account would give, by the replay of the job."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.values import Value

from ...errors import UnknownRank
from ...model.account.account import NOT_ITS_OWN, Account
from ...model.account.replay import Replay
from ...model.account.synchronous_job import BESIDE, Job, job_of
from ...model.barrier import align
from ...model.intervals import LEAST_STEPS, OF_ANOTHER_RUN, interval, of_another_run
from ...model.what_if import Range
from ...sentences import what_if as texts
from ...store.view import JobView
from ..evidence.gathering import Gathered
from ..verdict.accounts import Accounts, accounts_of
from ..verdict.findings import findings_of
from ..verdict.servers import Served
from .prediction import Prediction, unknown

MOST_GAINED = 0.99  # of a step


def fix(view: JobView, gathered: Gathered, serving: Served, what: str, mean_step: float) -> Prediction:
    """what: "ddp:1", "ps:0", "input" or "input or host"; mean_step: of the job, s. Raises UnknownRank for
    anything else."""
    known = accounts_of(view, gathered)
    if (named := _as_named(known, serving, what)) is not None:
        return named
    servers = [signals.rank for signals in serving.servers.values()]
    if what in servers:
        return _server(serving, what)
    numbers = [n for n in gathered.barriers.ranks if n in known.accounts]
    signals, accounts = [known.signals[n] for n in numbers], [known.accounts[n] for n in numbers]
    parts = _subject(what, accounts, servers)
    alone = len(numbers) == 1 and bool(parts)
    grid = align([gathered.evidence[n].steps for n in numbers]) if alone else gathered.barriers.grid
    job = job_of(signals, accounts, grid)
    if job is None or len(job.measured) < LEAST_STEPS or (gathered.mode == "asynchronous" and not alone):
        return unknown(_why_not(gathered, serving))
    if not parts and what not in job.ranks:
        return unknown(texts.seldom_there(what))
    found = _replayed(job, what, parts)
    if found.steps is not None and found.whole is None:
        step, own = float(job.played.mean()), [] if parts else [what]
        of_all = (mean_step * known.share_left(step, seconds, own) for seconds in found.steps)
        found = found._replace(steps=Range(*of_all))
    causes = [one for one in (known.conclusion.bottleneck, *known.conclusion.also) if one is not None]
    more = [texts.all_parts_of(what)] if any(one.ranks == (what,) for one in causes) else []
    return found._replace(notes=[*found.notes, *more])


def _subject(what: str, accounts: Sequence[Account], servers: Sequence[str]) -> list[str]:
    """The parts of the account that are to be fixed; none: it is the rank of this name. Raises UnknownRank
    where it is neither."""
    ranks = [one.rank for one in accounts]
    if what in ranks:
        return []
    every = dict.fromkeys(part for one in accounts for part in one.parts)
    parts = [part for part in every if part == "transfer" or part not in NOT_ITS_OWN]
    if meant := _meant(what, parts):
        return meant
    raise UnknownRank(texts.no_such(what, [*ranks, *servers], list(map(texts.part_shown, parts))))


def _replayed(job: Job, what: str, parts: Sequence[str]) -> Prediction:
    """parts: as of `_subject`."""
    replay, least = Replay(job), 0.0
    if not parts:
        place = job.ranks.index(what)
        then, least = replay.all_like_others(place), replay.least_without(place)
    elif parts == ["transfer"]:
        then = replay.without_transfer()
    else:
        then = replay.without_parts(parts)
    gain = interval(job.played - then)
    step = float(job.played.mean())
    basis = [
        texts.steady_steps(len(job.played), len(job.ranks)),
        texts.replayed(float(job.measured.mean()), step),
    ]
    notes = [texts.stands_for(what, parts)] if parts and parts != [_as_part(what)] else []
    found = _shorter(step, gain.mean, gain.low, gain.high, basis, notes, least)
    return found._replace(whole=step) if BESIDE in job.parts else found


def _meant(what: str, parts: Sequence[str]) -> list[str]:
    """The part that is called so; else those in which it is not told apart from others."""
    name = _as_part(what)
    return [name] if name in parts else [part for part in parts if name in part.split("|")]


def _as_part(shown: str) -> str:
    """ "input|host" of "input or host", as tables have it."""
    return shown.replace("Python gc", "gc").replace(" or ", "|").replace(" ", "_")


def _as_named(known: Accounts, serving: Served, what: str) -> Prediction | None:
    """What the report says that it would give, where no replay tells: of a slow link, and of a rank that
    steps on its own. None: it names nothing of that kind."""
    training = {known.accounts[number].rank for number in known.concerned}
    found = findings_of(known, serving, Value(None, "examples/s"))
    for one in [*found.named, *found.minor]:
        is_not_replayed = one.kind == "slow_link" or (what in training and not known.meet)
        if one.rank == what and one.gain is not None and is_not_replayed:
            return Prediction(Range(one.gain.without, one.gain.low, one.gain.high), one.evidence, [])
    return None


def _why_not(gathered: Gathered, serving: Served) -> str:
    if gathered.mode == "asynchronous":
        return texts.NO_REPLAY if serving.servers else texts.INDEPENDENT
    return gathered.barriers.why_not or texts.NO_STEPS


def _shorter(
    step: float, gain: float, low: float, high: float, basis: list[str], notes: list[str], least: float = 0.0
) -> Prediction:
    """Steps that are so much shorter, and never longer; something of them is left. least: seconds that others
    need anyway."""
    gain, low, high = (max(0.0, seconds) for seconds in (gain, low, high))
    if gain > MOST_GAINED * step:
        return Prediction(None, basis, [texts.NOTHING_LEFT, *notes])
    best, worst = of_another_run(step - gain, step - high, step - low, step)
    best = max(best, (1 - MOST_GAINED) * step, (1 - OF_ANOTHER_RUN) * least)
    return Prediction(Range(step - gain, min(step - gain, best), worst), basis, notes)


def _server(serving: Served, what: str) -> Prediction:
    cause = next((cause for cause in serving.causes if what in cause.ranks), None)
    if cause is None or serving.cycle is None:
        return unknown(texts.not_a_cause(what))
    basis = [texts.demands([use.rank], [use.demand.low]) for use in [cause.use] if use.demand is not None]
    return _shorter(serving.cycle, cause.cost, *cause.bounds, basis, [texts.BOUNDS])
