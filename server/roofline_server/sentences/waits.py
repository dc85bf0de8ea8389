"""Who waits for whom, and what a straggler loses its time with."""

from __future__ import annotations

from collections.abc import Mapping

from .wording import duration, many

# How it was seen that ranks wait for each other.
SEEN_BY: Mapping[str, str] = {
    "communicate": "by arrival time at the collective",
    "kernels": "by when the last kernel of each rank had ended",
    "join": "by when each worker's part of the step had ended",
}
ALONE = "it is the only rank: no rank waits"
INDEPENDENT = "its ranks step independently of each other"
NOT_SEEN = (
    "when its ranks wait for each other is not seen: no hook marks it, and not all kernels were recorded"
)


def seldom_seen(seen: int, steps: int) -> str:
    """Of ranks of which only kernels show how long they wait, and those of few steps were recorded."""
    return f"it was seen in {seen} of {many(steps, 'steady step')}, those with recorded kernels"


# -- verdicts -----------------------------------------------------------------------------------------------


NO_RANK_WAITS = "no rank waits for another: they step independently"


def only(rank: str) -> str:
    return f"{rank} is the only rank: no rank waits"


def unknown(why: str) -> str:
    return f"who waits for whom is not known: {why}"


# -- parameter servers --------------------------------------------------------------------------------------


def server_stopped(share: float) -> str:
    return f"its process was stopped for {share:.0%} of the time"


def server_in_use(share: float, demand: float, of_several: str = "") -> str:
    """demand: seconds a step. of_several: which server of those that are meant; "": the only one."""
    return (
        f"{of_several or 'it'} is in use at least {share:.0%} of the time, {duration(demand)} for each step"
    )


def workers_wait(share: float) -> str:
    return f"workers were seen to wait for it at least {share:.0%} of the time"


def server_held_back(share: float) -> str:
    return f"it had no CPU for {share:.0%} of the time in which it had work"


def server_throttled(share: float) -> str:
    return f"its CPU limit (cgroup) held it back for {share:.0%} of the time"


def more_than_it_needs(seconds: float, beside: str) -> str:
    """seconds: a step, of all CPUs of the node."""
    return (
        f"at least {duration(seconds)} more of the node's CPU time a step than {beside}, which holds as much"
    )


def uneven_bytes(rank: str, share: float) -> str:
    return f"{rank} gets {share:.0%} of the bytes that workers push"


# -- notes --------------------------------------------------------------------------------------------------

NOBODY_WAITS = "the ranks step independently: a slow one only does fewer steps, nobody waits for it"
BY_LAST_KERNEL = "the end of a rank's last kernel stands for its arrival: what follows counts as held"

# -- why a value is absent ----------------------------------------------------------------------------------

NO_ARRIVALS = "when its ranks wait for each other is not seen"
NO_CPU_TIME = "no CPU time was read"
NO_SCHEDULER = "the kernel's scheduler statistics were not read"
NO_WORKER_CONNECTIONS = "its connections to workers were not read"
NO_WAITS = "neither its connections nor the workers' threads were read"
NO_STATE = "its state was not read"
