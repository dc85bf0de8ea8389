"""Sentences of a verdict: what costs a job time, how that is known, and what bounds a healthy job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.texts import listed

from .wording import duration, times

EVERY_RANK = "every rank"

# Kind of cause -> what it is; {}: where.
_FINDINGS: Mapping[str, str] = {
    "input": "slow input on {}",
    "more_work": "more work on {} than on the others",
    "slower": "slower computing on {}: no more work, but it takes longer",
    "memory_bandwidth": "memory bandwidth on {}: kernels wait for DRAM",
    "host": "Python or framework code on {}: CPU time outside kernels",
    "gpu_idle": "GPU idle on {}: it waits for the host",
    "gc": "Python garbage collection on {}",
    "contention": "CPU contention on {}: other processes use its CPUs",
    "contention_unknown": "CPU contention on {}: whose processes use its CPUs is not known",
    "contention_own": "CPU contention on {}: the job has more runnable threads than CPUs",
    "stopped": "{} stopped, by a signal or a debugger",
    "throttled": "CPU limit of a cgroup: it throttles {}",
    "paging": "page faults on {}: its memory comes from disk or swap",
    "disk": "disk reads on {}",
    "transfer": "communication: data transfer takes long",
    "network": "network: the links are at their limit",
    "slow_link": "slow network link of {}: what it sends is held up",
    "input|blocked": "{} waits for input, sleeps or is blocked: what it waits for is not traced",
    "blocked": "{} sleeps, or is blocked on something not traced",
    "evaluates": "{} evaluates between steps, and the others wait",
    "saves": "{} saves a checkpoint between steps, and the others wait",
    "busy_alone": "{} does something else between steps, and the others wait",
    "evaluation": "{} spends much of the time on evaluations between steps",
    "checkpoint": "{} spends much of the time on checkpoints between steps",
    "between": "{} spends much of the time between steps",
    "server_overloaded": "overloaded parameter server {}",
    "server_skewed": "uneven parameter servers: {} gets most of the bytes",
    "server_slow": "slow parameter server {}: it lacks CPUs",
    "server_work": "more work on parameter server {} than its variables need",
}

# What ranks do between their steps -> kind of cause, where some do it alone, and where all do.
_BREAKS: Mapping[str, tuple[str, str]] = {
    "evaluation": ("evaluates", "evaluation"),
    "checkpoint": ("saves", "checkpoint"),
    "other": ("busy_alone", "between"),
}

# Part of an account -> its name in a sentence.
PARTS: Mapping[str, str] = {
    "input": "input",
    "compute": "kernels",
    "host": "CPU time outside kernels",
    "gpu_idle": "idle GPU",
    "gc": "garbage collection",
    "contention": "time runnable without a CPU",
    "stopped": "time stopped",
    "throttled": "time throttled",
    "paging": "page faults",
    "disk": "disk reads",
    "transfer": "communication",
    "wait_ranks": "waiting for other ranks",
    "wait_ps": "waiting for parameter servers",
    "blocked": "time off the CPU",
    "other": "unexplained time",
}

_WHY: Mapping[str, str] = {
    "few_steps": "few steady steps",
    "profiled": "ncu slowed the start of every kernel",
    "replay_differs": "the replay differs from the measured steps",
    "unattributed": "over 10 % of the time is unexplained",
    "passing": "seen in only part of the run",
    "few_stretches": "seen only once or twice",
    "more_is_lost": "most of the lost time has another cause",
}


def who(ranks: Sequence[str]) -> str:
    return listed(ranks, 3) if ranks else EVERY_RANK


def finding(kind: str, ranks: Sequence[str]) -> str:
    """ "slow input on ddp:1"; no ranks: it is about all."""
    return _FINDINGS.get(kind, "{}: " + kind).format(who(ranks))


def kind_of_break(what: str, alone: bool) -> str:
    """what: ranks do between their steps; alone: some of them, and the others wait."""
    return _BREAKS.get(what, _BREAKS["other"])[0 if alone else 1]


def why_low(reasons: Sequence[str]) -> str:
    return ", ".join(_WHY.get(reason, reason) for reason in reasons)


# -- headlines ----------------------------------------------------------------------------------------------


def healthy(part: str, share: float, of_roof: float | None) -> str:
    """part: what most of the step goes to."""
    if part == "other":
        return f"healthy as far as known: {share:.0%} of the step is unexplained"
    roof = f", kernels at {of_roof:.0%} of their roof" if of_roof is not None else ""
    return f"healthy: bound by {parts_named(part)} ({share:.0%} of the step{roof})"


def unclear(lost: float, share: float) -> str:
    if not lost > 0:
        return "no single cause"
    return f"no single cause: ranks wait {duration(lost)} a step ({share:.0%}) for each other"


def uneven(part: str, share: float) -> str:
    """What most of the step goes to, though a job could do without it."""
    varies = "varies too much to say what it costs"
    return f"not certain: {parts_named(part)} is {share:.0%} of the step, but {varies}"


def too_few_steps(steps: int) -> str:
    if not steps:
        return "not known: no steps were seen"
    return f"not known: {steps} steady step{'s are' if steps > 1 else ' is'} too few"


def not_explained(share: float) -> str:
    return f"not known: {share:.0%} of the step is unexplained"


def waits_not_seen(why: str) -> str:
    return f"not known who waits for whom: {why}"


HEALTHY = "healthy: nothing holds it up"


def next_gain(part: str, roof_known: bool = True) -> str:
    """Of a healthy job: the part of a step that there is most to save of."""
    if part == "compute":
        return "kernels slower than their roof allows" if roof_known else "kernels of the GPU"
    if part == "compute|transfer":
        more = ", slower than the roof allows" if roof_known else ""
        return f"kernels and communication of the GPU{more}"
    return f"{parts_named(part)}, not overlapped with kernels"


def parts_named(part: str) -> str:
    """ "input or CPU time outside kernels" of "input|host"."""
    return " or ".join(PARTS.get(name, name) for name in part.split("|"))


# -- evidence -----------------------------------------------------------------------------------------------


def more_than_others(part: str, seconds: float) -> str:
    return f"{duration(seconds)} more {parts_named(part)} a step than the other ranks"


def amid_communication(part: str, seconds: float) -> str:
    return f"{duration(seconds)} a step of {parts_named(part)} during communication, which holds up all ranks"


def on_every_rank(part: str, seconds: float, ranks: int) -> str:
    mean = ", mean of the ranks" if ranks > 1 else ""
    return f"{duration(seconds)} a step of {parts_named(part)}{mean}"


def between_steps(kind: str, stretches: int, seconds: float, alone: bool) -> str:
    """kind: evaluation, checkpoint, other; seconds: of each."""
    one, several = {"other": ("stretch", "stretches")}.get(kind, (kind, f"{kind}s"))
    each = f"1 {one} of {duration(seconds)}"
    if stretches > 1:
        each = f"{stretches} {several} of {duration(seconds)} each"
    return f"{each} between its steps; the others have none" if alone else f"{each} between steps"


def rate_of_some(which: str) -> str:
    """which: "of the 1 of 4 ranks whose examples are known"."""
    return f"examples/s {which}"


def beside(ranks: Sequence[str], share: float, seconds: float) -> str:
    """share: of the time; of the rank with most."""
    more = "" if len(ranks) == 1 else "up to "
    time = f"{more}{share:.0%} of the time of {listed(ranks, 2)} ({duration(seconds)} a step)"
    return f"{time} is between steps, where nothing is traced"


def work(ratio: float) -> str:
    if abs(ratio - 1) < 0.05:
        return "it does the same work as the others (examples, FLOPs, bytes)"
    return f"its work is {times(ratio)} that of the others"


def foreign(cpus: float, host: str) -> str:
    return f"other processes keep {cpus:.1f} CPUs of {host} busy"


# -- lines of the first screen ------------------------------------------------------------------------------


def under_roof(role: str, share: float, parts: float, precision: str, side: str) -> str:
    """share: of its part of the roof, one of `parts`; side: kind of the ceiling, compute or memory."""
    roof = f"its {1 / parts:.0%} of the {precision} roof" if parts > 1 else f"the {precision} roof"
    reached = "less than 1%" if 0 < share < 0.005 else f"{share:.0%}"
    return f"{role} at {reached} of {roof}, on its {side} side"


def gpu_use(role: str, busy: float, of_bandwidth: float | None, tensor: float | None) -> str:
    """Shares of the time of steps, and of the measured bandwidth of the GPU's memory."""
    found = [f"{role}: GPU busy {busy:.0%} of the time"]
    if of_bandwidth is not None:
        found.append(f"its memory at {of_bandwidth:.0%} of the measured bandwidth")
    if tensor is not None:
        found.append(f"tensor cores active {tensor:.0%}")
    return ", ".join(found)


def no_place_under_roof(role: str, why: str) -> str:
    return f"{role}: no place under the roof: {why}"
