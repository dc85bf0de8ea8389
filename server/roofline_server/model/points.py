"""Points of a roofline: what something reached, held against the roofs of where it ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .roofline import NETWORK, Limits
from .values import Provenance, Scope, Value, value


class Held(NamedTuple):
    """Something against its roofs. bound: names of the ceilings that bind; "": unknown, `why` says why.

    attainable: FLOP/s under them, all places together; headroom: attainable over reached; share: the inverse.
    """

    bound: str
    attainable: Value
    headroom: Value
    share: Value
    why: str = ""


def against(intensity: Value, reached: Value, level: str, limits: Sequence[Limits]) -> Held:
    """intensity: FLOP per byte of the level; reached: FLOP/s of all together. limits: of the places where it
    computed, each once: their roofs add up."""
    why = _why_not(intensity, reached, level, limits)
    if why or intensity.value is None or reached.value is None:
        return _unknown(why)
    x = intensity.value
    attainable = sum(limit.attainable(x, level) or 0.0 for limit in limits)
    bound = dict.fromkeys(c.name for c in (limit.binding(x, level) for limit in limits) if c is not None)
    notes = (n for limit in limits for n in (limit.note, limit.network_note * (level == NETWORK)) if n)
    note = "; ".join(dict.fromkeys((_of_what(limits, level), *notes)))

    def derived(number: float, unit: str) -> Value:
        return value(number, unit, Provenance.ESTIMATED, Scope.NODE, reason=note)

    return Held(
        ", ".join(bound),
        derived(attainable, "FLOP/s"),
        derived(attainable / reached.value, "1"),
        derived(reached.value / attainable, "1"),
    )


def _why_not(intensity: Value, reached: Value, level: str, limits: Sequence[Limits]) -> str:
    """Why there is nothing to hold, or nothing to hold it against; "": there is."""
    for known, what in ((reached, "FLOP/s"), (intensity, "FLOP/byte")):
        if known.value is None:
            return known.reason
        if known.value < 0:
            return f"{known.value:.3g} {what}: a counter ran backwards"
        if known.value == 0:
            return "it did no FLOPs"
    lacking = dict.fromkeys(limit.lacks(level) for limit in limits if limit.lacks(level))
    return "; ".join(lacking) or ("" if limits else "it is not known where it ran")


def _unknown(why: str) -> Held:
    absent = Value(None, "1", reason=why)
    return Held("", Value(None, "FLOP/s", reason=why), absent, absent, why)


def _of_what(limits: Sequence[Limits], level: str) -> str:
    if any(limit.device for limit in limits):
        what = "of the whole GPU" if len(limits) == 1 else f"of all {len(limits)} GPUs"
        return f"{what}, and of the node's network" if level == NETWORK else what
    return "of the whole node" if len(limits) == 1 else f"of all {len(limits)} nodes of the role"
