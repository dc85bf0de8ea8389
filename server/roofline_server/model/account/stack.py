"""A step divided by the layers of the software stack: launcher, framework, communication, compute.

Dividing overhead by layer is Lu's idea (Bench 2018); the assignment of parts of the account (account.py) to
layers is ours. A launcher works once, before the first step: each step gets its share of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from roofline.answers.values import Provenance

from .account import Account

LAUNCHER, FRAMEWORK, COMMUNICATION, COMPUTE, REST = (
    "launcher",
    "framework",
    "communication",
    "compute",
    "rest",
)
_LAYER_OF = {
    "compute": COMPUTE,
    "input": FRAMEWORK,
    "host": FRAMEWORK,
    "gc": FRAMEWORK,
    "transfer": COMMUNICATION,
    "wait_ranks": COMMUNICATION,
    "wait_ps": COMMUNICATION,
}
_ORDER = (LAUNCHER, FRAMEWORK, COMMUNICATION, COMPUTE, REST)


class StackLayer(NamedTuple):
    """seconds: of the mean step."""

    name: str
    seconds: float
    provenance: Provenance


def stack(
    accounts: Sequence[Account], before_s: Sequence[float | None], steps: Sequence[int]
) -> list[StackLayer]:
    """Means over the steps of these ranks. What cannot be told apart has the names of both layers.

    before_s: of each rank, the time from its start to its first step; steps: how many it has done in all.
    """
    count = sum(len(one.duration) for one in accounts)
    seconds: dict[str, float] = {}
    origins: dict[str, Provenance] = {}
    for one in accounts:
        for part, values in one.parts.items():
            name = layer_of(part)
            seconds[name] = seconds.get(name, 0.0) + float(values.sum()) / count
            if origins.get(name) != Provenance.ESTIMATED:
                origins[name] = one.provenance[part]
    known = [(before, done) for before, done in zip(before_s, steps, strict=True) if before is not None]
    if known and sum(done for _, done in known):
        seconds[LAUNCHER] = sum(before for before, _ in known) / sum(done for _, done in known)
        origins[LAUNCHER] = Provenance.MEASURED
    return [StackLayer(name, seconds[name], origins[name]) for name in sorted(seconds, key=_place)]


def layer_of(part: str) -> str:
    """The layer that a part of an account is of; "compute or framework" where it can be of either."""
    layers = [_LAYER_OF.get(one, REST) for one in part.split("|")]
    return " or ".join(sorted(dict.fromkeys(layers), key=_ORDER.index))


def _place(name: str) -> tuple[int, str]:
    return _ORDER.index(name.partition(" or ")[0]), name
