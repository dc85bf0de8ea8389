"""Step times and throughput."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value

from ..correlate.kernels import merge
from ..records import ABSENT, Floats, Ints
from ..sentences import origins, reasons
from .evidence import NS, RankEvidence, StepEvidence, reason_of

_MEASURED, _REPORTED = Provenance.MEASURED, Provenance.REPORTED
MUCH = 0.05  # of the steps, that nobody saw or that are left out: a rate without a word on them misleads


def union_seconds(stretches: Sequence[Ints]) -> float:
    """Length of the union of intervals, seconds. stretches: as of `StepEvidence.runs`, any number of them."""
    every = stretches[0] if len(stretches) == 1 else np.concatenate([np.zeros((0, 2), np.int64), *stretches])
    if not len(every):
        return 0.0
    if len(every) == 1:
        return max(0, int(every[0, 1] - every[0, 0])) / NS
    begin, end = every[np.argsort(every[:, 0], kind="stable")].T
    reached = np.maximum.accumulate(end)
    begin[1:] = np.maximum(begin[1:], reached[:-1])
    return float(np.maximum(end - begin, 0).sum()) / NS


def durations(steps: StepEvidence) -> Floats:
    """Step times, seconds."""
    return (steps.end_ns - steps.begin_ns) / NS


def beside(steps: StepEvidence) -> float:
    """Seconds a step, the mean, that lie between two steps in a row and are in none: those between the end
    and the next begin where a training marks both."""
    if not len(steps.step):
        return 0.0
    lying = union_seconds([steps.runs]) - float(durations(steps).sum())
    return lying / len(steps.step) if lying * NS > 0.5 else 0.0  # times are whole ns: less is only rounding


def times(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    missing = reason_of(ranks, "steps", reasons.NO_STEP_MARKS)
    # Sorted once for all its quantiles: numpy sorts faster than it selects.
    times = np.sort(np.concatenate([durations(r.steps) for r in ranks]))
    count = len(times)
    note = origins.WORKERS_WINDOWS if any(r.serving for r in ranks) and count else ""

    return {
        "steps": value(count, "1", _MEASURED, scope, reason=note if count else missing),
        **quantiles(times, scope, note, missing),
        "examples_per_second": _throughput(ranks, scope, missing),
    }


def quantiles(
    ordered: Floats, scope: Scope = Scope.ROLE, note: str = "", missing: str = ""
) -> dict[str, Value]:
    """Quantiles of sorted step times, seconds. missing: why there are none."""

    def of_times(number: float | None) -> Value:
        return value(number, "s", _MEASURED, scope, reason=note, missing=missing)

    count = len(ordered)
    return {
        "step_time_median": of_times(_median(ordered) if count else None),
        "step_time_p95": of_times(_quantile(ordered, 0.95) if count else None),
    }


def _median(ordered: Floats) -> float:
    middle = len(ordered) // 2
    return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _quantile(ordered: Floats, share: float) -> float:
    """Of sorted numbers, between the two that are nearest (definition 7 of Hyndman and Fan, 1996)."""
    at = share * (len(ordered) - 1)
    below = int(at)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    part = at - below
    # From the nearer of the two, so that nothing is lost to rounding.
    return float(low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part))


def _with_examples(steps: StepEvidence) -> StepEvidence:
    """Those whose number of examples was reported: nearly always all."""
    known = steps.examples != ABSENT
    return steps if np.count_nonzero(known) == len(known) else steps.some(known)


def _throughput(ranks: Sequence[RankEvidence], scope: Scope, missing: str) -> Value:
    working = [r for r in ranks if not r.serving and len(r.steps.step)]
    if not working:
        serves = any(r.serving for r in ranks)
        return Value(None, "examples/s", reason=reasons.SERVES if serves else missing)
    # Only over the steps of which examples were reported, and the time of these.
    known = [_with_examples(rank.steps) for rank in working]
    some = sum(1 for steps in known if len(steps.step))
    if not some:
        why = reason_of(ranks, "examples", reasons.NO_EXAMPLES)
        return Value(None, "examples/s", reason=why)
    why = origins.of_ranks_with_examples(some, len(working)) if some < len(working) else ""
    every = sum(len(r.steps.step) for r in working)
    examples = 0.0
    if all(rank.together for rank in working):
        unseen = _unseen(working, known)
        examples = sum(float(known[at].examples.mean()) * count for at, count in unseen.items())
        every += sum(unseen.values())
        if sum(unseen.values()) > MUCH * every:
            why = origins.with_unseen(len(unseen), sum(unseen.values()))
    else:
        before = _count(known)
        known = _while_all_watched(working, known)
        if _count(known) < (1 - MUCH) * before:
            why = origins.WHILE_ALL_WATCHED
    examples += sum(float(steps.examples.sum()) for steps in known)
    seconds = union_seconds([steps.runs for steps in known])
    rate = examples / seconds if seconds else None
    return value(rate, "examples/s", _REPORTED, scope, coverage=_count(known) / every, reason=why)


def _count(each: Sequence[StepEvidence]) -> int:
    return sum(len(steps.step) for steps in each)


def _unseen(ranks: Sequence[RankEvidence], known: Sequence[StepEvidence]) -> dict[int, int]:
    """Of ranks that step together, by their place, how many steps nobody saw: those that the rank of which
    most were seen did while they were not watched."""
    most = max(known, key=lambda steps: len(steps.step))
    found = {}
    for at, (rank, steps) in enumerate(zip(ranks, known, strict=True)):
        if rank.unwatched is None or not len(steps.step) or steps is most:
            continue
        done, seen = (int(np.diff(_within(one, rank.unwatched)).sum()) for one in (most, steps))
        if done > seen:
            found[at] = done - seen
    return found


def _while_all_watched(ranks: Sequence[RankEvidence], known: list[StepEvidence]) -> list[StepEvidence]:
    """Of ranks that step on their own the steps in which none was unwatched: what that did is not known. All,
    where there are no such steps."""
    holes = [rank.unwatched for rank in ranks if rank.unwatched is not None]
    if not holes or len(ranks) < 2:
        return known
    every = np.concatenate(holes)
    apart = np.stack(merge(every[:, 0], every[:, 1]), axis=1)
    found = []
    for steps in known:
        watched = np.ones(len(steps.step), np.bool_)
        for first, last in _within(steps, apart).tolist():
            watched[first:last] = False
        found.append(steps.some(watched))
    return found if _count(found) else known


def _within(steps: StepEvidence, stretches: Ints) -> Ints:
    """Of each stretch which steps lie in it, wholly or partly: the first, and the one behind the last.
    stretches: in order, apart from each other."""
    first = np.searchsorted(steps.end_ns, stretches[:, 0], side="right")
    last = np.searchsorted(steps.begin_ns, stretches[:, 1], side="left")
    return np.stack([first, np.maximum(first, last)], axis=1)
