"""Caveats of measured ceilings: whatever disturbs a run takes away from it, so one can be too low.

Pure. A ceiling is doubted where another one of the same calibration shows that the machine can do better, and
where its own runs differ much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.records import Provenance

_LEVELS = ("l1", "l2", "l3", "dram")
_CLEARLY = 1.1  # by so much another is higher before it counts
# Wide vectors may slow the clock down, and some CPUs have one unit for them and two for narrow ones.
_CLEARLY_NARROW = 1.6
_SHORT = 0.2  # where half of the runs fall short of the best by more, it may have been disturbed too
_ONE = ".one"


def doubted(ceilings: Sequence[Ceiling]) -> tuple[Ceiling, ...]:
    """The same ceilings, each with its caveats by them and by its own runs."""
    return tuple(c._replace(doubt=_against(c, ceilings)) if _is_measured(c) else c for c in ceilings)


def also(ceilings: Iterable[Ceiling], why: str) -> tuple[Ceiling, ...]:
    """These ceilings, where those that were measured have one more reason for doubt; "": none."""
    return tuple(
        c._replace(doubt="; ".join(filter(None, (c.doubt, why)))) if _is_measured(c) else c for c in ceilings
    )


def too_low(new: Ceiling, before: Iterable[Ceiling]) -> list[str]:
    """Names of those, `new` among them, that should be measured again now that `new` is known."""
    every = [*before, new]
    found = [c.name for c in every if c is not new and _shows_low(new, c)]
    if _against(new, every):
        found.append(new.name)
    return found


def _against(one: Ceiling, others: Iterable[Ceiling]) -> str:
    reasons = [f"{other.name} was measured higher" for other in others if _shows_low(other, one)]
    if one.median is not None and one.median < (1 - _SHORT) * one.value:
        reasons.append(f"half of its runs fell short by {1 - one.median / one.value:.0%} or more")
    return "; ".join(reasons)


def _shows_low(other: Ceiling, one: Ceiling) -> bool:
    """Whether `other`, which cannot be the higher of the two, was measured clearly higher."""
    if other.device or one.device or not _is_measured(other) or other.operation != one.operation:
        return False
    if _is_harder(one, other) or other.name == one.name + _ONE:
        return other.value > _CLEARLY * one.value
    if one.kind != "compute" or other.kind != "compute" or one.threads != other.threads:
        return False
    is_narrower = other.precision == one.precision and 0 < other.width < one.width
    return is_narrower and other.value > _CLEARLY_NARROW * one.value


def _is_measured(one: Ceiling) -> bool:
    return one.provenance == Provenance.MEASURED


def _is_harder(one: Ceiling, other: Ceiling) -> bool:
    """Whether the other is a level of memory further out, on as many CPUs. DRAM is written to in another way
    than caches are, so only reading compares."""
    if one.kind != "memory" or other.kind != "memory" or one.threads != other.threads:
        return False
    if one.level not in _LEVELS or other.level not in _LEVELS:
        return False
    comparable = other.level != "dram" or one.operation == "read"
    return comparable and _LEVELS.index(other.level) > _LEVELS.index(one.level)
