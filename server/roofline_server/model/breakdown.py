"""Where the time of a step goes: input, forward, backward, communicate, wait, optimizer, and what is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value

from ..records import ABSENT, Floats
from .evidence import NS, RankEvidence, reason_of
from .times import durations

PHASES = ("input", "forward", "backward", "optimizer")
COMMUNICATE = "communicate"
TOLD = ("input", "forward", "backward", COMMUNICATE, "optimizer")  # by hooks, in the order of a step
NAMED = 8  # ranks at most
# How it was seen that ranks wait for each other, and how sure that is.
BARRIERS = {
    "communicate": ("by when each rank was blocked in communication", Provenance.MEASURED),
    "kernels": ("by when the last kernel of each rank had ended", Provenance.ESTIMATED),
    "join": ("by when each worker's part of the step had ended", Provenance.MEASURED),
}


class _Mean(Protocol):
    def __call__(
        self,
        parts: Sequence[Floats | None],
        why: str,
        how: str = "",
        origin: Provenance = Provenance.MEASURED,
    ) -> Value: ...


def breakdown(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """Mean times a step of these ranks, s. Phases do not overlap; `other` is what none of them has."""
    count = sum(len(r.steps.step) for r in ranks)
    missing = reason_of(ranks, "phases", untold(ranks))
    found: dict[str, Value] = {}

    def mean(
        parts: Sequence[Floats | None], why: str, how: str = "", origin: Provenance = Provenance.MEASURED
    ) -> Value:
        known = [part[~np.isnan(part)] for part in parts if part is not None]
        pooled = np.concatenate(known) if known else np.zeros(0)
        share = len(pooled) / count if count else None
        return value(float(pooled.mean()) if len(pooled) else None, "s", origin, scope, share, how, why)

    for name in PHASES:
        found[f"{name}_time_per_step"] = mean([phase(r, name) for r in ranks], missing)
    found |= _held(ranks, mean, missing)
    found["other_time_per_step"] = _other(ranks, found, mean, missing)
    return found


def untold(ranks: Sequence[RankEvidence]) -> str:
    """Why a phase of the steps of these ranks is not known; ranks that differ are named."""
    whose: dict[tuple[str, ...], list[str]] = {}
    for rank in ranks:
        whose.setdefault(tuple(name for name in TOLD if _is_told(rank, name)), []).append(rank.key)
    if len(whose) < 2:
        return _only(next(iter(whose), ()), "its steps")
    return "; ".join(_only(told, f"the steps of {_names(keys)}") for told, keys in sorted(whose.items()))


def _only(told: Sequence[str], steps: str) -> str:
    if not told:
        return f"no hook tells the phases of {steps}"
    return f"of the phases of {steps} hooks tell only {', '.join(told)}"


def _names(keys: Sequence[str]) -> str:
    return ", ".join(keys[:NAMED]) + ", ..." * (len(keys) > NAMED)


def _is_told(rank: RankEvidence, name: str) -> bool:
    column = rank.columns.get(f"phase.{name}.ns")
    return column is not None and bool((column != ABSENT).any())


def phase(rank: RankEvidence, name: str) -> Floats | None:
    """Seconds of each step in a phase, NaN where it is not known; None: of none."""
    return seconds(rank, f"phase.{name}.ns")


def seconds(rank: RankEvidence, name: str) -> Floats | None:
    """A column of ns in seconds, NaN where it is not known; None: nowhere."""
    column = rank.columns.get(name)
    if column is None or not len(column):
        return None
    return np.where(column == ABSENT, np.nan, column / NS)


def _held(ranks: Sequence[RankEvidence], mean: _Mean, missing: str) -> dict[str, Value]:
    how, origin = next((BARRIERS[r.barrier] for r in ranks if r.barrier), ("", Provenance.MEASURED))
    alone = reason_of(ranks, "wait", "it is not known when its ranks wait for each other")
    wait = mean([r.wait for r in ranks], alone, how, origin)
    if _joins(ranks):
        inside = "what it pulls and pushes is not seen apart from its computing"
        return {"communicate_time_per_step": Value(None, "s", reason=inside), "wait_time_per_step": wait}
    if any(r.barrier == "kernels" and phase(r, "optimizer") is not None for r in ranks):
        twice = (
            "after the last kernel come phases that are known, and what is communication of the rest is not"
        )
        return {"communicate_time_per_step": Value(None, "s", reason=twice), "wait_time_per_step": wait}
    if any(r.barrier == "kernels" and not _communicates(r) for r in ranks):
        unseen = "nobody saw its ranks communicate: what they do after their last kernels is not known"
        return {"communicate_time_per_step": Value(None, "s", reason=unseen), "wait_time_per_step": wait}
    blocked = [r.held if r.held is not None else phase(r, COMMUNICATE) for r in ranks]
    if wait.value is None:
        moving = mean(blocked, missing, "with the time it waits for other ranks")
    else:
        both = zip(blocked, (r.wait for r in ranks), strict=True)
        moving = mean(
            [b - w if b is not None and w is not None else None for b, w in both], missing, how, origin
        )
    return {"communicate_time_per_step": moving, "wait_time_per_step": wait}


def _communicates(rank: RankEvidence) -> bool:
    """Whether bytes that it sent or received, or collectives, were seen."""
    counted = any(c is not None and c.total > 0 for c in (rank.sent, rank.received))
    names = (name for name in rank.columns if name.startswith(("asked.", "engine.")))
    return counted or any((rank.columns[name] > 0).any() for name in names)


def _joins(ranks: Sequence[RankEvidence]) -> bool:
    return bool(ranks) and all(r.barrier == "join" for r in ranks)


def _other(ranks: Sequence[RankEvidence], found: dict[str, Value], mean: _Mean, missing: str) -> Value:
    # Who waits at a join has ended its part of the step: that wait is not in its window.
    inside = (v for name, v in found.items() if name != "wait_time_per_step" or not _joins(ranks))
    named = [v.value for v in inside if v.value is not None]
    step = mean([durations(r.steps) for r in ranks], missing) if named else None
    if step is None or step.value is None:
        return Value(None, "s", reason=missing)
    estimated = any(v.provenance == Provenance.ESTIMATED for v in found.values())
    return step._replace(
        value=max(0.0, step.value - sum(named)),
        provenance=Provenance.ESTIMATED if estimated else step.provenance,
        reason="of the step, what none of the others has",
    )
