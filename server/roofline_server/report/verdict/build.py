"""Makes the verdict of a job: accounts of its ranks, what they add up to, and what mending would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.verdict import AccountPart, Finding, Gain, LeftOut, RankAccount, Verdict

from ...model.account import Account, account, with_waits
from ...model.cause import LEAST_GAIN, Cause
from ...model.causes import Conclusion, conclude
from ...model.columns import known_mean
from ...model.evidence import NS, RankEvidence
from ...model.intervals import of_another_run
from ...model.links import SlowLink, step_with
from ...model.replay import LACKING
from ...model.servers import ServerCause
from ...model.signals import RankSignals
from ...model.steady import LeftOut as Left
from ...model.times import times
from ...sentences import reasons
from ...sentences import verdict as texts
from ...store.view import JobView
from ..evidence import replays
from ..evidence.gathering import Gathered
from ..ranks.members import in_order
from . import links
from .foreign import full_node, node_uses
from .servers import Served, evidence_of, served
from .signals import signals_of

MEASURED, ESTIMATED = Provenance.MEASURED, Provenance.ESTIMATED


class Accounts(NamedTuple):
    """Signals and accounts of the ranks that train, by number, and what follows from them."""

    signals: dict[int, RankSignals]
    accounts: dict[int, Account]
    foreign: dict[str, float]  # host -> CPUs that other processes keep busy
    conclusion: Conclusion
    slow_links: list[SlowLink]
    meet: bool  # the ranks wait for each other in each step
    concerned: list[int]  # ranks whose steps are the job's
    unseen: str = ""  # of synchronous ranks, why it is not known when they wait for each other

    @property
    def step(self) -> float:
        """Mean, of the rank whose steps are longest: that of ranks that meet; s."""
        means = [float(one.duration.mean()) for one in self.accounts.values() if len(one.duration)]
        return max(means, default=0.0)

    @property
    def only(self) -> list[str]:
        """The rank of a job that has one: what is true of all is true of it."""
        return [self.accounts[n].rank for n in self.concerned] if len(self.concerned) == 1 else []


def accounts_of(view: JobView, gathered: Gathered) -> Accounts:
    """Of the ranks that have steps of their own."""
    signals = signals_of(view, gathered)
    accounts = {number: account(one) for number, one in signals.items()}
    barriers = gathered.barriers
    together = [number for number in barriers.ranks if number in accounts] if barriers.kind else []
    grid = None
    if len(together) == len(barriers.ranks) > 1:
        grid = barriers.grid
        divided = with_waits([accounts[number] for number in together], grid)
        accounts |= dict(zip(together, divided, strict=True))
    concerned = together if grid is not None else _training(gathered, accounts)
    uses = node_uses(view, gathered)
    foreign = {host: use.foreign for host, use in uses.items()}
    found = conclude(
        [signals[n] for n in concerned],
        [accounts[n] for n in concerned],
        grid,
        foreign,
        full_node(view, gathered, uses),
    )
    unseen = ""
    if gathered.mode == "synchronous" and len(barriers.ranks) > 1 and grid is None:
        unseen = barriers.why_not
        if found.kind == "healthy":
            found = found._replace(kind="unknown")
    if any(replays.FACT in view.facts.get(number, {}) for number in concerned):
        found = found._replace(confidence="low", why=(*found.why, "profiled"))
    slow = links.slow_links_of(view, gathered, {number: accounts[number] for number in concerned})
    meet = grid is not None or gathered.mode == "synchronous"
    return Accounts(signals, accounts, foreign, found, slow, meet, concerned, unseen)


def trainers(gathered: Gathered) -> dict[int, RankEvidence]:
    """The ranks whose steps are the job's. Those of an evaluator are not, unless nobody else has any."""
    own = {n: rank for n, rank in gathered.evidence.items() if len(rank.steps.step) and not rank.serving}
    return {n: rank for n, rank in own.items() if rank.role != "evaluator"} or own


def rate_of(ranks: Sequence[RankEvidence]) -> Value:
    """examples/s of all of them."""
    if not ranks:
        return Value(None, "examples/s", reason=reasons.NO_STEPS_SEEN)
    return times(ranks, Scope.ROLE)["examples_per_second"]


def _training(gathered: Gathered, accounts: Mapping[int, Account]) -> list[int]:
    """An evaluator, or a chief that only coordinates, is slow at nobody's cost."""
    aside = ("evaluator", "chief") if len(accounts) > 1 else ()
    return [number for number in accounts if gathered.evidence[number].role not in aside]


def verdict(
    view: JobView,
    gathered: Gathered,
    state: str,
    exits: Mapping[str, str],
    roofline: list[str],
    quality: list[str],
    left_out: Sequence[Left],
) -> Verdict:
    """state: of the job; exits: rank -> how it ended, as far as is known; roofline: a line a role; quality:
    what makes numbers poor; left_out: steps that these are not of."""
    known = accounts_of(view, gathered)
    training = trainers(gathered)
    whole = times(list(training.values()), Scope.ROLE) if training else {}
    rate = whole.get("examples_per_second", rate_of([]))
    found = _findings(known, served(view, gathered), rate)
    absent = Value(None, "s", reason=reasons.NO_STEPS_SEEN)
    steps = np.concatenate([known.accounts[n].duration for n in training]) if training else np.zeros(0)
    return Verdict(
        state=state,
        headline=found.headline,
        kind="bottleneck" if found.named else known.conclusion.kind,
        bottleneck=found.named[0] if found.named else None,
        also=[*found.named[1:], *found.doubted],
        examples_per_second=rate,
        step_median=whole.get("step_time_median", absent),
        step_mean=_seconds(float(steps.mean()) if len(steps) else None, MEASURED),
        step_p95=whole.get("step_time_p95", absent),
        left_out=[LeftOut(*one[:2], _seconds(one.seconds, MEASURED)) for one in left_out],
        accounts=_rank_accounts(view, gathered, known, exits),
        roofline=roofline,
        quality=quality,
    )


def _headline(found: Conclusion, unseen: str) -> str:
    if found.kind == "unknown" and unseen:
        return texts.waits_not_seen(unseen)
    if found.kind == "unknown" and "unattributed" in found.why and found.bound_by is not None:
        return texts.not_explained(found.bound_by.share)
    if found.kind == "unknown":
        return texts.too_few_steps(found.steps)
    bound = found.bound_by
    if "uneven" in found.why and bound:
        return texts.uneven(bound.part, bound.share)
    if found.kind == "unclear":
        return texts.unclear(found.lost, found.lost / found.step if found.step > 0 else 0.0)
    return texts.healthy(bound.part, bound.share, bound.of_roof) if bound else texts.HEALTHY


# -- findings -----------------------------------------------------------------------------------------------


class Findings(NamedTuple):
    """named: the dearest first; doubted: what was seen in a part of the run only."""

    headline: str
    named: list[Finding]
    doubted: list[Finding]


def findings(view: JobView, gathered: Gathered, servers: Served) -> Findings:
    """What costs a job time."""
    return _findings(accounts_of(view, gathered), servers, rate_of(list(trainers(gathered).values())))


def _findings(known: Accounts, servers: Served, rate: Value) -> Findings:
    found = known.conclusion
    causes = [found.bottleneck, *found.also] if found.bottleneck else found.also
    slow = _link_findings(known, rate)
    if slow:  # that is why the communication takes long
        causes = [cause for cause in causes if cause.kind != "transfer"]
    named = [*slow, *(_finding(cause, found, known, rate) for cause in causes if cause.lasting)]
    if (cycle := servers.cycle) is not None:
        named += [_server_finding(cause, cycle, "few_steps" in found.why, rate) for cause in servers.causes]
    named.sort(key=lambda finding: -(finding.share.value or 0.0))
    doubted = [_finding(cause, found, known, rate) for cause in causes if not cause.lasting]
    return Findings(named[0].sentence if named else _headline(found, known.unseen), named, doubted)


def _server_finding(cause: ServerCause, step: float, unsure: bool, rate: Value) -> Finding:
    """step: seconds from step to step of a worker, of which its costs are."""
    bounds = max(0.0, step - cause.bounds.high), step - cause.bounds.low
    gain = _gain(step, max(0.0, step - cause.cost), *bounds)
    return Finding(
        kind=cause.kind,
        rank=cause.rank,
        host=cause.host,
        sentence=texts.finding(cause.kind, [cause.rank]),
        cost=_seconds(cause.cost, ESTIMATED),
        share=value(cause.cost / step, "1", ESTIMATED, Scope.ROLE),
        gain=gain,
        rate=_rate_with(gain, rate),
        confidence="low" if unsure else "high",
        why=texts.why_low(["few_steps"] if unsure else []),
        evidence=evidence_of(cause),
        tries=[],
    )


def _link_findings(known: Accounts, rate: Value) -> list[Finding]:
    if not known.slow_links:
        return []
    training = [known.accounts[number] for number in known.concerned]
    steps = {one.rank: float(one.duration.mean()) for one in training if one.duration.any()}
    if not steps or known.conclusion.kind == "unknown":
        return []
    found = []
    for link in known.slow_links:
        together = known.meet or link.rank not in steps  # what holds a server up holds up all its workers
        step = step_with(steps, link.rank, 0.0, together)
        without, high, low = (
            step_with(steps, link.rank, share, together) for share in (link.saved, link.least, link.most)
        )
        if step - high < LEAST_GAIN * step:
            continue
        gain = _gain(step, without, low, high)
        why = ["few_steps"] if "few_steps" in known.conclusion.why else []
        found.append(
            Finding(
                kind="slow_link",
                rank=link.rank,
                host=link.host,
                sentence=texts.finding("slow_link", [link.rank]),
                cost=_seconds(step - without, ESTIMATED),
                share=value((step - without) / step, "1", ESTIMATED, Scope.ROLE),
                gain=gain,
                rate=_rate_with(gain, rate),
                confidence="low" if why else "high",
                why=texts.why_low(why),
                evidence=links.evidence_of(link, step),
                tries=[],
            )
        )
    return found


def _gain(step: float, without: float, low: float, high: float) -> Gain:
    return Gain(step, without, *of_another_run(without, low, high, step))


def _rate_with(gain: Gain, rate: Value, step: float = 0.0) -> Value:
    """examples/s with steps that are so much shorter. step: mean of those that the rate is of, s, where that
    is more than those that were played again: steps behind an evaluation of one rank are none of these."""
    beyond = max(0.0, step - gain.step)
    new = gain.without + beyond
    faster = None if rate.value is None or not gain.without > 0 else rate.value * (gain.step + beyond) / new
    return value(faster, "examples/s", ESTIMATED, Scope.ROLE, missing=rate.reason or reasons.NO_EXAMPLES)


def _finding(cause: Cause, found: Conclusion, known: Accounts, rate: Value) -> Finding:
    step, bounds = cause.step, cause.gain
    gain = _gain(step, step - bounds.mean, step - bounds.high, step - bounds.low)
    why = [*found.why] + ([] if cause.lasting or "passing" in found.why else ["passing"])
    return Finding(
        kind=cause.kind,
        rank=", ".join(cause.ranks),
        host=cause.host,
        sentence=texts.finding(cause.kind, cause.ranks or known.only),
        cost=_seconds(cause.gain.mean, ESTIMATED),
        share=value(cause.share, "1", ESTIMATED, Scope.ROLE),
        gain=gain,
        rate=_rate_with(gain, rate, known.step if known.meet else 0.0),
        confidence="low" if why else "high",
        why=texts.why_low(why),
        evidence=_evidence(cause, known),
        tries=[],
    )


def _evidence(cause: Cause, known: Accounts) -> list[str]:
    largest = sorted(cause.more.items(), key=lambda item: -item[1])
    if not cause.ranks:
        return [
            texts.on_every_rank(part, seconds, len(known.concerned))
            for part, seconds in largest[:2]
            if seconds > 0
        ]
    notable = [(part, seconds) for part, seconds in largest if seconds > 0.1 * cause.gain.mean]
    found = [texts.more_than_others(part, seconds) for part, seconds in notable[:3]]
    if cause.amid > 0.1 * cause.gain.mean:
        part = "contention" if cause.part == LACKING else cause.part
        found.append(texts.amid_communication(part, cause.amid))
    if cause.work is not None and cause.kind in ("more_work", "slower", "host"):
        found.append(texts.work(cause.work))
    if cause.kind in ("contention", "contention_own") and cause.host in known.foreign:
        found.append(texts.foreign(known.foreign[cause.host], cause.host))
    return found


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
                AccountPart(part, _seconds(taken, origin), value(taken / mean, "1", origin, Scope.PROCESS))
            )
        if one.roof is not None:
            roof = value(known_mean(one.roof), "s", ESTIMATED, Scope.PROCESS, missing=reasons.NO_KERNELS)
    return RankAccount(
        rank=rank.key,
        role=rank.role,
        host=rank.host,
        steps=len(one.duration) if one is not None else 0,
        step=_seconds(mean, MEASURED),
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


def _seconds(number: float | None, origin: Provenance) -> Value:
    return value(number, "s", origin, Scope.PROCESS, missing=reasons.NO_STEPS_SEEN)
