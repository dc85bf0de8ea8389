"""What the profiler itself costs, in words."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.texts import listed

from .wording import number, two_digits

UPPER_BOUND = (
    "CPU time counts as if it were taken from the training, in shares of all CPUs of the node; "
    "parts that are not known are left out"
)
NOTHING_KNOWN = "no agent reported its CPU time, no hook its time, and no steps were sampled"
NO_AGENT_CPU = "no agent reported its CPU time"
NO_WRAPPER = "no rank was started by `roofline-agent run`, or it ended too soon to tell"
NO_HOOKS = "no hook reported its time"
KERNELS_OF_ALL = "kernels were not sampled by steps"
PRINTED = "the lines of kernels that are printed, at 5 us each"
SWITCHED = "no lines of kernels are printed, or only in recorded steps"
NO_DIFFERENCE = "too few steps with and without recorded kernels to compare"


def agent(cores: float) -> str:
    return f"agent {_percent(cores)} of a core"


def wrapper(cores: float) -> str:
    return f"wrappers {_percent(cores)} of a core"


def hooks(seconds: float) -> str:
    """seconds: a step."""
    return f"hooks {number(seconds * 1e6)} us a step"


def kernels(one_in: int, slower: float | None) -> str:
    """slower: by how much a step is whose kernels are recorded; None: not known."""
    text = f"kernels of 1 step in {one_in}" if one_in > 1 else "kernels of every step"
    return text if slower is None else f"{text}, {slower:+.1%} each"


def printed(lines_per_s: float, share: float) -> str:
    """Lines of kernels in all steps."""
    return f"about {_percent(share)} to print {lines_per_s:,.0f} lines of kernels a second"


def printing(ranks: Sequence[str], lines_per_s: float, share: float) -> str:
    """A note. share: of the time of the rank that prints most."""
    do = "print" if len(ranks) > 1 else "prints"
    return (
        f"{listed(ranks, 2)} {do} up to {lines_per_s:,.0f} lines of kernels a second, which takes about "
        f"{_percent(share)} of the time; `roofline-agent run --no-kernels` avoids that, but then FLOPs and "
        "kernels are not known"
    )


def in_all(share: float, parts: Sequence[str]) -> str:
    """share: of the training's time."""
    return f"The profiler itself: {_percent(share)} of the training's time: {', '.join(parts)}"


def _percent(share: float) -> str:
    return f"{two_digits(share * 100)}%"
