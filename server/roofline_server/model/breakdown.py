"""Where the time of a step goes: input, forward, backward, communicate, wait, optimizer, and what is left."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np
from roofline.answers.values import Provenance, Scope, Value, value

from ..records import ABSENT, Floats
from ..sentences import breakdowns as texts
from ..sentences.waits import SEEN_BY
from .evidence import NS, RankEvidence, reason_of
from .times import durations

PHASES = ("input", "forward", "backward", "optimizer")
COMMUNICATE = "communicate"
HOOKED = ("input", "forward", "backward", COMMUNICATE, "optimizer")  # in the order of a step
# Kind of barrier -> how sure it is when ranks wait for each other there; how it is seen: `SEEN_BY`.
BARRIERS = {
    "communicate": Provenance.MEASURED,
    "kernels": Provenance.ESTIMATED,
    "join": Provenance.MEASURED,
}


def breakdown(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """Mean times a step of these ranks, s. Phases do not overlap; `other` is what none of them has."""
    steps = sum(len(r.steps.step) for r in ranks)
    missing = reason_of(ranks, "phases", why_phases_lack(ranks))
    barrier = next((r.barrier for r in ranks if r.barrier), "")
    how, origin = SEEN_BY.get(barrier, ""), BARRIERS.get(barrier, Provenance.MEASURED)

    def mean(
        columns: Sequence[Floats | None],
        missing: str,
        how: str = "",
        origin: Provenance = Provenance.MEASURED,
    ) -> Value:
        known = [column[~np.isnan(column)] for column in columns if column is not None]
        pooled = np.concatenate(known) if known else np.zeros(0)
        seconds = float(pooled.mean()) if len(pooled) else None
        return value(seconds, "s", origin, scope, len(pooled) / steps if steps else None, how, missing)

    values = {f"{name}_time_per_step": mean([phase(r, name) for r in ranks], missing) for name in PHASES}
    wait = mean([r.wait for r in ranks], reason_of(ranks, "wait", texts.WAITS_UNKNOWN), how, origin)
    unknown = _why_no_communication(ranks)
    if unknown:
        communicate = Value(None, "s", reason=unknown)
    elif wait.value is None:
        communicate = mean([_communicating(r) for r in ranks], missing, texts.WITH_WAITS)
    else:
        communicate = mean([_communicating_without_waits(r) for r in ranks], missing, how, origin)
    values["communicate_time_per_step"] = communicate
    # A rank that waits at a join has ended its part of the step: that wait is outside its step.
    inside = [*values.values()] if _join(ranks) else [*values.values(), wait]
    values["wait_time_per_step"] = wait
    step = mean([durations(r.steps) for r in ranks], missing)
    estimated = any(v.provenance == Provenance.ESTIMATED for v in values.values())
    values["other_time_per_step"] = _other(step, inside, estimated, missing)
    return values


def _other(step: Value, inside: Sequence[Value], estimated: bool, missing: str) -> Value:
    """What is left of a step. inside: the times that are part of it; estimated: some time is."""
    named = [v.value for v in inside if v.value is not None]
    if not named or step.value is None:
        return Value(None, "s", reason=missing)
    left = step._replace(value=max(0.0, step.value - sum(named)), reason=texts.OTHER)
    return left._replace(provenance=Provenance.ESTIMATED) if estimated else left


def own_phases(ranks: Sequence[RankEvidence], scope: Scope) -> dict[str, Value]:
    """Mean times a step in phases that the training marks itself, by name, s. A rank of which other phases
    are known is in none that it does not mark."""
    columns = {n for r in ranks for n in r.columns if n.startswith("phase.") and n.endswith(".ns")}
    names = sorted({n.removeprefix("phase.").removesuffix(".ns") for n in columns} - set(HOOKED))
    steps = sum(len(r.steps.step) for r in ranks)
    reported = [_reported(rank, columns) for rank in ranks] if names else []
    found = {}
    for name in names:
        each = [_marked(rank, name, zero) for rank, zero in zip(ranks, reported, strict=True)]
        known = np.concatenate([column[~np.isnan(column)] for column in each])
        if len(known) and known.any():
            coverage = len(known) / steps
            found[name] = value(float(known.mean()), "s", Provenance.MEASURED, scope, coverage)
    return found


def _reported(rank: RankEvidence, columns: Set[str]) -> Floats:
    """0 for each step of which any of these phases is known, else NaN."""
    known = [column for name in columns if (column := seconds(rank, name)) is not None]
    return np.where(np.isnan(known).all(axis=0), np.nan, 0.0) if known else np.zeros(0)


def _marked(rank: RankEvidence, name: str, reported: Floats) -> Floats:
    mine = phase(rank, name)
    return reported if mine is None or np.isnan(mine).all() else mine


def mean_step(ranks: Sequence[RankEvidence], scope: Scope) -> Value:
    """Mean time of a step, s."""
    every = np.concatenate([durations(r.steps) for r in ranks]) if ranks else np.zeros(0)
    mean = float(every.mean()) if len(every) else None
    return value(mean, "s", Provenance.MEASURED, scope, missing=reason_of(ranks, "phases", ""))


def why_phases_lack(ranks: Sequence[RankEvidence]) -> str:
    """Why a phase of the steps of these ranks is not known; ranks that differ are named."""
    ranks_of: dict[tuple[str, ...], list[str]] = {}
    for rank in ranks:
        known = []
        for name in HOOKED:
            column = rank.columns.get(f"phase.{name}.ns")
            if column is not None and (column != ABSENT).any():
                known.append(name)
        ranks_of.setdefault(tuple(known), []).append(rank.key)
    if len(ranks_of) < 2:
        return texts.phases_known(next(iter(ranks_of), ()))
    return "; ".join(texts.phases_known(phases, keys) for phases, keys in sorted(ranks_of.items()))


def phase(rank: RankEvidence, name: str) -> Floats | None:
    """Seconds of each step in a phase, NaN where it is not known; None: of none."""
    return seconds(rank, f"phase.{name}.ns")


def seconds(rank: RankEvidence, name: str) -> Floats | None:
    """A column of ns in seconds, NaN where it is not known; None: nowhere."""
    column = rank.columns.get(name)
    if column is None or not len(column):
        return None
    absent, found = column == ABSENT, column / NS
    return np.where(absent, np.nan, found) if np.count_nonzero(absent) else found


def _why_no_communication(ranks: Sequence[RankEvidence]) -> str:
    """Why time in communication is not known; "": it is."""
    if _join(ranks):
        return texts.NO_COMMUNICATION_IN_JOIN
    by_kernels = [r for r in ranks if r.barrier == "kernels"]
    if any(phase(r, "optimizer") is not None for r in by_kernels):
        return texts.PHASES_AFTER_KERNELS
    if not all(_communicates(r) for r in by_kernels):
        return texts.COMMUNICATION_UNSEEN
    return ""


def _join(ranks: Sequence[RankEvidence]) -> bool:
    return bool(ranks) and all(r.barrier == "join" for r in ranks)


def _communicates(rank: RankEvidence) -> bool:
    """Whether bytes that it sent or received, or collectives, were seen."""
    if any(counter is not None and counter.total > 0 for counter in (rank.sent, rank.received)):
        return True
    names = (name for name in rank.columns if name.startswith(("asked.", "engine.")))
    return any((rank.columns[name] > 0).any() for name in names)


def _communicating(rank: RankEvidence) -> Floats | None:
    """Seconds of each step in communication, waits among them."""
    return rank.held if rank.held is not None else phase(rank, COMMUNICATE)


def _communicating_without_waits(rank: RankEvidence) -> Floats | None:
    held = _communicating(rank)
    return None if held is None or rank.wait is None else held - rank.wait
