"""The network roofline: FLOPs per byte communicated, and the batch from which on work hides communication.

Like the roofline of a memory (Williams, Waterman, Patterson 2009), with the bytes that go over the network. A
link carries both directions at once and its ceiling is measured in one, so the bytes are those of the busier
direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.roofline import Crossing
from roofline.answers.values import Provenance, Scope, Value, value

from ...records import ABSENT
from ...sentences import network as texts
from ...sentences.origins import over_bytes
from ...sentences.reasons import NO_EXAMPLES, NO_FLOPS
from ...sentences.wording import joined
from ..collectives import moved_by
from ..evidence import RankEvidence, reason_of
from .roofs import NETWORK, Limits
from .work import mean_flops, or_counted

LEAST_SHARE = 0.5  # of the collectives' bytes that TCP must have carried to be what carried them
# The same where TCP's bytes are known by peer and no port for RDMA was seen to carry more: then what a ring
# would move is the weaker of the two, unless TCP carried next to nothing.
LEAST_SHARE_BY_PEER = 0.01


class LocalShare(NamedTuple):
    """Shares of the TCP bytes of ranks, over the whole job, that are left out, as they did not leave their
    node. note: where these are not known; what: what is left out."""

    sent: float = 0.0
    received: float = 0.0
    note: str = ""
    what: str = texts.STAYED


ALL_LEFT = LocalShare()


class Busier(NamedTuple):
    """Bytes of the busier direction, "sent" or "received", without those that did not leave the node; share:
    what these leave of all of it. known: the value that they are of."""

    bytes: float
    share: float
    direction: str
    known: Value


class Layout(NamedTuple):
    """How the ranks of a job lie on its nodes, and what is counted of what these exchange."""

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
    local: LocalShare = ALL_LEFT,
) -> Value:
    """Bytes a step of one of these ranks that leave its node: TCP's of the busier direction, or, where TCP
    carried little of what collectives moved (RDMA), those of the collectives. Of a job on one node TCP's
    alone: nothing measured what else carries bytes there. Of ranks without steps bytes a second.

    values: of `summarize` for these ranks. local: what the network between nodes did not carry.
    """
    unit = "step" if any(len(r.steps.step) for r in ranks) else "second"
    tcp = _tcp_bytes(values[f"sent_bytes_per_{unit}"], values[f"received_bytes_per_{unit}"], local)
    # On one node nothing crosses: what is compared with TCP's bytes is all that is moved.
    moved = moved_by(ranks, layout.world, layout.mates, apart=layout.alone)
    least = LEAST_SHARE
    if layout.by_peer and not layout.rdma and not layout.alone:
        least = LEAST_SHARE_BY_PEER
    if moved is None or (tcp.value or 0.0) >= moved.bytes * least:
        return tcp
    share = None if tcp.value is None else tcp.value / moved.bytes
    if layout.alone:
        carried = texts.NOT_COUNTED if share is None else texts.carried(share)
        return Value(None, "byte", reason=texts.one_node(carried))
    carried = texts.NOT_COUNTED if share is None else texts.carried_rest_elsewhere(share)
    reason = texts.by_collectives(moved.how, carried)
    return value(moved.bytes, "byte", Provenance.ESTIMATED, scope, reason=reason)


def _tcp_bytes(sent: Value, received: Value, local: LocalShare) -> Value:
    """TCP bytes of the busier direction, without those that stayed inside the node."""
    moved = busier(sent, received, local)
    if moved is None:
        return Value(None, "byte", reason=sent.reason)
    found = moved.known
    how = joined(texts.busier_direction(moved.direction), local.note)
    if moved.share < 1:
        found = found._replace(provenance=Provenance.ESTIMATED)
        how = joined(how, texts.without(1 - moved.share, local.what))
    return found._replace(value=moved.bytes, reason=how)


def busier(sent: Value, received: Value, local: LocalShare) -> Busier | None:
    """sent, received: bytes of TCP, a step or a second; None: neither is known."""
    left = (("sent", sent, 1 - local.sent), ("received", received, 1 - local.received))
    known = [Busier(v.value * share, share, name, v) for name, v, share in left if v.value is not None]
    return max(known, key=lambda one: one.bytes, default=None)


def intensity(
    ranks: Sequence[RankEvidence], values: Mapping[str, Value], moved: Value, scope: Scope
) -> Value:
    """FLOP per byte communicated. moved: of `communicated`."""
    flops = mean_flops(ranks, values)
    if moved.unit == "byte/s":
        flops = or_counted(ranks, values["flops_per_second"], values["flops_per_second.measured"])
    if flops.value is None:
        return Value(None, "FLOP/byte", reason=flops.reason)
    if moved.value is None:
        return Value(None, "FLOP/byte", reason=moved.reason)
    if not moved.value > 0:
        return Value(None, "FLOP/byte", reason=texts.NOTHING_MOVED)
    origin = flops.provenance
    if moved.provenance == Provenance.ESTIMATED:
        origin = Provenance.ESTIMATED
    reason = over_bytes(moved.reason)
    return value(flops.value / moved.value, "FLOP/byte", origin, scope, flops.coverage, reason)


def ridge(limits: Sequence[Limits]) -> float | None:
    """FLOP per byte at which a node computes as long as it communicates: the peaks of all its devices that
    the job used, over the one network that they share. limits: of one host; None: a ceiling is missing."""
    peaks = [limit.compute.value for limit in limits if limit.compute is not None]
    network = limits[0].bandwidth(NETWORK) if limits else None
    if network is None or len(peaks) < len(limits):
        return None
    return sum(peaks) / network.value


def crossing(
    label: str,
    role: str,
    ranks: Sequence[RankEvidence],
    intensity: Value,
    balance: float | None,
    why: str,
) -> Crossing:
    """The batch at which computing and communicating take equally long: batch x ridge / intensity.

    ranks: what it is of; intensity: FLOP per byte communicated; balance: the ridge of its node, None: `why`.
    """
    batch = _median_batch(ranks)
    ridge = value(balance, "FLOP/byte", Provenance.ESTIMATED, Scope.NODE, missing=why)
    reason = "" if balance else why
    for known in (intensity, batch):
        if known.value is None:
            reason = known.reason
    if reason or batch.value is None or not intensity.value or balance is None:
        absent = Value(None, "examples", reason=reason or NO_FLOPS)
        return Crossing(label, role, batch, absent, texts.no_crossing(absent.reason), ridge)
    at = batch.value * balance / intensity.value
    how = texts.crossing_model(intensity.reason)
    examples = value(at, "examples", Provenance.ESTIMATED, Scope.NODE, reason=how)
    words = texts.crossing(batch.value, at, intensity.value, balance)
    return Crossing(label, role, batch, examples, words, ridge)


def _median_batch(ranks: Sequence[RankEvidence]) -> Value:
    """Examples of a step of one rank, the median."""
    known = [r.steps.examples[r.steps.examples != ABSENT] for r in ranks]
    pooled = np.concatenate(known) if known else np.zeros(0, np.int64)
    number = float(np.median(pooled)) if len(pooled) else None
    missing = reason_of(ranks, "examples", NO_EXAMPLES)
    return value(number, "examples", Provenance.REPORTED, Scope.PROCESS, missing=missing)
