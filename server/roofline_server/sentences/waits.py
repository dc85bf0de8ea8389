"""Who waits for whom, and what a straggler loses its time with."""

from __future__ import annotations

from collections.abc import Mapping

from .wording import duration

# How it was seen that ranks wait for each other.
SEEN_BY: Mapping[str, str] = {
    "communicate": "by when each rank was blocked in communication",
    "kernels": "by when the last kernel of each rank had ended",
    "join": "by when each worker's part of the step had ended",
}
ALONE = "it trains alone: there is nobody to wait for"
INDEPENDENT = "its ranks step independently of each other"
NOT_SEEN = "when its ranks wait for each other is not seen: no hook tells, and not all kernels were recorded"

# -- verdicts -----------------------------------------------------------------------------------------------

NONE = "no rank holds the others up"
_COSTS: Mapping[str, str] = {  # by kind of cause
    "input": "its input costs {} a step ({:.0%})",
    "cpu": "it has too little CPU, which costs {} a step ({:.0%})",
    "compute": "it computes longer than the others, which costs {} a step ({:.0%})",
    "delay": "it is late without computing, which costs {} a step ({:.0%})",
    "server_overloaded": "it is overloaded, which costs the workers {} a step ({:.0%})",
    "server_skewed": "it holds more than its part, which costs the workers {} a step ({:.0%})",
    "server_slow": "it lacks CPU time, which costs the workers {} a step ({:.0%})",
    "stopped": "its process is stopped again and again, which costs {} a step ({:.0%})",
}


def straggler(rank: str, kind: str, cost: float, share: float) -> str:
    """cost: seconds a step; share: of a step."""
    return f"{rank}: {_COSTS[kind].format(duration(cost), share)}"


def unknown(why: str) -> str:
    return f"who waits for whom is not known: {why}"


def too_few_steps(steps: int) -> str:
    return f"too few steps to tell who holds whom up: {steps}"


def for_none_in_particular(waited: float, share: float) -> str:
    return f"ranks wait {duration(waited)} a step ({share:.0%}) for each other, for none in particular"


# -- evidence -----------------------------------------------------------------------------------------------

_MORE: Mapping[str, str] = {  # by what a rank has more of than the others
    "input": "it waits {} a step longer for input than the others",
    "lead": "its first kernel comes {} later in the step than the others'",
    "starved": "it lacks a CPU {} a step longer",
    "kernels": "its kernels take {} a step longer",
    "cpu": "it uses {} more CPU time a step",
}
INPUT_OR_ELSE = "nothing tells input apart from what else comes before the first kernel"
NO_CAUSE = "it neither computed nor waited for a CPU or input: it slept, or waited unseen"


def more_than_others(what: str, seconds: float) -> str:
    return _MORE[what].format(duration(seconds))


def came_last(times: int, steps: int, cost: float) -> str:
    return f"it came last in {times} of {steps} steps, on average {duration(cost)} after the others"


def slower(median: float, others: float) -> str:
    return f"its median step takes {duration(median)}, that of the others {duration(others)}"


def waits_for_input(waited: float, step: float) -> str:
    return f"it waits {duration(waited)} of its {duration(step)} step for input"


def stopped(share: float) -> str:
    return f"its process was stopped in {share:.0%} of its steps"


# -- parameter servers --------------------------------------------------------------------------------------


def server_stopped(share: float) -> str:
    return f"its process was stopped in {share:.0%} of the readings"


def server_in_use(share: float, demand: float) -> str:
    """demand: seconds a step."""
    return f"it is in use at least {share:.0%} of the time, {duration(demand)} for each step"


def workers_wait(share: float) -> str:
    return f"workers were seen to wait for it at least {share:.0%} of the time"


def server_held_back(share: float) -> str:
    return f"it had no CPU for {share:.0%} of the time in which it had work"


def uneven_bytes(rank: str, share: float) -> str:
    return f"{rank} gets {share:.0%} of the bytes that workers push"


# -- notes --------------------------------------------------------------------------------------------------

NOBODY_WAITS = "the ranks step independently: nobody waits for a slow one, it only does fewer steps"
BY_LAST_KERNEL = "the end of a rank's last kernel stands for its arrival: what follows counts as held"

# -- why a value is absent ----------------------------------------------------------------------------------

NO_ARRIVALS = "when its ranks wait for each other is not seen"
NO_CPU_TIME = "no CPU time was read"
NO_SCHEDULER = "the kernel's scheduler statistics were not read"
NO_WORKER_CONNECTIONS = "its connections to workers were not read"
NO_WAITS = "neither its connections nor the workers' threads were read"
NO_STATE = "its state was not read"
