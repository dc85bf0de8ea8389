"""The network roofline: FLOPs per byte communicated, and the batch from which on work hides communication.

As the roofline of a memory (Williams, Waterman, Patterson 2009) with the bytes that go over the network. A
link carries both directions at once and its ceiling is measured in one, so the bytes are those of the busier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..records import ABSENT
from .evidence import RankEvidence, reason_of
from .records import Crossing
from .roofline import NETWORK, Limits
from .values import Provenance, Scope, Value, value

LEAST_SHARE = 0.5  # of the collectives' bytes that TCP must have carried to be what carried them
MODEL = "FLOPs of a step grow with the batch, bytes communicated do not"
FAMILIES = ("asked", "engine")
NO_COLLECTIVES = (
    "engine.busy",
    "engine.exposed",
    "engine.negotiate",
    "engine.queue",
    "engine.memcpy",
    "engine.cycle",
)


def communicated(ranks: Sequence[RankEvidence], values: Mapping[str, Value], scope: Scope) -> Value:
    """Bytes a step of one of these ranks: TCP's of the busier direction, or, where TCP carried little of what
    collectives moved (shared memory, RDMA), those of the collectives. Of ranks without steps bytes a second.
    values: of `summarize` for these ranks."""
    unit = "step" if any(len(r.steps.step) for r in ranks) else "second"
    sent, received = values[f"sent_bytes_per_{unit}"], values[f"received_bytes_per_{unit}"]
    known = [v for v in (sent, received) if v.value is not None]
    busier = max(known, key=lambda v: v.value or 0.0, default=sent)
    moved = collectives(ranks)
    if moved is not None and (busier.value or 0.0) < LEAST_SHARE * moved:
        how = "bytes of its collectives: TCP was not counted"
        if busier.value is not None:
            part = f"TCP carried {busier.value / moved:.0%} of them, shared memory or RDMA the rest"
            how = f"bytes of its collectives: {part}"
        return value(moved, "byte", Provenance.ESTIMATED, scope, reason=how)
    if busier.value is None:
        return Value(None, "byte", reason=sent.reason)
    direction = "sent" if busier is sent else "received"
    return busier._replace(reason=f"TCP bytes {direction}, the busier direction")


def collectives(ranks: Sequence[RankEvidence]) -> float | None:
    """Mean bytes of the collectives of a step, over the steps of which they were told; None: of none."""
    for family in FAMILIES:
        each = [total for total in (_of_family(rank, family) for rank in ranks) if total is not None]
        if each:
            return float(np.mean(each))
    return None


def _of_family(rank: RankEvidence, family: str) -> float | None:
    columns = [
        np.where(column == ABSENT, 0, column).astype(np.float64)
        for name, column in rank.columns.items()
        if name.startswith(f"{family}.")
        and name.endswith(".bytes")
        and name.removesuffix(".bytes") not in NO_COLLECTIVES
    ]
    moved = np.sum(columns, axis=0) if columns else np.zeros(0)
    told = moved[moved > 0]
    return float(told.mean()) if len(told) else None


def intensity(values: Mapping[str, Value], moved: Value, scope: Scope) -> Value:
    """FLOP per byte communicated. moved: of `communicated`."""
    name = "flops_per_second" if moved.unit == "byte/s" else "flops_per_step"
    counted = values[name].value is None and values[f"{name}.measured"].value is not None
    flops = values[f"{name}.measured" if counted else name]
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
    here = f"{found:.3g} FLOP a byte at {batch:.0f} examples a step, the node balances at {balance:.3g}"
    if at > batch:
        return (
            f"bound by the network at its peak rate: {here}; computing takes longer from {at:.0f} examples on"
        )
    return (
        f"not bound by the network even at its peak rate: {here}; communicating takes longer below {at:.0f}"
    )
