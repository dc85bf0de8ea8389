"""Notes of the table of steps and of the timeline: which rows are blurred, which ranks have none and why."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.phrases import steps_left_out
from roofline.texts import listed

from .wording import duration, first_of

_MARK = "mark steps with roofline_step.step(k) or give `roofline-agent run --step-regex`"

# -- why a rank has no steps --------------------------------------------------------------------------------

NOTHING_SERVED = "it has none of its own, and no worker's steps are known"
NO_AGENT = "only its coordinator reported it, and no step"
NOT_MARKED = f"none were marked; start it with `roofline-agent run`, or {_MARK}"

NO_HOOK = (
    "none were marked: no framework with a hook was imported, or Python ran with -I, -E or -S, which keep "
    f"hooks out; {_MARK}"
)


def refused(what: str) -> str:
    """what: marks that were refused on its node at that time."""
    return f"none were received; on its node {what} was refused at that time; {_MARK}"


def failed_hooks(hooks: Sequence[tuple[str, str]]) -> str:
    """hooks: (name, how it failed)."""
    states = "; ".join(f"hook {name} {state}" for name, state in hooks)
    return f"{states}; {_MARK}"


def idle_hooks(names: Sequence[str]) -> str:
    one = len(names) == 1
    hooks = f"hook {names[0]} was" if one else f"hooks {', '.join(names)} were"
    return f"{hooks} installed but no step happened that {'it sees' if one else 'they see'}; {_MARK}"


def may_wait_for(ranks: Sequence[str], missing: int) -> str:
    """ranks: the first of those that were not seen; missing: how many there are."""
    was, they = ("was", "it has") if missing == 1 else ("were", "they have")
    who = listed(ranks) if missing == len(ranks) else f"{missing} ranks ({first_of(ranks, 4)})"
    return (
        f"no step happened that hooks see. Perhaps the ranks wait for {who}, which {was} not seen: look "
        f"whether {they} started. Else {_MARK}"
    )


def no_steps_of(ranks: Sequence[str], why: str) -> str:
    return f"no steps of {listed(ranks)}: {why}"


def none_in_range(
    ranks: Sequence[str], first: int | None, last: int | None, known: tuple[int, int] | None
) -> str:
    """first, last: asked for, None: no bound; known: steps of the job, None: it has none."""
    job = "the job has no steps" if known is None else f"the job has steps {known[0]} to {known[1]}"
    begin = "the first" if first is None else first
    end = "the last" if last is None else last
    return f"{listed(ranks)}: no step from {begin} to {end}; {job}"


def all_count(steps: int) -> str:
    return f"no rank has more than {steps} steps: too few to tell warm-up, so the first counts too"


# -- what rows are ------------------------------------------------------------------------------------------


def windows_of_time(ranks: Sequence[str], seconds: float) -> str:
    windows = f"windows of at most {seconds:g} s (column window_of: time)"
    return f"rows of {listed(ranks)} are not steps but {windows}"


def shorter_than_sampling(short: int, steps: int, intervals_ns: Sequence[int]) -> str:
    share = "all" if short == steps else f"{short / steps:.0%}"
    each = " and ".join(f"{interval / 1e6:g} ms" for interval in intervals_ns)
    return (
        f"{share} of the steps are shorter than the sampling interval ({each}): "
        "their counters are averages over the samples around them (column samples: how many lie inside)"
    )


def united_steps(ranks: Sequence[str]) -> str:
    """Of ranks that serve in synchronous training."""
    union = "a row lasts from the first worker's start of a step to the last worker's end"
    return f"no steps of their own, {listed(ranks)}: {union}"


def overlapping_steps(ranks: Sequence[str]) -> str:
    overlap = "a row is one worker's step (column window_of), and these overlap"
    return f"no steps of their own, {listed(ranks)}: {overlap}"


def collectives_of_some(ranks: Sequence[str], known: int, steps: int) -> str:
    blocked = "of the others the framework reports only how long the rank was blocked"
    return f"collectives of {first_of(ranks)}: known in {known} of {steps} steps; {blocked}"


def replayed(steps: str) -> str:
    """steps: of `notes.replayed`."""
    return f"ncu replayed {steps}: its time means nothing"


# -- timeline -----------------------------------------------------------------------------------------------

NO_KERNELS = "no kernels were recorded: start ranks with `roofline-agent run -- CMD`"


def kernels_shown(shown: int, kernels: int) -> str:
    return f"only {shown:,} of {kernels:,} kernels: choose steps or ranks to see the others"


def left_out(steps: Sequence[tuple[str, int, float]]) -> str:
    """steps: for each reason how many steps of a rank, and how long they took, seconds."""
    some = [f"{steps_left_out(count, reason)} ({duration(lasted)})" for reason, count, lasted in steps]
    return f"left out: {', '.join(some)}; --steps all has every step"
