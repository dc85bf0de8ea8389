"""How much of what the network does is used by ranks of which no FLOPs are known, as parameter servers.

Their bytes a second in the busier direction, a mean, over the ceiling, which is measured in one direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roofline.answers.machines import Ceiling
from roofline.answers.values import Provenance, Scope, Value, value

from .evidence import RankEvidence
from .network import Busier, Inside, busier
from .roofline import NETWORK, REVERSE, Limits
from .wording import number, quantity

HOLDS = 0.5  # share of the ceiling, in the mean, from which on the network is what holds up
LITTLE = 0.1  # and below which it is not; between the two bursts may fill it
PS = "ps"
NOTHING = "it communicated nothing: the network does not hold it back"
_VERBS = {"sent": ("sends", "send"), "received": ("receives", "receive")}
_HELP = ": more servers on other nodes, or fewer bytes"


class Load(NamedTuple):
    """headroom: of the ceiling over the bytes a second, absent where there are none, or no ceiling."""

    words: str
    headroom: Value


def load(
    ranks: Sequence[RankEvidence],
    values: Mapping[str, Value],
    moved: Value,
    inside: Inside,
    limits: Limits,
    sharing: int,
) -> Load | None:
    """Of ranks on one host. moved: of `network.communicated`. sharing: ranks of the job on the host.

    None: TCP's bytes are not known, or are not what carries theirs.
    """
    unit = "second" if moved.unit == "byte/s" else "step"
    each = busier(values[f"sent_bytes_per_{unit}"], values[f"received_bytes_per_{unit}"], inside)
    found = busier(values["sent_bytes_per_second"], values["received_bytes_per_second"], inside)
    if moved.value is None or each is None or found is None or moved.value > each.bytes:
        return None
    if not found.bytes > 0:
        return Load(NOTHING, Value(None, "1", reason=NOTHING))
    return _held(ranks, found, limits, sharing)


def _held(ranks: Sequence[RankEvidence], found: Busier, limits: Limits, sharing: int) -> Load:
    said = _rate(len(ranks), found)
    ceiling = limits.bandwidth(NETWORK)
    if ceiling is None:
        lacks = limits.lacks(NETWORK)
        return Load(f"{said}; {lacks}", Value(None, "1", reason=lacks))
    share = found.bytes / ceiling.value
    of_what = f"{number(100 * share)}% of what the network does ({_named(ceiling, limits.host)})"
    others = f"; {sharing} ranks of the job share it" if sharing > len(ranks) else ""
    how = f"what the network does in one direction over TCP bytes {found.direction}, in the mean"
    return Load(
        f"{said}, {of_what}: {_verdict(share, ranks)}{others}",
        value(1 / share, "1", Provenance.ESTIMATED, Scope.NODE, reason=how),
    )


def _rate(ranks: int, found: Busier) -> str:
    one, several = _VERBS[found.direction]
    who = f"its {ranks} ranks {several}" if ranks > 1 else f"it {one}"
    return f"{who} {quantity(found.bytes, 'B/s')}"


def _named(ceiling: Ceiling, host: str) -> str:
    way = "from" if ceiling.operation == REVERSE else "to"
    peer = f" {way} {ceiling.peer}" if ceiling.peer else ""
    loop = ", over loopback" if ceiling.peer == host else ""
    return f"{quantity(ceiling.value, 'B/s')}, {ceiling.name}{peer}{loop}"


def _verdict(share: float, ranks: Sequence[RankEvidence]) -> str:
    serving = any(rank.serving or rank.role == PS for rank in ranks)
    whom = "the workers" if serving else "it"
    if share >= HOLDS:
        return f"the network holds {whom} up{_HELP * serving}"
    if share >= LITTLE:
        return f"the network may hold {whom} up in bursts: this is a mean"
    return "the network does not hold it back"
