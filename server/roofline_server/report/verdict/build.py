"""Makes the verdict of a job: what holds it back, what that costs, and the accounts of its ranks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.verdict import AccountPart, Finding, LeftOut, RankAccount, Verdict

from ...correlate.steps import OWN
from ...model.account.account import Account
from ...model.account.synchronous_job import played_columns
from ...model.columns import known_mean
from ...model.evidence import NS, RankEvidence
from ...model.steady import LeftOut as Left
from ...model.times import quantiles, times
from ...records import ABSENT, Table, rows
from ...sentences import reasons
from ...sentences import verdict as texts
from ...store.view import JobView
from ..evidence.gathering import Gathered
from ..evidence.shared_batch import shared_batch
from ..evidence.tables import picked, where, within
from ..evidence.training import contributing_ranks
from ..evidence.unwatched import unwatched_of
from ..questions import Steps
from ..ranks.members import in_order
from .accounts import Accounts, accounts_of, rate_of
from .findings import Findings, findings_of, next_gain_of, seconds_a_step
from .servers import served

MUCH_BESIDE = 0.05  # of the time of a rank
# Reasons for low confidence that a healthy job's headline gives, too.
DOUBTS = ("waits_in_kernels", "gpus_in_turns", "ranks_unseen", "replay_differs")
LITTLE = 0.05  # of the time of all ranks: that of the last batches of a job that runs, too
MEASURED, ESTIMATED = Provenance.MEASURED, Provenance.ESTIMATED


def verdict(
    view: JobView,
    gathered: Gathered,
    state: str,
    exits: Mapping[str, str],
    roofline: list[str],
    quality: list[str],
    left_out: Sequence[Left],
    steps: Steps,
) -> Verdict:
    """state: of the job; exits: rank -> how it ended, as far as is known; roofline: a line a role; quality:
    what makes numbers poor; left_out: steps that these are not of; steps: that were asked for."""
    known = accounts_of(view, gathered)
    training = contributing_ranks(gathered.evidence)
    whole = times(list(training.values()), Scope.ROLE) if training else {}
    rate = whole.get("examples_per_second", rate_of([]))
    findings = findings_of(known, served(view, gathered), rate)
    absent = Value(None, "s", reason=reasons.NO_STEPS_SEEN)
    lasted = np.concatenate([known.accounts[n].duration for n in training]) if training else np.zeros(0)
    if any(known.signals[number].barrier == "join" for number in training):
        whole |= quantiles(np.sort(lasted))  # their accounts have the wait for the others, too
    kind = "bottleneck" if findings.named else known.conclusion.kind
    gain = next_gain_of(known) if kind == "healthy" else None
    return Verdict(
        state=state,
        headline=_headline(findings, known, steps),
        kind=kind,
        bottleneck=findings.named[0] if findings.named else None,
        also=[*findings.named[1:], *findings.minor, *findings.passing, *([gain] if gain else [])],
        examples_per_second=rate,
        step_median=whole.get("step_time_median", absent),
        step_mean=seconds_a_step(float(lasted.mean()) if len(lasted) else None, MEASURED),
        step_p95=whole.get("step_time_p95", absent),
        left_out=[LeftOut(*one[:2], seconds_a_step(one.seconds, MEASURED)) for one in left_out],
        accounts=_rank_accounts(view, gathered, known, exits),
        roofline=roofline,
        quality=[
            *quality,
            *_rate_notes(rate),
            *_shared_batch_notes(view, training),
            *_seldom_there_notes(gathered),
            *_beside_notes(known, findings.named),
        ],
        examples_per_second_of_run=rate_of_run(view, training, steps),
    )


def _headline(found: Findings, known: Accounts, steps: Steps) -> str:
    """With the reasons for low confidence where nothing is named: a finding has its own. Of the newest steps
    there are always few."""
    low_confidence = [
        why
        for why in known.conclusion.why
        if why in DOUBTS or (why == "few_steps" and steps.since_ns is None)
    ]
    if found.named or known.conclusion.kind == "unknown" or not low_confidence:
        return found.headline
    return texts.with_low_confidence(found.headline, low_confidence, known.conclusion.steps)


def _rate_notes(rate: Value) -> list[str]:
    """Examples of some ranks that are reported are not those of all."""
    return [texts.rate_of_some(rate.reason)] if rate.value is not None and rate.reason else []


def _shared_batch_notes(view: JobView, training: Iterable[int]) -> list[str]:
    """Ranks of which each counts the examples of the batch that they share."""
    shared = shared_batch(view, training)
    return [texts.shared_batch(*shared)] if shared.ranks > 1 else []


def _seldom_there_notes(gathered: Gathered) -> list[str]:
    """Ranks that took part in too few steps to be compared with the others."""
    barriers = gathered.barriers
    if not len(barriers.grid.at):
        return []
    played = set(played_columns(barriers.grid))
    absent = [gathered.evidence[n].key for c, n in enumerate(barriers.ranks) if c not in played]
    return [texts.seldom_there(absent)] if absent else []


def _beside_notes(known: Accounts, named: Sequence[Finding]) -> list[str]:
    """Time between steps whose ends a training marks: it lowers the rate, and is in no account."""
    much = {n: share for n, share in known.share_beside.items() if share > MUCH_BESIDE}
    if not much or any(finding.kind == "between" for finding in named):
        return []
    most = max(much, key=lambda number: much[number])
    return [texts.beside([known.accounts[n].rank for n in much], much[most], known.beside[most])]


def rate_of_run(view: JobView, training: Collection[int], steps: Steps) -> Value | None:
    """examples/s of these ranks from their first step to their last, whatever is left out of other numbers,
    as far as steps are asked for. None: how many examples they had is not known of all steps, or only every
    so many steps are known, as of a log that prints every tenth, or of which a rank was not watched."""
    every = view.steps.get("steps", {})
    needed = ("rank", "window", "step", "begin_ns", "end_ns", "examples")
    own = within(where({name: every[name] for name in needed if name in every}, "window", OWN), steps)
    own = picked(own, np.isin(own["rank"], list(training))) if rows(own) else own
    if not rows(own) or (own["examples"] == ABSENT).any() or _has_every_nth(own):
        return None
    begin_ns, end_ns = int(own["begin_ns"].min()), int(own["end_ns"].max())
    seconds = (end_ns - begin_ns) / NS
    holes = [hole for number, hole in unwatched_of(view).items() if number in training]
    unwatched = sum(
        int((np.clip(h[:, 1], begin_ns, end_ns) - np.clip(h[:, 0], begin_ns, end_ns)).sum()) for h in holes
    )
    if unwatched > LITTLE * seconds * NS * len(training):
        return None
    rate = float(own["examples"].sum()) / seconds if seconds > 0 else None
    return value(rate, "examples/s", Provenance.REPORTED, Scope.ROLE)


def _has_every_nth(own: Table) -> bool:
    """Whether most steps have a number more than one above that of the rank's step before, and began later
    than that ended by their own length."""
    at = np.lexsort((own["end_ns"], own["rank"]))
    rank, step, begin_ns, end_ns = (own[name][at] for name in ("rank", "step", "begin_ns", "end_ns"))
    late = begin_ns[1:] - end_ns[:-1] >= (end_ns - begin_ns)[1:]
    apart = ((np.diff(step) > 1) & late)[np.diff(rank) == 0]
    return len(apart) > 0 and float(apart.mean()) > 0.5


# -- accounts -----------------------------------------------------------------------------------------------


def _rank_accounts(
    view: JobView, gathered: Gathered, known: Accounts, exits: Mapping[str, str]
) -> list[RankAccount]:
    """Ranks that are named first, then by what they took themselves; then those without steps."""
    named: dict[str, int] = {}
    for place, cause in enumerate([known.conclusion.bottleneck, *known.conclusion.also]):
        for rank in cause.ranks if cause else ():
            named.setdefault(rank, place)

    def order(number: int) -> tuple[float, float]:
        one = known.accounts.get(number)
        key = gathered.evidence[number].key
        own = float(one.own.mean()) if one is not None and len(one.duration) else -1.0
        return (named.get(key, len(named) + 1), -own)

    numbers = sorted(in_order(view, gathered.evidence), key=order)
    return [
        _rank_account(gathered.evidence[n], known.accounts.get(n), exits.get(gathered.evidence[n].key, ""))
        for n in numbers
    ]


def _rank_account(rank: RankEvidence, one: Account | None, exit_: str) -> RankAccount:
    parts, roof = [], Value(None, "s", reason=reasons.NO_KERNELS)
    mean = float(one.duration.mean()) if one is not None and len(one.duration) else None
    if one is not None and mean:
        for part in one.parts:
            taken = one.mean(part)
            origin = one.provenance[part]
            parts.append(
                AccountPart(
                    part, seconds_a_step(taken, origin), value(taken / mean, "1", origin, Scope.PROCESS)
                )
            )
        if one.roof is not None:
            roof = value(known_mean(one.roof), "s", ESTIMATED, Scope.PROCESS, missing=reasons.NO_KERNELS)
    return RankAccount(
        rank=rank.key,
        role=rank.role,
        host=rank.host,
        steps=len(one.duration) if one is not None else 0,
        step=seconds_a_step(mean, MEASURED),
        parts=parts,
        roof=roof,
        cores=_rate(rank.cpu_ns, "core", 1 / NS),
        received=_rate(rank.received, "byte/s"),
        sent=_rate(rank.sent, "byte/s"),
        exit=exit_,
    )


def _rate(counter: object, unit: str, scale: float = 1.0) -> Value:
    total, seconds = getattr(counter, "total", None), getattr(counter, "seconds", 0.0)
    rate = total / seconds * scale if total is not None and seconds > 0 else None
    return value(rate, unit, MEASURED, Scope.PROCESS)
