"""The network roofline: FLOPs per byte communicated, and the batch from which on work hides communication.

As the roofline of a memory (Williams, Waterman, Patterson 2009) with the bytes that go over the network. A
link carries both directions at once and its ceiling is measured in one, so the bytes are those of the busier.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..records import ABSENT
from .evidence import RankEvidence, reason_of
from .records import Crossing
from .roofline import NETWORK, Limits
from .values import Provenance, Scope, Value, value
from .wording import number
from .work import mean_flops

LEAST_SHARE = 0.5  # of the collectives' bytes that TCP must have carried to be what carried them
MODEL = "FLOPs of a step grow with the batch, bytes communicated do not"
# A ring of N ranks moves this times (N-1)/N of the tensor at each (Patarasuk, Yuan 2009: an allreduce is a
# reducescatter and an allgather); other collectives are taken to move it once.
FACTORS = {"allreduce": 2.0, "allgather": 1.0, "reducescatter": 1.0}
FAMILIES = ("asked", "engine")
NO_COLLECTIVES = (
    "engine.busy",
    "engine.exposed",
    "engine.negotiate",
    "engine.queue",
    "engine.memcpy",
    "engine.cycle",
)


class Inside(NamedTuple):
    """Shares of the TCP bytes of ranks, over the whole job, that did not leave their node. note: where these
    are not known."""

    sent: float = 0.0
    received: float = 0.0
    note: str = ""


ALL_LEFT = Inside()


def communicated(
    ranks: Sequence[RankEvidence],
    values: Mapping[str, Value],
    scope: Scope,
    world: int = 0,
    inside: Inside = ALL_LEFT,
) -> Value:
    """Bytes a step of one of these ranks: TCP's of the busier direction, or, where TCP carried little of what
    collectives moved (shared memory, RDMA), those of the collectives. Of ranks without steps bytes a second.
    values: of `summarize` for these ranks. world: ranks that take part in a collective; 0: not known. inside:
    what the network between nodes did not carry."""
    unit = "step" if any(len(r.steps.step) for r in ranks) else "second"
    sent, received = values[f"sent_bytes_per_{unit}"], values[f"received_bytes_per_{unit}"]
    known = [v for v in (sent, received) if v.value is not None]
    busier = max(known, key=lambda v: v.value or 0.0, default=sent)
    moved = collectives(ranks, world)
    if moved is not None and (busier.value or 0.0) < LEAST_SHARE * moved:
        what = f"bytes of its collectives as a ring of {world} ranks moves them"
        if world < 2:
            what = "payload of its collectives (of how many ranks is not known)"
        how = f"{what}: TCP was not counted"
        if busier.value is not None:
            part = f"TCP carried {busier.value / moved:.0%} of them, shared memory or RDMA the rest"
            how = f"{what}: {part}"
        return value(moved, "byte", Provenance.ESTIMATED, scope, reason=how)
    if busier.value is None:
        return Value(None, "byte", reason=sent.reason)
    return _between_nodes(sent, received, inside)


def _between_nodes(sent: Value, received: Value, inside: Inside) -> Value:
    """TCP bytes of the busier direction, without those that stayed inside the node."""
    left = (
        ("sent", sent, 1 - inside.sent),
        ("received", received, 1 - inside.received),
    )
    known = [(v.value * share, share, name, v) for name, v, share in left if v.value is not None]
    moved, share, name, found = max(known, key=lambda one: one[0])
    how = [f"TCP bytes {name}, the busier direction", *[inside.note] * bool(inside.note)]
    if share < 1:
        found = found._replace(provenance=Provenance.ESTIMATED)
        how.append(
            f"without the {1 - share:.0%} that stayed inside the node, by its peers over the whole job"
        )
    return found._replace(value=moved, reason="; ".join(how))


def collectives(ranks: Sequence[RankEvidence], world: int = 0) -> float | None:
    """Mean bytes that the collectives of a step move at one rank, over the steps of which they were told.

    None: of none. world: ranks that take part, as FACTORS has it; 0: not known, then the payload."""
    for family in FAMILIES:
        each = [total for total in (_of_family(rank, family, world) for rank in ranks) if total is not None]
        if any(each):
            return float(np.mean(each))
    return None


def _of_family(rank: RankEvidence, family: str, world: int) -> float | None:
    columns = {
        name.removesuffix(".bytes").removeprefix(f"{family}."): column
        for name, column in rank.columns.items()
        if name.startswith(f"{family}.")
        and name.endswith(".bytes")
        and name.removesuffix(".bytes") not in NO_COLLECTIVES
    }
    if not columns:
        return None
    told = np.any([column != ABSENT for column in columns.values()], axis=0)
    moved = sum(_factor(kind, world) * np.where(c == ABSENT, 0.0, c) for kind, c in columns.items())
    # A step without collectives (gradients are accumulated) communicates nothing: a zero among the others.
    return float(np.asarray(moved)[told].mean()) if told.any() else None


def _factor(kind: str, world: int) -> float:
    """Bytes that a ring moves at one rank over those of the whole tensor."""
    return FACTORS.get(kind, 0) * (world - 1) / world if world > 1 and kind in FACTORS else 1.0


def intensity(
    ranks: Sequence[RankEvidence], values: Mapping[str, Value], moved: Value, scope: Scope
) -> Value:
    """FLOP per byte communicated. moved: of `communicated`."""
    flops = mean_flops(ranks, values)
    if moved.unit == "byte/s":
        flops = values["flops_per_second"]
        if flops.value is None and values["flops_per_second.measured"].value is not None:
            flops = values["flops_per_second.measured"]
    if flops.value is None or moved.value is None:
        return Value(None, "FLOP/byte", reason=flops.reason if flops.value is None else moved.reason)
    if not moved.value > 0:
        return Value(None, "FLOP/byte", reason="it communicated nothing: it is never bound by the network")
    origin = (
        Provenance.ESTIMATED
        if Provenance.ESTIMATED in (flops.provenance, moved.provenance)
        else flops.provenance
    )
    share = flops.coverage
    return value(flops.value / moved.value, "FLOP/byte", origin, scope, share, f"over {moved.reason}")


def ridge(limits: Sequence[Limits]) -> float | None:
    """FLOP per byte at which a node computes as long as it communicates: the peaks of all its devices that
    the job used, over the one network that they share. limits: of one host; None: a ceiling lacks."""
    peaks = [limit.compute.value for limit in limits if limit.compute is not None]
    network = limits[0].bandwidth(NETWORK) if limits else None
    if network is None or len(peaks) < len(limits):
        return None
    return sum(peaks) / network.value


def crossing(
    label: str,
    role: str,
    ranks: Sequence[RankEvidence],
    found: Value,
    balance: float | None,
    why: str,
) -> Crossing:
    """The batch at which computing and communicating take equally long: batch x ridge / intensity.

    ranks: what it is of; found: FLOP per byte communicated; balance: the ridge of its node, None: `why`.
    """
    batch = _batch(ranks)
    ridge = value(balance, "FLOP/byte", Provenance.ESTIMATED, Scope.NODE, missing=why)
    reason = next((v.reason for v in (batch, found) if v.value is None), "" if balance else why)
    if reason or batch.value is None or not found.value or balance is None:
        absent = Value(None, "examples", reason=reason or "it did no FLOPs")
        return Crossing(label, role, batch, absent, f"no crossing is known: {absent.reason}", ridge)
    at = batch.value * balance / found.value
    known = value(at, "examples", Provenance.ESTIMATED, Scope.NODE, reason=f"if {MODEL}")
    return Crossing(label, role, batch, known, _words(batch.value, at, found.value, balance), ridge)


def _batch(ranks: Sequence[RankEvidence]) -> Value:
    """Examples of a step of one rank, the median."""
    said = [r.steps.examples[r.steps.examples != ABSENT] for r in ranks]
    pooled = np.concatenate(said) if said else np.zeros(0, np.int64)
    missing = reason_of(ranks, "examples", "nobody said how many examples a step has")
    number = float(np.median(pooled)) if len(pooled) else None
    return value(number, "examples", Provenance.REPORTED, Scope.PROCESS, missing=missing)


def _words(batch: float, at: float, found: float, balance: float) -> str:
    here = (
        f"{number(found)} FLOP a byte at {batch:.0f} examples a step, the node balances at {number(balance)}"
    )
    if at > batch:
        most = f"computing takes longer from {math.ceil(at):,} examples on"
        return f"bound by the network at its peak rate: {here}; {most}"
    return (
        f"not bound by the network even at its peak rate: {here}; communicating takes longer below {at:.0f}"
    )
