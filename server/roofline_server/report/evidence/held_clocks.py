"""GPUs of ranks whose clocks were held down by what nobody wants: heat, and lack of power."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...store.view import JobView, once
from ..ranks.members import name_of

METRIC = ("gpu", "throttle_reasons")
# Bits that tell of a fault. At its limit of power (power_cap) a GPU that works hard is always.
FAULTS = ("hw_thermal", "sw_thermal", "power_brake", "hw_slowdown")
LEAST = 0.05  # of the samples: less is worth no word


class HeldClock(NamedTuple):
    """shares: by bit, of the samples of this GPU over the job."""

    rank: str
    gpu: str
    shares: Mapping[str, float]


@once
def held_clocks(view: JobView) -> list[HeldClock]:
    """GPUs that one rank alone used and whose clocks were held down for a notable time, by rank."""
    found = []
    for part in view.parts:
        if part.rank not in view.ranks or (part.metric.counter_set, part.metric.name) != METRIC:
            continue
        shares = {bit: share for bit in FAULTS if (share := (part.shares or {}).get(bit, 0.0)) >= LEAST}
        if shares.keys() & {"hw_thermal", "power_brake"}:
            shares.pop("hw_slowdown", None)  # it is set with these
        if shares:
            found.append((view.ranks[part.rank], HeldClock(name_of(view, part.rank), part.instance, shares)))
    return [one for _, one in sorted(found, key=lambda pair: (pair[0], pair[1].gpu))]
