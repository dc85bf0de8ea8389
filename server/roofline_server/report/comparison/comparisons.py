"""Two jobs side by side: settings, throughput, parts of the account, places under the roof."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.comparison import Change, Comparison, SettingChange
from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Provenance, Scope, Value, value

from ...model.account.account import Account
from ...model.account.comparison import (
    Difference,
    StepsOfRanks,
    comparable_parts,
    difference,
    part_times,
    ratio,
    step_times,
)
from ...model.account.ledger import place
from ...model.barrier import align
from ...model.evidence import RankEvidence
from ...records import Floats
from ...sentences import comparisons as texts
from ...sentences import reasons
from ...sentences.trajectories import STILL_RUNS, failed, of_jobs
from ...sentences.what_if import instead
from ...sentences.wording import number
from ...store.view import JobView
from ..ceilings.nodes import hosts
from ..evidence.gathering import check_seen, gather
from ..evidence.training import contributing_ranks
from ..questions import STEADY_STEPS, Steps
from ..ranks.exits import JobEnd, rank_ends, state_of
from ..ranks.members import is_running
from ..roofline.groups import PointGroup
from ..roofline.rooflines import of_roles
from ..verdict.accounts import accounts_of, rate_of

MEASURED, ESTIMATED = Provenance.MEASURED, Provenance.ESTIMATED
# Facts that say how a run was watched, or that change all the time: no settings.
# Tags by Slurm and Kubernetes that no two jobs share.
OF_ONE_JOB = (
    "slurm.job",
    "slurm.array",
    "slurm.restarts",
    "slurm.state",
    "slurm.exit",
    "launcher.exit",
    "otel.traceparent",
    "kubernetes.job",
)
NOT_SETTINGS = ("cost.", "rank.", "source.", "steps.", "horovod.timeline", "tag.")
NAMED = 3  # parts in the headline
SMALL = 0.01  # of the step: less is not in the headline


class _Side(NamedTuple):
    view: JobView
    end: JobEnd
    is_running: bool
    evidence: dict[int, RankEvidence]
    mode: str
    accounts: list[Account]
    steps: StepsOfRanks
    examples_per_second: Value
    points: list[tuple[PointGroup, RoofPoint]]


def compare(
    first: JobView, second: JobView, steps: Steps = STEADY_STEPS, now_ns: int | None = None
) -> Comparison:
    """The answer to GetComparison. Raises BadRequest for a range that cannot be, and UnknownSteps."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    sides = _side(first, steps, now_ns), _side(second, steps, now_ns)
    settings = _settings(*sides)
    changes, notes = _changes(*sides)
    if not settings:
        notes = [texts.SAME_SETTINGS, *notes]
    return Comparison(
        first=first.job,
        second=second.job,
        headline=_headline(*sides, changes),
        settings=[*_states(*sides), *settings],
        changes=changes,
        notes=[*dict.fromkeys(note for side in sides for note in _unfinished(side)), *notes],
    )


def _side(view: JobView, steps: Steps, now_ns: int) -> _Side:
    check_seen(view, steps)
    gathered = gather(view, steps)
    training = contributing_ranks(gathered.evidence)
    accounts = accounts_of(view, gathered).accounts
    rate = rate_of(list(training.values()))
    points = of_roles(view, gathered.evidence)
    own = [accounts[n] for n in training]
    each = [rank.steps for rank in training.values()]
    grid = align(each) if gathered.mode == "synchronous" and training else None
    steps_of_ranks = StepsOfRanks(own, [one.end_ns for one in each], grid)
    end = state_of(view, rank_ends(view, now_ns))
    running = is_running(view, now_ns)
    return _Side(view, end, running, gathered.evidence, gathered.mode, own, steps_of_ranks, rate, points)


# -- how they ended -----------------------------------------------------------------------------------------


def _states(first: _Side, second: _Side) -> list[SettingChange]:
    """Where one is not over, or did not end well: how much is known of the ends of others says nothing."""
    if first.end.words == second.end.words or not any(_unfinished(side) for side in (first, second)):
        return []
    return [SettingChange("state", first.end.words, second.end.words)]


def _unfinished(side: _Side) -> list[str]:
    """Notes on a job whose numbers are not those of a whole run."""
    notes = [STILL_RUNS] if side.is_running else []
    if side.end.has_failed:
        steps = max((len(one.steps.step) for one in contributing_ranks(side.evidence).values()), default=0)
        notes.append(failed(side.end.words, steps))
    return [of_jobs([side.view.job], note) for note in notes]


# -- settings -----------------------------------------------------------------------------------------------


def _settings(first: _Side, second: _Side) -> list[SettingChange]:
    one, other = _facts(first), _facts(second)
    return [
        SettingChange(name, one.get(name, ""), other.get(name, ""))
        for name in sorted({*one, *other})
        if one.get(name, "") != other.get(name, "")
    ]


def _facts(side: _Side) -> dict[str, str]:
    """By name; what ranks do not share, all of it."""
    found: dict[str, set[str]] = {}
    for facts in side.view.facts.values():
        for name, text in facts.items():
            if not name.startswith(NOT_SETTINGS):
                found.setdefault(name, set()).add(text)
    for name, text in side.view.tags.items():
        if name in OF_ONE_JOB:
            continue
        found[f"tag {name}"] = {text}
    for role, count in Counter(rank.role for rank in side.evidence.values()).items():
        found[f"ranks {role}"] = {str(count)}
    if (batch := _examples(side)) is not None:
        found["examples a rank and step"] = {number(batch)}
    found["nodes"] = set(hosts(side.view))
    found["CPU"] = {machine.cpu_model for machine in side.view.machines.values() if machine.cpu_model}
    return {name: ", ".join(sorted(texts)) for name, texts in found.items()}


def _examples(side: _Side) -> float | None:
    """The median over the steps of the ranks that train; None: not known."""
    every = [rank.steps.examples for rank in contributing_ranks(side.evidence).values()]
    known = [examples[examples > 0] for examples in every]
    return float(np.median(np.concatenate(known))) if any(map(len, known)) else None


# -- numbers ------------------------------------------------------------------------------------------------


def _changes(first: _Side, second: _Side) -> tuple[list[Change], list[str]]:
    notes = []
    changes = []
    if first.mode != second.mode:
        notes.append(texts.other_mode(first.mode, second.mode))
    if first.accounts and second.accounts:
        changes = [*_speed(first, second), *_step(first, second)]
        parts, sums = _parts(first.steps, second.steps)
        changes += parts
        if sums:
            notes.append(texts.added_up(sums))
        notes.append(texts.ONE_RUN_EACH)
    return changes + _positions(first, second), notes


def _speed(first: _Side, second: _Side) -> list[Change]:
    """As the times of steps vary: how many examples they have does not vary with them."""
    rates = first.examples_per_second, second.examples_per_second
    if not (rates[0].value and rates[1].value):
        return []
    by_time = ratio(step_times(first.steps), step_times(second.steps), inverse=True)
    change = rates[1].value / rates[0].value
    low = high = None
    if by_time.low is not None and by_time.high is not None:
        low, high = (change * end / by_time.change for end in (by_time.low, by_time.high))
    noise = low is None or high is None or low <= 1 <= high
    return [Change("throughput", "", *rates, _number(change, "1"), low, high, noise)]


def _step(first: _Side, second: _Side) -> list[Change]:
    return [_moved("step", "", ratio(step_times(first.steps), step_times(second.steps)), "s", "1")]


def _parts(first: StepsOfRanks, second: StepsOfRanks) -> tuple[list[Change], list[str]]:
    one, other, sums = comparable_parts(part_times(first), part_times(second))
    sizes = [len(step_times(side)) for side in (first, second)]
    found = []
    for name in sorted({*one, *other}, key=place):
        columns = [side.get(name, _nothing(size)) for side, size in zip((one, other), sizes, strict=True)]
        found.append(_moved("part", name, difference(*columns), "s", "s"))
    return found, sums


def _nothing(steps: int) -> Floats:
    return np.zeros(steps)


def _positions(first: _Side, second: _Side) -> list[Change]:
    """Where each role lies under its roof; how much that varies by step is not known."""
    one, other = _places(first), _places(second)
    found = []
    for role in (name for name in one if name in other):
        (intensity, share), (intensity2, share2) = one[role], other[role]
        if intensity.value and intensity2.value:
            change = _number(intensity2.value / intensity.value, "1")
            found.append(Change("intensity", role, intensity, intensity2, change, None, None, False))
        if share.value is not None and share2.value is not None:
            change = _number(share2.value - share.value, "1")
            found.append(Change("roof_share", role, share, share2, change, None, None, False))
    return found


def _places(side: _Side) -> dict[str, tuple[Value, Value]]:
    """Role -> (intensity, share of its part of the roof); of a role on several hosts on the first."""
    found: dict[str, tuple[Value, Value]] = {}
    for group, point in side.points:
        headroom = point.headroom.value
        share = value(
            1 / headroom if headroom else None,
            "1",
            point.headroom.provenance or ESTIMATED,
            Scope.ROLE,
            missing=point.headroom.reason or reasons.NO_KERNELS,
        )
        found.setdefault(next(iter(group.ranks.values())).role, (point.intensity, share))
    return found


def _moved(kind: str, subject: str, moved: Difference, unit: str, unit_of_change: str) -> Change:
    return Change(
        kind,
        subject,
        value(moved.first, unit, MEASURED, Scope.ROLE),
        value(moved.second, unit, MEASURED, Scope.ROLE),
        _number(moved.change, unit_of_change),
        moved.low,
        moved.high,
        moved.within_noise,
    )


def _number(amount: float, unit: str) -> Value:
    return value(amount, unit, ESTIMATED, Scope.ROLE)


def _headline(first: _Side, second: _Side, changes: Sequence[Change]) -> str:
    speed = next((one for one in changes if one.kind == "throughput"), None)
    step = next((one for one in changes if one.kind == "step"), None)
    if step is None:
        lacking = first if not first.accounts else second
        return texts.NO_STEPS.format(lacking.view.job)
    jobs = first.view.job, second.view.job
    if speed is not None:
        words = texts.faster(*jobs, speed.change.value or 0.0, speed.low, speed.high, speed.within_noise)
        if sizes := _other_sizes(first, second):
            sure = step.low is not None, step.within_noise
            words += texts.with_other_sizes(sizes, step.change.value or 0.0, *sure)
    elif first.mode != second.mode or len(first.accounts) != len(second.accounts):
        words = texts.longer(*jobs, step.change.value or 0.0, step.low, step.high, step.within_noise)
    else:
        # Nobody said how many examples a step has: a step is taken for as much work in both.
        inverse = [1 / end if end else None for end in (step.change.value, step.high, step.low)]
        words = texts.faster(*jobs, inverse[0] or 0.0, inverse[1], inverse[2], step.within_noise)
    least = SMALL * max(step.first.value or 0.0, step.second.value or 0.0)
    longer = 0.0 if step.within_noise else (step.second.value or 0.0) - (step.first.value or 0.0)
    return words + texts.mostly(*_what_changed(changes, least, longer))


def _other_sizes(first: _Side, second: _Side) -> list[str]:
    """What a job has more of, or less, so that it does other work in a step of the same length."""
    ranks, before = len(second.accounts), len(first.accounts)
    found = [instead(ranks, before, "ranks")] if ranks != before else []
    batch, earlier = _examples(second), _examples(first)
    if batch and earlier and batch != earlier:
        found.append(instead(batch, earlier, "examples a rank and step"))
    return found


def _what_changed(
    changes: Sequence[Change], least: float, longer: float
) -> tuple[list[tuple[str, float]], tuple[str, float] | None]:
    """The parts that surely changed, most first; and the part that changed more than these, but may have done
    so by chance: without it small changes would seem to explain a large one. least: s a step that is worth a
    word; longer: s that the steps themselves are longer, which parts that became shorter do not explain; 0:
    they may be as long."""
    parts = [one for one in changes if one.kind == "part" and abs(one.change.value or 0.0) >= least]
    parts = [one for one in parts if not longer or (one.change.value or 0.0) * longer > 0]
    parts.sort(key=lambda one: -abs(one.change.value or 0.0))
    sure = [(one.subject, one.change.value or 0.0) for one in parts if not one.within_noise][:NAMED]
    if not longer or not parts or not parts[0].within_noise:
        return sure, None
    return sure, (parts[0].subject, parts[0].change.value or 0.0)
