"""Two jobs side by side, in words."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.texts import listed

from .verdict import parts_named
from .wording import duration, enumerated, number

NO_STEPS = "what differs in speed is not known: {} has no steps"
SAME_SETTINGS = "no recorded setting, tag or size differs"
ONE_RUN_EACH = "intervals cover variation within a run, not the variation between runs with the same settings"


def faster(first: str, second: str, ratio: float, low: float | None, high: float | None, noise: bool) -> str:
    """ratio: throughput of the second job over that of the first."""
    how = f"{second} is {number(ratio)}x as fast as {first}"
    if low is None or high is None:
        return f"{how} (too few steps for an interval)"
    interval = f"{number(low)}x to {number(high)}x"
    return f"{second} is as fast as {first}, within noise ({interval})" if noise else f"{how} ({interval})"


def with_other_sizes(sizes: Sequence[str], ratio: float, has_interval: bool, noise: bool) -> str:
    """What follows where a step is not as much work in both jobs. sizes: "64 ranks instead of 4"; ratio: step
    of the second over that of the first."""
    how = f"{number(ratio)}x as long"
    if not has_interval:
        how += " (too few steps for an interval)"
    elif noise:
        how = "as long, within noise"
    return f", with {enumerated(sizes)}; its steps take {how}"


def longer(first: str, second: str, ratio: float, low: float | None, high: float | None, noise: bool) -> str:
    """How much longer steps are, of jobs with other numbers of ranks, whose examples are not known. ratio:
    step of the second over that of the first."""
    if low is None or high is None:
        how, interval = f"{number(ratio)}x as long", "too few steps for an interval"
    else:
        how = "as long" if noise else f"{number(ratio)}x as long"
        interval = f"{'within noise, ' if noise else ''}{number(low)}x to {number(high)}x"
    return f"steps of {second} take {how} as those of {first} ({interval}), and may do more work"


def mostly(parts: Sequence[tuple[str, float]], unsure: tuple[str, float] | None = None) -> str:
    """parts: those that changed most, with how many s a step; unsure: one that changed more, perhaps by
    chance; neither: "" """
    found = [f"{listed([_changed(*part) for part in parts], 3)} a step"] if parts else []
    found += [f"{_changed(*unsure)} a step, which varies too much to be sure"] if unsure else []
    return f": {'; '.join(found)}" if found else ""


def _changed(part: str, change: float) -> str:
    return f"{parts_named(part)} {'+' if change > 0 else '-'}{duration(abs(change))}"


def added_up(parts: Sequence[str]) -> str:
    named = listed([parts_named(part) for part in parts])
    return f"compared as one part, because one job does not separate them: {named}"


def other_mode(first: str, second: str) -> str:
    return f"the first job is {first or 'without steps'}, the second {second or 'without steps'}"
