"""The network roofline: FLOPs per byte communicated, and the batch from which on work hides communication.

As the roofline of a memory (Williams, Waterman, Patterson 2009) with the bytes that go over the network. A
link carries both directions at once and its ceiling is measured in one, so the bytes are those of the busier.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.roofline import Crossing
from roofline.answers.values import Provenance, Scope, Value, value

from ..records import ABSENT
from .collectives import moved_by
from .evidence import RankEvidence, reason_of
from .roofline import NETWORK, Limits
from .wording import number
from .work import mean_flops

LEAST_SHARE = 0.5  # of the collectives' bytes that TCP must have carried to be what carried them
# The same where TCP's bytes are known by peer and no port for RDMA was seen to carry more: then what a ring
# would move is the weaker of the two, unless TCP carried next to nothing.
LEAST_SHARE_BY_PEER = 0.01
MODEL = "FLOPs of a step grow with the batch, bytes communicated do not"


class Inside(NamedTuple):
    """Shares of the TCP bytes of ranks, over the whole job, that are left out, as they did not leave their
    node. note: where these are not known."""

    sent: float = 0.0
    received: float = 0.0
    note: str = ""
    what: str = "stayed inside the node"


ALL_LEFT = Inside()


class Busier(NamedTuple):
    """Bytes of the busier direction, "sent" or "received", without those that did not leave the node; share:
    what these leave of all of it. known: the value that they are of."""

    bytes: float
    share: float
    direction: str
    known: Value


class Layout(NamedTuple):
    """How the ranks of a job lie on its nodes, and what is counted of what these say to each other."""

    world: int = 0  # ranks that take part in a collective; 0: not known
    mates: int = 1  # of these those on one node
    alone: bool = False  # the job has one node
    by_peer: bool = False  # TCP's bytes are known by peer
    rdma: bool = False  # ports for RDMA were seen to carry more than TCP did


APART = Layout()


def communicated(
    ranks: Sequence[RankEvidence],
    values: Mapping[str, Value],
    scope: Scope,
    layout: Layout = APART,
    inside: Inside = ALL_LEFT,
) -> Value:
    """Bytes a step of one of these ranks that leave its node: TCP's of the busier direction, or, where TCP
    carried little of what collectives moved (RDMA), those of the collectives. Of a job on one node TCP's
    alone: nothing measured what else carries bytes there. Of ranks without steps bytes a second.

    values: of `summarize` for these ranks. inside: what the network between nodes did not carry.
    """
    unit = "step" if any(len(r.steps.step) for r in ranks) else "second"
    tcp = _between_nodes(values[f"sent_bytes_per_{unit}"], values[f"received_bytes_per_{unit}"], inside)
    # On one node nothing crosses: what is compared with TCP's bytes is all that is moved.
    moved = moved_by(ranks, layout.world, layout.mates, apart=layout.alone)
    least = LEAST_SHARE_BY_PEER if layout.by_peer and not layout.rdma else LEAST_SHARE
    if moved is None or (tcp.value or 0.0) >= moved.bytes * (LEAST_SHARE if layout.alone else least):
        return tcp
    part = "TCP was not counted"
    if tcp.value is not None:
        part = f"TCP carried {tcp.value / moved.bytes:.0%} of them"
    if layout.alone:
        other = "shared memory or NVLink, of which nothing measured a ceiling"
        why = f"the job has one node, where its collectives go by {other}: {part}"
        return Value(None, "byte", reason=why)
    part += ", shared memory or RDMA the rest" * (tcp.value is not None)
    return value(moved.bytes, "byte", Provenance.ESTIMATED, scope, reason=f"{moved.how}: {part}")


def _between_nodes(sent: Value, received: Value, inside: Inside) -> Value:
    """TCP bytes of the busier direction, without those that stayed inside the node."""
    moved = busier(sent, received, inside)
    if moved is None:
        return Value(None, "byte", reason=sent.reason)
    found = moved.known
    how = [f"TCP bytes {moved.direction}, the busier direction", *[inside.note] * bool(inside.note)]
    if moved.share < 1:
        found = found._replace(provenance=Provenance.ESTIMATED)
        how.append(f"without the {1 - moved.share:.0%} that {inside.what}, by its peers over the whole job")
    return found._replace(value=moved.bytes, reason="; ".join(how))


def busier(sent: Value, received: Value, inside: Inside) -> Busier | None:
    """sent, received: bytes of TCP, a step or a second; None: neither is known."""
    left = (("sent", sent, 1 - inside.sent), ("received", received, 1 - inside.received))
    known = [Busier(v.value * share, share, name, v) for name, v, share in left if v.value is not None]
    return max(known, key=lambda one: one.bytes, default=None)


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
    how = f"if {MODEL}; intensity {found.reason}"
    known = value(at, "examples", Provenance.ESTIMATED, Scope.NODE, reason=how)
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
    below = f"communicating takes longer below a batch of {math.ceil(at):,} examples"
    if at <= 1:
        below = "computing takes longer at any batch"
    return f"not bound by the network even at its peak rate: {here}; {below}"
