"""Bytes between nodes: which were counted, what the network allows, and the batch that hides them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roofline.texts import listed

from .wording import duration, number, quantity

# -- which bytes --------------------------------------------------------------------------------------------

STAYED = "stayed inside the node"
STAYED_OR_OTHERS = "stayed inside the node, or came from or went to others than ranks"
OTHERS = "came from or went to others than ranks"
LOCAL_UNKNOWN = "includes what stayed inside the node: bytes per peer are not known"
OTHERS_INCLUDED = "includes what it exchanges with others than ranks (data sets read over the network)"
NOTHING_MOVED = "it communicated nothing: it is never bound by the network"
NOT_COUNTED = "TCP was not counted"


def carried(share: float) -> str:
    """share: of the bytes of collectives that TCP carried."""
    return f"TCP carried {share:.0%} of them"


def carried_rest_elsewhere(share: float) -> str:
    return f"{carried(share)}, shared memory or RDMA the rest"


def one_node(tcp: str) -> str:
    """tcp: what TCP carried."""
    other = "shared memory or NVLink, of which nothing measured a ceiling"
    return f"the job has one node, where its collectives go by {other}: {tcp}"


def by_collectives(how: str, tcp: str) -> str:
    return f"{how}: {tcp}"


def busier_direction(direction: str) -> str:
    return f"TCP bytes {direction}, the busier direction"


def without(share: float, what: str) -> str:
    """share: of TCP's bytes; what: of them is left out."""
    return f"without the {share:.0%} that {what}, by its peers over the whole job"


# -- bytes of collectives -----------------------------------------------------------------------------------

BETWEEN_RANKS = "bytes that it sends to or receives from other ranks, the busier direction"
PAYLOAD = "payload of its collectives (of how many ranks is not known)"
RINGS_OF_GROUPS = "bytes of its collectives as rings of their groups move them"


def ring(ranks: int, on_a_node: int) -> str:
    mates = f", {on_a_node} on a node," if on_a_node > 1 else ""
    return (
        f"bytes of its collectives as a ring of {ranks} ranks{mates} moves them; each is taken to be of all "
        "ranks"
    )


# -- the batch ----------------------------------------------------------------------------------------------


def no_crossing(why: str) -> str:
    return f"no crossing is known: {why}"


def crossing_model(intensity: str) -> str:
    """intensity: what it is over."""
    return f"if FLOPs of a step grow with the batch, bytes communicated do not; intensity {intensity}"


def crossing(batch: float, at: float, intensity: float, ridge: float) -> str:
    """batch: examples a step now; at: from which on computing takes longer."""
    here = (
        f"{number(intensity)} FLOP a byte at {batch:.0f} examples a step, "
        f"the node balances at {number(ridge)}"
    )
    if at > batch:
        return (
            f"bound by the network at its peak rate: {here}; computing takes longer from "
            f"{math.ceil(at):,} examples on"
        )
    below = f"communicating takes longer below a batch of {math.ceil(at):,} examples"
    if at <= 1:
        below = "computing takes longer at any batch"
    return f"not bound by the network even at its peak rate: {here}; {below}"


# -- slow links ---------------------------------------------------------------------------------------------


def acknowledged(rate: float, usual: float) -> str:
    own, others = quantity(rate, "B/s"), quantity(usual, "B/s")
    return f"what it sends is acknowledged at {own}, what the others send at {others}"


def on_their_way(seconds: float) -> str:
    return f"its bytes are in flight for {duration(seconds)} of a step"


# -- load ---------------------------------------------------------------------------------------------------

NO_LOAD = "it communicated nothing: the network does not hold it back"
_VERBS = {"sent": ("sends", "send"), "received": ("receives", "receive")}


def rate(ranks: int, direction: str, bytes_per_second: float) -> str:
    """ "it sends 1.2 GB/s", "its 3 ranks receive ..."."""
    one, several = _VERBS[direction]
    who = f"its {ranks} ranks {several}" if ranks > 1 else f"it {one}"
    return f"{who} {quantity(bytes_per_second, 'B/s')}"


def rate_without_ceiling(rate: str, why: str) -> str:
    return f"{rate}; {why}"


def load(rate: str, share: float, ceiling: str, verdict: str, sharing: int) -> str:
    """share: of the ceiling; sharing: ranks of the job that share it; 0: it has it alone."""
    others = f"; {sharing} ranks of the job share it" if sharing else ""
    return f"{rate}, {number(100 * share)}% of what the network does ({ceiling}): {verdict}{others}"


def load_of_what(direction: str) -> str:
    return f"what the network does in one direction over TCP bytes {direction}, in the mean"


def ceiling(name: str, bytes_per_second: float, way: str, peer: str, loopback: bool) -> str:
    to = f" {way} {peer}" if peer else ""
    return f"{quantity(bytes_per_second, 'B/s')}, {name}{to}{', over loopback' if loopback else ''}"


def holds_up(whom: str) -> str:
    return f"the network holds {whom} up"


def holds_up_workers() -> str:
    return f"{holds_up('the workers')}: more servers on other nodes, or fewer bytes"


def may_hold_up(whom: str) -> str:
    return f"the network may hold {whom} up in bursts: this is a mean"


HOLDS_NOBODY = "the network does not hold it back"

# -- ceilings of the network --------------------------------------------------------------------------------


def to_measure(host: str, other: str) -> str:
    return f"`roofline-client bench net --from {host} --to {other}`"


def link_speed(interface: str) -> str:
    return f"speed of {interface} in one direction, as its driver says"


def not_measured(method: str, command: str) -> str:
    """method: of `link_speed`; command: of `to_measure`."""
    return f"{method}: not measured; {command} measures it"


def measured_back(peers: Sequence[str], host: str, command: str) -> str:
    measured = f"the network was measured from {listed(peers)} to {host}, not the other way"
    return f"{measured}; {command} measures that"


def over_loopback(host: str) -> str:
    return f"measured from {host} to itself, over loopback, not a network"


def to_other_nodes(peers: Sequence[str]) -> str:
    return f"the network was measured to {listed(peers)}, where the job has no rank"


def note_of(host: str, note: str) -> str:
    return f"network of {host}: {note}"


def no_ceilings(hosts: Sequence[str], command: str) -> str:
    more = ", and so for the others" if len(hosts) > 1 else ""
    return f"no network ceiling of {listed(hosts)}: run {command}{more}"
