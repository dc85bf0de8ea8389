"""What costs a job time: causes, servers and links as findings, the most expensive first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.verdict import Finding, Gain

from ...model.account.signals import RankSignals
from ...model.account.synchronous_job import BESIDE, LACKING
from ...model.causes.between_cost import OF_ALL
from ...model.causes.cause import LEAST_GAIN, Cause
from ...model.causes.conclusion import Conclusion
from ...model.causes.kinds import stretched_phases
from ...model.causes.links import step_with
from ...model.causes.next_gain import next_gain
from ...model.causes.server_causes import ServerCause
from ...model.columns import known_mean
from ...model.intervals import of_another_run, of_changed_run
from ...sentences import reasons
from ...sentences import verdict as texts
from ...store.view import JobView
from ..evidence.gathering import Gathered
from ..evidence.training import contributing_ranks
from . import links
from .accounts import Accounts, accounts_of, rate_of
from .servers import Served, evidence_of

FEW_STRETCHES = 3  # between steps: of fewer nobody knows how often there will be more
MEASURED, ESTIMATED = Provenance.MEASURED, Provenance.ESTIMATED


class Findings(NamedTuple):
    """named: the most expensive first; minor: what costs some ranks much, but the job hardly anything;
    passing: what was seen in only part of the run."""

    headline: str
    named: list[Finding]
    minor: list[Finding]
    passing: list[Finding]


def findings(view: JobView, gathered: Gathered, servers: Served) -> Findings:
    """What costs a job time."""
    rate = rate_of(list(contributing_ranks(gathered.evidence).values()))
    return findings_of(accounts_of(view, gathered), servers, rate)


def findings_of(known: Accounts, servers: Served, rate: Value) -> Findings:
    conclusion = known.conclusion
    causes = [conclusion.bottleneck, *conclusion.also] if conclusion.bottleneck else conclusion.also
    slow = _link_findings(known, rate)
    if slow:  # that is why the communication takes long
        causes = [cause for cause in causes if cause.part != "transfer"]
    between = _between_findings(known, rate)
    if between:  # that is what they do between steps
        causes = [cause for cause in causes if cause.part != BESIDE]
    lasting = [cause for cause in causes if cause.lasting]
    named = [*slow, *(_cause_finding(one, conclusion, known, rate) for one in lasting if not one.is_minor)]
    minor = [_cause_finding(one, conclusion, known, rate) for one in lasting if one.is_minor]
    if (cycle := servers.cycle) is not None:
        named += [_server_finding(cause, cycle, known, rate) for cause in servers.causes]
    named += between or _beside_findings(known, rate)
    # By seconds a step: shares of breaks are of all the time, those of the others of the steps alone.
    named.sort(key=lambda finding: -(finding.cost.value or 0.0))
    passing = [_cause_finding(cause, conclusion, known, rate) for cause in causes if not cause.lasting]
    headline = named[0].sentence if named else _headline(conclusion, known)
    return Findings(headline, named, minor, passing)


def _server_finding(cause: ServerCause, step: float, known: Accounts, rate: Value) -> Finding:
    """step: seconds from step to step of a worker, of which its costs are."""
    bounds = max(0.0, step - cause.bounds.high), step - cause.bounds.low
    unsure = "few_steps" in known.conclusion.why
    gain = _gain(step, max(0.0, step - cause.cost), *bounds)
    return _finding(
        cause.kind,
        cause.ranks,
        cause.host,
        cost=cause.cost,
        gain=gain,
        rate=_rate_with(gain, rate, 0.0),  # a cycle has all of a worker's time
        low_confidence=["few_steps"] if unsure else [],
        steps=known.conclusion.steps,
        evidence=evidence_of(cause),
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
        low_confidence = ["few_steps"] if "few_steps" in known.conclusion.why else []
        found.append(
            _finding(
                "slow_link",
                [link.rank],
                link.host,
                cost=step - without,
                gain=gain,
                rate=_rate_with(gain, rate, known.most_beside),
                low_confidence=low_confidence,
                steps=known.conclusion.steps,
                evidence=links.evidence_of(link, step),
            )
        )
    return found


def _between_findings(known: Accounts, rate: Value) -> list[Finding]:
    """Of what ranks do between their steps, spread over all steps. Most of those in which others wait for it
    are left out of the rate and of the accounts."""
    between = known.between_cost
    if between is None or not known.step > 0:
        return []
    inside = between.inside * between.cost
    without = known.step - inside
    step = without + between.cost
    if between.cost < LEAST_GAIN * step or not without > 0:
        return []
    accounts = [known.accounts[known.concerned[place]] for place in between.places]
    ranks, hosts = [one.rank for one in accounts], {one.host for one in accounts}
    kind = texts.kind_of_break(between.kind, alone=bool(ranks))
    gain = _gain_of_break(step, without, between.error)
    faster = _rate_with(Gain(known.step, without, without, without), rate, known.most_beside)
    return [
        _finding(
            kind,
            ranks,
            hosts.pop() if len(hosts) == 1 else "",
            cost=between.cost,
            origin=MEASURED,
            gain=gain,
            rate=faster if inside else rate,
            low_confidence=["few_stretches"] if between.kinds[0].stretches < FEW_STRETCHES else [],
            evidence=[texts.between_steps(between.kinds, len(ranks))],
            only=known.only,
        )
    ]


def _beside_findings(known: Accounts, rate: Value) -> list[Finding]:
    """Of time between steps of which a training marks begin and end, where all ranks spend much of theirs so:
    nobody sees what they do."""
    shares = known.share_beside
    if min(shares.values(), default=0.0) < OF_ALL:
        return []
    most = max(shares, key=lambda number: shares[number])
    seconds, ranks = known.beside[most], [known.accounts[number].rank for number in shares]
    step = seconds / shares[most]
    gain = _gain_of_break(step, step - seconds, 0.0)
    return [
        _finding(
            "between",
            [],
            "",
            cost=seconds,
            origin=MEASURED,
            gain=gain,
            rate=_rate_with(gain, rate, 0.0),
            low_confidence=["few_stretches"] if _is_of_few(known.signals[most]) else [],
            evidence=[texts.beside(ranks, shares[most], seconds)],
            only=known.only,
        )
    ]


def _is_of_few(signals: RankSignals) -> bool:
    """Whether most time between steps is in fewer stretches than tell how often there will be more."""
    gaps = (signals.begin_ns[1:] - signals.end_ns[:-1])[np.diff(signals.step) == 1].clip(min=0)
    longest = np.sort(gaps)[::-1][: FEW_STRETCHES - 1]
    return bool(2 * longest.sum() >= gaps.sum())


def _gain(step: float, without: float, low: float, high: float) -> Gain:
    return Gain(step, without, *of_another_run(without, low, high, step))


def _gain_of_break(step: float, without: float, error: float) -> Gain:
    """Steps without what lies between them, which were measured apart from it."""
    low, high = of_changed_run(without, without - error, without + error, without)
    return Gain(step, without, low, min(step, high))


def _rate_with(gain: Gain, rate: Value, beside: float) -> Value:
    """examples/s with steps that are so much shorter. beside: seconds between steps, which stay."""
    new = gain.without + beside
    faster = None if rate.value is None or not gain.without > 0 else rate.value * (gain.step + beside) / new
    return value(faster, "examples/s", ESTIMATED, Scope.ROLE, missing=rate.reason or reasons.NO_EXAMPLES)


def _cause_finding(cause: Cause, found: Conclusion, known: Accounts, rate: Value) -> Finding:
    step, bounds = cause.step, cause.gain
    gain = _gain(step, step - bounds.mean, step - bounds.high, step - bounds.low)
    of_all = known.of_all_steps(gain, cause.ranks)
    return _finding(
        cause.kind,
        cause.ranks,
        cause.host,
        cost=of_all.step - of_all.without,
        gain=of_all,
        rate=_rate_of_cause(cause, gain, rate, known),
        steps=found.steps,
        low_confidence=[*found.why] + ([] if cause.lasting or "passing" in found.why else ["passing"]),
        evidence=_evidence(cause, known),
        only=known.only,
    )


def _finding(
    kind: str,
    ranks: Sequence[str],
    host: str,
    *,
    cost: float,
    gain: Gain,
    rate: Value,
    evidence: list[str],
    low_confidence: Sequence[str] = (),
    steps: int = 0,
    origin: Provenance = ESTIMATED,
    only: Sequence[str] = (),
) -> Finding:
    """ranks: whose it is; none: of all. cost: seconds a step; rate: with the gain; low_confidence: names of
    the reasons for it; steps: that it rests on; only: the rank of a job that has one."""
    return Finding(
        kind=kind,
        rank=", ".join(ranks),
        host=host,
        sentence=texts.finding(kind, ranks or only),
        cost=seconds_a_step(cost, origin),
        share=value(cost / gain.step if gain.step > 0 else 0.0, "1", origin, Scope.ROLE),
        gain=gain,
        rate=rate,
        confidence="low" if low_confidence else "high",
        why=texts.why_low(low_confidence, steps),
        evidence=evidence,
        tries=[],
    )


def _rate_of_cause(cause: Cause, gain: Gain, rate: Value, known: Accounts) -> Value:
    if cause.kind == "more_work":  # steps become shorter because less is done in them
        return value(None, "examples/s", ESTIMATED, Scope.ROLE, missing=reasons.LESS_WORK)
    # A step of a replay with what lies between steps has all of the time.
    step = gain.step if known.conclusion.whole else known.mean_step or gain.step
    left = step * known.share_left(gain.step, gain.without, cause.ranks)
    beside = 0.0 if known.conclusion.whole else known.most_beside
    return _rate_with(gain._replace(step=step, without=left), rate, beside)


def _evidence(cause: Cause, known: Accounts) -> list[str]:
    largest = sorted(cause.more.items(), key=lambda item: -item[1])
    if not cause.ranks:
        return [
            texts.on_every_rank(part, seconds, len(known.concerned))
            for part, seconds in largest[:2]
            if seconds > 0
        ]
    notable = [(part, seconds) for part, seconds in largest if seconds > 0.1 * cause.gain.mean]
    others = len(known.concerned) - len(cause.ranks)
    found = [texts.more_than_others(part, seconds, others) for part, seconds in notable[:3]]
    if cause.amid > 0.1 * cause.gain.mean:
        part = "contention" if cause.part == LACKING else cause.part
        found.append(texts.amid_communication(part, cause.amid))
    if cause.kind == "slower" and (phases := _stretched(cause, known)) is not None:
        found.append(texts.stretched(phases, others))
    if cause.work is not None and cause.kind in ("more_work", "slower", "host"):
        found.append(texts.work(cause.work, len(cause.ranks), others))
    if cause.kind in ("contention", "contention_own") and cause.host in known.foreign:
        found.append(texts.foreign(known.foreign[cause.host], cause.host))
    return found


def _stretched(cause: Cause, known: Accounts) -> Sequence[float] | None:
    signals = [known.signals[number] for number in known.concerned]
    found = stretched_phases([one for one in signals if one.rank in cause.ranks], signals)
    return None if found is None else found.tolist()


def next_gain_of(known: Accounts) -> Finding | None:
    """Of a healthy job the part of its steps that there is most to save of."""
    own = known.concerned
    found = next_gain([known.signals[n] for n in own], [known.accounts[n] for n in own], known.grid)
    if found is None:
        return None
    roofs = [known.accounts[n].roof for n in own if len(known.accounts[n].duration)]
    cost, share = _of_all_steps(found.gain, found.step, known)
    return Finding(
        kind=found.part,
        rank="",
        host="",
        sentence=texts.next_gain(
            found.part,
            roof_known=all(known_mean(roof) is not None for roof in roofs),
            kernels_known=any(known.signals[n].kernels is not None for n in own),
        ),
        cost=seconds_a_step(cost, ESTIMATED),
        share=value(share, "1", ESTIMATED, Scope.ROLE),
        gain=None,
        rate=Value(None, "examples/s", reason=reasons.AT_BEST),
        confidence="",
        why="",
        evidence=[],
        tries=[],
    )


def _headline(found: Conclusion, known: Accounts) -> str:
    if found.kind == "unknown" and known.unseen:
        return texts.waits_not_seen(known.unseen)
    if "waits_unseen" in found.why and found.bound_by is not None:
        return texts.asleep_or_waiting(found.bound_by.part, found.bound_by.share)
    if found.kind == "unknown" and "unattributed" in found.why and found.bound_by is not None:
        return texts.not_explained(found.bound_by.share)
    if found.kind == "unknown":
        return texts.too_few_steps(found.steps)
    bound = found.bound_by
    if found.several is not None:
        late = [(one.rank, one.part, one.more) for one in found.several.late]
        return texts.several_late(late, *_of_all_steps(found.several.gain.mean, found.step, known))
    if "uneven" in found.why and bound:
        return texts.uneven(bound.part, bound.share)
    if found.kind == "unclear":
        return texts.unclear(*_of_all_steps(found.lost, found.step, known))
    return texts.healthy(bound.part, bound.share, bound.of_roof) if bound else texts.HEALTHY


def _of_all_steps(seconds: float, step: float, known: Accounts) -> tuple[float, float]:
    """(s a step, share of the step) of all steps. seconds, step: means of those that are played again."""
    without = step - seconds
    found = known.of_all_steps(Gain(step, without, without, without), ())
    cost = found.step - found.without
    return cost, cost / found.step if found.step > 0 else 0.0


def seconds_a_step(number: float | None, origin: Provenance) -> Value:
    """None: no steps were seen."""
    return value(number, "s", origin, Scope.PROCESS, missing=reasons.NO_STEPS_SEEN)
