"""What a whole is made of: parts with their shares, means over steps that add up, and the time of a step.

All are means over the steps of ranks, which, unlike medians, add up; of ranks without steps they are of the
whole run of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.values import Provenance, Scope, Value, value

from ...records import ABSENT, Ints
from ...sentences import breakdowns as texts
from ...sentences.origins import from_sampled
from ..breakdown import COMMUNICATE, PHASES, breakdown, mean_step, own_phases
from ..evidence import CounterEvidence, KernelEvidence, RankEvidence, total_of
from .rates import per_window

OTHER = "other"
TIMES = (*PHASES, COMMUNICATE, "wait", OTHER)
MOST_OWN = 8  # phases that the training marks itself: those that take most time
SLACK = 0.01  # of a step by which phases may add up to more than it: the error of clocks
FEW = 0.01  # of the steps that may be estimates without making the whole one
Column = Callable[[KernelEvidence], Ints | None]


class Part(NamedTuple):
    """A part of a whole. share: of the whole; absent where the parts are none of one whole."""

    part: str
    value: Value
    share: Value
    words: str = ""


def parted(parts: Mapping[str, Value], words: Mapping[str, str] | None = None) -> list[Part]:
    """Parts with their shares of their sum. Where one of them is below zero there are no shares."""
    known = [part.value for part in parts.values() if part.value is not None]
    whole = sum(known)
    why = ""
    if min(known, default=0) < 0:
        why = texts.BELOW_ZERO
    elif not whole > 0:
        why = texts.NOTHING
    found = []
    for name, part in parts.items():
        of_whole = None if why or part.value is None else part.value / whole
        share = value(of_whole, "1", part.provenance, part.scope, part.coverage, missing=part.reason or why)
        found.append(Part(name, part, share, (words or {}).get(name, "")))
    return found


def apart(parts: Mapping[str, Value], words: Mapping[str, str] | None = None) -> list[Part]:
    """Parts that are none of one whole."""
    none = Value(None, "1", reason=texts.NO_WHOLE)
    return [Part(name, part, none, (words or {}).get(name, "")) for name, part in parts.items()]


def time(ranks: Sequence[RankEvidence], scope: Scope) -> list[Part]:
    """Mean seconds of a step in each phase, those that the training marks itself after the others; what is
    none of them is other."""
    known = breakdown(ranks, scope)
    parts = {name: known[f"{name}_time_per_step"] for name in TIMES}
    own = own_phases(ranks, scope)
    step = mean_step(ranks, scope)
    if not own or step.value is None:
        return parted(parts)
    other = parts.pop(OTHER)
    if other.value is None:  # of none of its other phases the time is known
        other = step._replace(reason=texts.OTHER)
    most = sorted(own, key=lambda name: -(own[name].value or 0.0))
    left = (other.value or 0.0) - sum(own[name].value or 0.0 for name in own)
    # Communication that is seen by kernels alone may lie in any phase.
    by_kernels = any(rank.barrier == "kernels" for rank in ranks)
    if by_kernels or left < -SLACK * step.value:
        return parted({**parts, OTHER: other}, {OTHER: texts.overlapping(most)})
    shown, rest = most[:MOST_OWN], most[MOST_OWN:]
    named = {name if name not in TIMES else f"phase {name}": own[name] for name in shown}
    of_rest = sum(own[name].value or 0.0 for name in rest)
    other = other._replace(value=max(0.0, left) + of_rest)
    return parted({**parts, **named, OTHER: other}, {OTHER: texts.with_phases(rest)} if rest else {})


# -- means over steps ---------------------------------------------------------------------------------------


def per_step(kernels: Sequence[tuple[RankEvidence, KernelEvidence]], column: Column) -> float | None:
    """Mean over the steps watched in full, of those of which the column is known; of ranks without steps
    over ranks."""
    total, count = 0.0, 0
    for rank, k in kernels:
        numbers = column(k)
        if numbers is None:
            continue
        known = k.complete & (numbers != ABSENT)
        total += total_of(numbers[known])
        if len(rank.steps.step):
            count += int(known.sum())
        elif known.any():
            count += 1
    return total / count if count else None


def profiled(ranks: Sequence[RankEvidence], scope: Scope, column: Column, missing: str) -> Value:
    """Bytes a step that a profiler counted of kernels."""
    known = []
    for rank in ranks:
        if rank.kernels is None:
            continue
        numbers = column(rank.kernels)
        if numbers is not None and not (numbers[rank.kernels.complete] == ABSENT).any():
            known.append((rank, rank.kernels))
    return value(per_step(known, column), "byte", Provenance.MEASURED, scope, watched(known), missing=missing)


def watched(kernels: Sequence[tuple[RankEvidence, KernelEvidence]]) -> float | None:
    """Share of the windows whose kernels were recorded from begin to end."""
    windows = sum(len(k.complete) for _, k in kernels)
    return sum(k.seen for _, k in kernels) / windows if windows else None


def sampled(kernels: Sequence[KernelEvidence]) -> tuple[Provenance, str]:
    """What numbers of kernels are that nothing but shapes tell, and a note where only some of the steps were
    recorded: estimates where more than one step in a hundred is one."""
    some = [k for k in kernels if k.is_sampled]
    if not some:
        return Provenance.ANALYTIC, ""
    estimated = sum(int(k.estimated.sum()) for k in some if k.estimated is not None)
    steps = sum(int(k.complete.sum()) for k in kernels)
    seen = sum(k.seen for k in kernels)
    origin = Provenance.ESTIMATED if estimated > FEW * steps else Provenance.ANALYTIC
    return origin, from_sampled(seen, steps - seen - estimated, estimated)


def of_counters(counters: Sequence[CounterEvidence], ranks: Sequence[RankEvidence]) -> float | None:
    """Mean of a counter over the steps of these ranks; of ranks without steps that of their whole runs."""
    if any(len(r.steps.step) for r in ranks):
        return per_window(counters, ranks, 1)
    return sum(c.total for c in counters) / len(counters) if counters else None


def absent(part: str, unit: str, why: str) -> Part:
    return Part(part, Value(None, unit, reason=why), Value(None, "1", reason=why))
