"""How much of the network is used by ranks whose FLOPs are not known, such as parameter servers.

Their bytes a second in the busier direction, a mean, over the ceiling, which is measured in one direction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roofline.answers.values import Provenance, Scope, Value, value

from ...sentences import network as texts
from ..evidence import RankEvidence
from .network import LocalShare, busier
from .roofs import NETWORK, REVERSE, Limits

HOLDS = 0.5  # share of the ceiling, in the mean, from which on the network is what holds up
LITTLE = 0.1  # and below which it is not; between the two bursts may fill it
PS = "ps"


class Load(NamedTuple):
    """headroom: of the ceiling over the bytes a second, absent where there are none, or no ceiling."""

    words: str
    headroom: Value


def load(
    ranks: Sequence[RankEvidence],
    values: Mapping[str, Value],
    moved: Value,
    local: LocalShare,
    limits: Limits,
    sharing: int,
) -> Load | None:
    """Of ranks on one host. moved: of `network.communicated`. sharing: ranks of the job on the host.

    None: TCP's bytes are not known, or are not what carries theirs.
    """
    unit = "second" if moved.unit == "byte/s" else "step"
    each = busier(values[f"sent_bytes_per_{unit}"], values[f"received_bytes_per_{unit}"], local)
    found = busier(values["sent_bytes_per_second"], values["received_bytes_per_second"], local)
    if moved.value is None or each is None or found is None or moved.value > each.bytes:
        return None
    if not found.bytes > 0:
        return Load(texts.NO_LOAD, Value(None, "1", reason=texts.NO_LOAD))

    rate = texts.rate(len(ranks), found.direction, found.bytes)
    ceiling = limits.bandwidth(NETWORK)
    if ceiling is None:
        lacks = limits.lacks(NETWORK)
        return Load(texts.rate_without_ceiling(rate, lacks), Value(None, "1", reason=lacks))
    share = found.bytes / ceiling.value
    way = "from" if ceiling.operation == REVERSE else "to"
    named = texts.ceiling(ceiling.name, ceiling.value, way, ceiling.peer, ceiling.peer == limits.host)
    words = texts.load(
        rate, share, named, _what_it_holds_up(share, ranks), sharing if sharing > len(ranks) else 0
    )
    how = texts.load_of_what(found.direction)
    return Load(words, value(1 / share, "1", Provenance.ESTIMATED, Scope.NODE, reason=how))


def _what_it_holds_up(share: float, ranks: Sequence[RankEvidence]) -> str:
    serving = any(rank.serving or rank.role == PS for rank in ranks)
    if share < LITTLE:
        return texts.HOLDS_NOBODY
    if share < HOLDS:
        return texts.may_hold_up("the workers" if serving else "it")
    return texts.holds_up_workers() if serving else texts.holds_up("it")
