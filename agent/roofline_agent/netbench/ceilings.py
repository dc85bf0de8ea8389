"""What becomes the network ceilings of the sending node. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from roofline_agent.calibrate.calibration import Ceiling

from .messages import NetResult

# Ceiling -> the results it is the best of, by the beginning of their names; a latency is of one result.
BANDWIDTHS = {"net.tcp": "tcp.bandwidth", "net.grpc": "grpc.bandwidth"}
LATENCIES = {"net.tcp.latency": "tcp.latency", "net.grpc.latency": "grpc.latency.uniform.small"}

GROWING = "the rate was still growing"
DISTURBED = 0.4  # over loopback of an idle virtual machine up to a third was seen


class MeasuredResult(NamedTuple):
    result: NetResult
    repeats: tuple[float, ...]  # value of each
    whole: float | None = None  # of a bandwidth: over all repeats together


def ceilings(measured: Sequence[MeasuredResult], peer: str, loopback: bool) -> tuple[Ceiling, ...]:
    """The highest bandwidth of each transport in one direction, and its shortest round trip.

    A bandwidth is that of the whole measurement: in a single window there may be more than the network
    carried meanwhile. Where the median window has more, something else held it up for a while: that counts.
    """
    where = f" over loopback, as {peer} is this node" if loopback else f" to {peer}"
    found = []
    for name, begin in BANDWIDTHS.items():
        candidates = [m for m in measured if m.result.name.startswith(begin)]
        if candidates:
            best = max(candidates, key=_whole)
            found.append(_ceiling(name, "network", best, _whole(best), peer, where))
    for name, of in LATENCIES.items():
        found += [
            _ceiling(name, "latency", m, min(m.repeats), peer, where) for m in measured if m.result.name == of
        ]
    return tuple(found)


def _whole(measured: MeasuredResult) -> float:
    return max(measured.result.value, measured.whole or 0.0)


def _ceiling(name: str, kind: str, from_: MeasuredResult, value: float, peer: str, where: str) -> Ceiling:
    most = max(from_.repeats)
    spread = (most - min(from_.repeats)) / most if most else 0.0
    return Ceiling(
        name=name,
        kind=kind,
        level="network",
        precision="",
        width=0,
        value=value,
        unit=from_.result.unit,
        spread=spread,
        method=from_.result.method + where,
        time_ns=from_.result.time_ns,
        median=from_.result.value,
        peer=peer,
        doubt=_doubt(kind, from_.repeats, spread),
    )


def _doubt(kind: str, repeats: Sequence[float], spread: float) -> str:
    if spread <= DISTURBED:
        return ""
    if kind == "network" and len(repeats) > 2 and list(repeats) == sorted(repeats):
        return f"{GROWING}, by {spread:.0%} over the measurement: TCP's slow start"
    return f"the repeats differ by {spread:.0%}: something else used network or CPUs"


def disturbed(found: Iterable[Ceiling]) -> list[str]:
    """Notes on ceilings whose repeats differ more than those of a quiet network do."""
    return [f"{c.name}: {c.doubt}; measure again {_how(c)}" for c in found if c.doubt]


def _how(ceiling: Ceiling) -> str:
    growing = ceiling.doubt.startswith(GROWING)
    return "for longer (--seconds)" if growing else "when both nodes are idle"


def merged(kept: Iterable[Ceiling], new: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """A new run replaces what was kept of the same peer."""
    peers = {ceiling.peer for ceiling in new}
    return (*(ceiling for ceiling in kept if ceiling.peer not in peers), *new)
