"""Which rank has a slow link: what it sends is acknowledged far more slowly than what similar ranks send.

The kernel measures for each connection at which rate the far end acknowledged what was sent last (Cheng,
Cardwell, Hassas Yeganeh and Jacobson, "Delivery Rate Estimation", IETF draft, 2017). The bytes over this
rate are the time that they are on their way. A shaped or damaged link shows there, while in a ring all ranks
are held up alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..account.replay import median_of_others

SLOWER = 1.8  # times, than what its like reach; a slow link holds up what acknowledges the others' bytes, too
ON_THEIR_WAY = 0.1  # of the time that its bytes are. Below 0.05 rates of healthy ranks differ by up to 4
COMPARABLE = 0.05  # of its bytes, that another of another role must send
REACHED = 0.8  # of what its link does: it is as fast as it can be. Short bursts of others may go beyond that
ON_THEIR_WAY_ALONE = 0.3  # the same of a rank without its like, which sends other things than the others


class LinkSignals(NamedTuple):
    """What one rank sent over one kind of way. held: share of the time that it waited for what is sent or
    served. late: that it waited for peers that came later, which may be in on_their_way."""

    rank: str
    role: str
    host: str
    leaves: bool  # its host; what stays there is another link
    sent: float  # byte/s
    on_their_way: float  # s/s that these bytes need at the rates at which they are acknowledged
    held: float = 0.0
    late: float = 0.0
    ceiling: float | None = None  # byte/s that the link does; None: not measured
    at_once: float = 0.0  # byte/s of all its connections together, if all send at once

    @property
    def rate(self) -> float:
        """byte/s at which they are."""
        return self.sent / self.on_their_way


class SlowLink(NamedTuple):
    """rate, usual: byte/s, its own and that of its like. saved: share of the time that a link like the
    others' would save the rank, with its bounds."""

    rank: str
    host: str
    rate: float
    usual: float
    on_their_way: float  # share of the time
    saved: float
    least: float
    most: float


def slow_links(links: Sequence[LinkSignals]) -> list[SlowLink]:
    """The most expensive first. A rank is compared with those of its role, a rank without others of its kind
    with all ranks."""
    found = []
    for leaves in (False, True):
        reach = [one for one in links if one.leaves == leaves]
        for one, usual, alone in _with_usual(reach):
            sure = one._replace(on_their_way=one.on_their_way - one.late)
            slow = _slow_link(sure, usual) if sure.on_their_way >= _least(alone) else None
            if slow is not None:
                found.append(slow)
    return sorted(found, key=lambda link: -link.saved)


def _least(alone: bool) -> float:
    return ON_THEIR_WAY_ALONE if alone else ON_THEIR_WAY


def _with_usual(links: Sequence[LinkSignals]) -> Iterator[tuple[LinkSignals, float, bool]]:
    """Each with the rate that is usual for its like, and whether it has none."""
    of_role: dict[str, list[LinkSignals]] = {}
    for one in links:
        of_role.setdefault(one.role, []).append(one)
    for alike in of_role.values():
        others = alike if len(alike) > 1 else [*alike, *_comparable(alike[0], links)]
        if len(others) > 1:
            usual = median_of_others(np.array([one.rate for one in others])).tolist()
            yield from ((one, rate, len(alike) == 1) for one, rate in zip(alike, usual, strict=False))


def _comparable(one: LinkSignals, links: Sequence[LinkSignals]) -> list[LinkSignals]:
    """The others that send enough for their rate to mean anything."""
    return [other for other in links if other is not one and other.sent >= COMPARABLE * one.sent]


def _fills_its_link(one: LinkSignals) -> bool:
    return one.ceiling is not None and max(one.rate, one.at_once) >= REACHED * one.ceiling


def _slow_link(one: LinkSignals, usual: float) -> SlowLink | None:
    if one.rate * SLOWER > usual or _fills_its_link(one):
        return None
    # Connections side by side share a link, and their times overlap.
    busy = min(1.0, one.on_their_way)
    most = min(busy, one.held)
    saved, least = (min(busy * (1 - share), most) for share in (one.rate / usual, 1 / SLOWER))
    return SlowLink(one.rank, one.host, one.rate, usual, busy, saved, least, most)


def step_with(steps: Mapping[str, float], rank: str, saved: float, together: bool) -> float:
    """The job's mean step when this rank needs so much less of its time. steps: rank -> its mean step, s;
    together: they meet in each step, so all of them gain what one does."""
    mean = len(steps) / sum(1 / lasts for lasts in steps.values())
    if together:
        return mean * (1 - saved)
    mended = {**steps, rank: steps[rank] * (1 - saved)}
    return len(mended) / sum(1 / lasts for lasts in mended.values())
