"""Sentences of a verdict: what costs a job time, how that is known, and what bounds a healthy job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roofline.texts import listed

from .wording import are, duration, enumerated, many, times

EVERY_RANK = "every rank"
NAMED = 3  # ranks of a finding

# Kind of cause -> what it is. {who}: where; {s}, {it}, ...: what differs where several ranks are named.
_FINDINGS: Mapping[str, str] = {
    "input": "slow input on {who}",
    "more_work": "more work on {who} than on the others",
    "slower": "slower computing on {who}: no more work, but it takes longer",
    "memory_bandwidth": "memory bandwidth on {who}: kernels wait for DRAM",
    "host": "Python or framework code on {who}: CPU time outside kernels",
    "cpu_time": "more CPU time on {who}: in kernels or in Python, which cannot be separated",
    "gpu_idle": "GPU{plural} idle on {who}: {it} wait{s} for the host",
    "gc": "Python garbage collection on {who}",
    "contention": "CPU contention on {who}: other processes use {its} CPUs",
    "contention_unknown": "CPU contention on {who}: whose processes use {its} CPUs is not known",
    "contention_own": "CPU contention on {who}: the job has more runnable threads than CPUs",
    "contention_bound": "CPU contention on {who}: {it} lack{s} CPUs, though most of {its} node's are idle",
    "stopped": "{who} stopped, by a signal or a debugger",
    "throttled": "CPU limit of a cgroup: it throttles {who}",
    "paging": "page faults on {who}: {its} memory comes from disk or swap",
    "disk": "disk reads on {who}",
    "transfer": "communication: data transfer takes long",
    "unseen_ranks": "communication, or waiting for ranks that were not seen",
    "after_kernels": "{who} spend{s} long after {its} kernels: on communication, or on what is not traced",
    "network": "network: the links are at their limit",
    "slow_link": "slow network link{plural} of {who}: what {it} send{s} is held up",
    "input|blocked": (
        "{who} wait{s} for input, sleep{s} or {are} blocked: what {it} wait{s} for is not traced"
    ),
    "blocked": "{who} sleep{s}, or {are} blocked on something not traced",
    "unexplained": "{who} take{s} longer, and nothing that was measured tells for what",
    "evaluates": "{who} evaluate{s} between steps, and the others wait",
    "saves": "{who} save{s} a checkpoint between steps, and the others wait",
    "busy_alone": "{who} {does} something else between steps, and the others wait",
    "evaluation": "{who} spend{s} much of the time on evaluations between steps",
    "checkpoint": "{who} spend{s} much of the time on checkpoints between steps",
    "without_gradients": (
        "{who} spend{s} much of the time between steps without gradients (evaluation, rollouts, a teacher "
        "model)"
    ),
    "between": "{who} spend{s} much of the time between steps",
    "server_overloaded": "overloaded parameter server{plural} {who}",
    "server_skewed": "uneven parameter servers: {who} get{s} most of the bytes",
    "server_slow": "slow parameter server{plural} {who}: {it} lack{s} CPUs",
    "server_work": "more work on parameter server{plural} {who} than {its} variables need",
}
_OF_ONE = {"s": "s", "plural": "", "are": "is", "does": "does", "it": "it", "its": "its"}
_OF_SEVERAL = {"s": "", "plural": "s", "are": "are", "does": "do", "it": "they", "its": "their"}

# What ranks do between their steps -> kind of cause, where some do it alone, and where all do.
_BREAKS: Mapping[str, tuple[str, str]] = {
    "evaluation": ("evaluates", "evaluation"),
    "checkpoint": ("saves", "checkpoint"),
    "without_gradients": ("busy_alone", "without_gradients"),
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
    "beside": "time between steps",
    "other": "unexplained time",
}

# Part of an account -> behind "5 ms a step more".
_SPENT: Mapping[str, str] = {
    "input": "in input",
    "compute": "in kernels",
    "host": "of CPU time outside kernels",
    "gpu_idle": "with an idle GPU",
    "gc": "in garbage collection",
    "contention": "runnable without a CPU",
    "stopped": "stopped",
    "throttled": "throttled",
    "paging": "in page faults",
    "disk": "in disk reads",
    "transfer": "in communication",
    "wait_ranks": "waiting for other ranks",
    "wait_ps": "waiting for parameter servers",
    "blocked": "off the CPU",
    "other": "unexplained",
}

_WHY: Mapping[str, str] = {
    "few_steps": "only {steps}",
    "profiled": "ncu slowed the start of every kernel",
    "replay_differs": "the replay differs from the measured steps",
    "unattributed": "over 10% of the time is unexplained",
    "passing": "seen in only part of the run",
    "few_stretches": "seen only once or twice",
    "waits_in_kernels": "GPUs that wait for each other look busy",
    "ranks_unseen": "some ranks were not seen",
    "gpus_in_turns": "whether the GPUs of a rank compute at once or in turns is not known",
    "more_is_lost": "most of the lost time has another cause",
}


def who(ranks: Sequence[str]) -> str:
    """ "ddp:1", "ddp:0 and ddp:1", "ddp:0, ddp:1, ddp:2 and 5 more"."""
    if not ranks:
        return EVERY_RANK
    return enumerated(ranks) if len(ranks) <= NAMED else listed(ranks, NAMED)


def finding(kind: str, ranks: Sequence[str]) -> str:
    """ "slow input on ddp:1"; no ranks: it is about all."""
    return _FINDINGS.get(kind, f"{{who}}: {kind}").format(who=who(ranks), **agreeing(len(ranks)))


def agreeing(ranks: int) -> Mapping[str, str]:
    """What differs in a sentence about one or several; "every rank" is one."""
    return _OF_SEVERAL if ranks > 1 else _OF_ONE


def kind_of_break(what: str, alone: bool) -> str:
    """what: ranks do between their steps; alone: some of them, and the others wait."""
    return _BREAKS.get(what, _BREAKS["other"])[0 if alone else 1]


def why_low(reasons: Sequence[str], steps: int) -> str:
    """steps: steady ones."""
    counted = many(steps, "steady step")
    return ", ".join(_WHY.get(reason, reason).format(steps=counted) for reason in reasons)


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


def several_late(late: Sequence[tuple[str, str, float]], gain: float, share: float) -> str:
    """late: (rank, part, seconds a step more than the others)."""
    each = [f"{rank} by {duration(more)} a step of {parts_named(part)}" for rank, part, more in late]
    more = f" and {len(late) - NAMED} more" if len(late) > NAMED else ""
    fixed = "both" if len(late) == 2 else "all of them"
    saved = f"fixing {fixed} saves {duration(gain)} a step ({share:.0%})"
    why = " for different reasons" if len({part for _, part, _ in late}) > 1 else ""
    return f"no single cause: ranks are late{why}, {', '.join(each[:NAMED])}{more}; {saved}"


def seldom_there(ranks: Sequence[str]) -> str:
    verb = "is" if len(ranks) == 1 else "are"
    return f"{listed(ranks)} {verb} not compared with the others, having done less than half of the steps"


def asleep_or_waiting(part: str, share: float) -> str:
    """Of ranks whose waits for each other were not seen."""
    goes = f"{share:.0%} of the step goes to {parts_named(part)}"
    return f"not known: {goes}, and whether ranks wait for each other then is not seen"


def uneven(part: str, share: float) -> str:
    """What most of the step goes to, though a job could do without it."""
    goes = f"{share:.0%} of the step goes to {parts_named(part)}"
    return f"not certain: {goes}, but that varies too much to say what it costs"


def with_low_confidence(headline: str, reasons: Sequence[str], steps: int) -> str:
    return f"{headline}; low confidence: {why_low(reasons, steps)}"


def too_few_steps(steps: int) -> str:
    if not steps:
        return "not known: no steps were seen"
    return f"not known: {are(steps, 'steady step')} too few"


def not_explained(share: float) -> str:
    return f"not known: {share:.0%} of the step is unexplained"


def waits_not_seen(why: str) -> str:
    return f"not known who waits for whom: {why}"


HEALTHY = "healthy: nothing holds it up"


def next_gain(part: str, roof_known: bool = True, kernels_known: bool = True) -> str:
    """Of a healthy job: the part of a step that there is most to save of. kernels_known: whether any were
    recorded."""
    if part == "compute":
        return "kernels slower than their roof allows" if roof_known else "kernels of the GPU"
    if part == "compute|transfer":
        more = ", slower than the roof allows" if roof_known else ""
        return f"kernels and communication of the GPU{more}"
    if "compute" in part.split("|"):
        return f"{parts_named(part)}{', more than the roof needs' if roof_known else ''}"
    return parts_named(part) + (", not overlapped with kernels" if kernels_known else "")


def parts_named(part: str) -> str:
    """ "input or CPU time outside kernels" of "input|host"."""
    return " or ".join(PARTS.get(name, name) for name in part.split("|"))


# -- evidence -----------------------------------------------------------------------------------------------


def more_than_others(part: str, seconds: float, others: int) -> str:
    """others: how many other ranks there are."""
    spent = " or ".join(_SPENT.get(name, f"of {name}") for name in part.split("|"))
    return f"{duration(seconds)} a step more {spent} than the other {_ranks(others)}"


def amid_communication(part: str, seconds: float) -> str:
    return f"{duration(seconds)} a step of {parts_named(part)} during communication, which holds up all ranks"


def on_every_rank(part: str, seconds: float, ranks: int) -> str:
    mean = ", mean of the ranks" if ranks > 1 else ""
    return f"{duration(seconds)} a step of {parts_named(part)}{mean}"


def between_steps(kinds: Sequence[tuple[str, int, float]], alone: int) -> str:
    """kinds: evaluation, checkpoint, without_gradients or other, how many stretches, and seconds of each;
    alone: how many ranks do this while the others wait, 0: all ranks do."""
    rest = "other stretch" if len(kinds) > 1 else "stretch"
    each = ", ".join(_stretches(kind, rest, count, seconds) for kind, count, seconds in kinds)
    if alone:
        steps = f"between {agreeing(alone)['its']} steps"
        return f"{each} {steps}; the others spend at most half as much time between theirs"
    return f"{each} between steps"


def _stretches(kind: str, rest: str, count: int, seconds: float) -> str:
    word = {"other": rest, "without_gradients": "stretch"}.get(kind, kind)
    without = " without gradients" if kind == "without_gradients" else ""
    some = f"{many(count, word)}{without} of {duration(seconds)}"
    return f"{some} each" if count > 1 else some


def rate_of_some(which: str) -> str:
    """which: "of the 1 of 4 ranks whose examples are known"."""
    return f"examples/s {which}"


def shared_batch(by_tensors: int, by_stages: int) -> str:
    """How many ranks work on one batch by tensor parallelism, and how many by pipelines."""
    how = [f"tensor parallel over {by_tensors}"] if by_tensors > 1 else []
    how += [f"pipelines of {by_stages}"] if by_stages > 1 else []
    many_ranks = f"up to {by_tensors * by_stages} ranks share a batch ({', '.join(how)})"
    return f"{many_ranks}, and examples/s counts it for each"


def beside(ranks: Sequence[str], share: float, seconds: float) -> str:
    """share: of the time; of the rank with most."""
    more = "" if len(ranks) == 1 else "up to "
    time = f"{more}{share:.0%} of the time of {listed(ranks, 2)} ({duration(seconds)} a step)"
    return f"{time} is between steps, where nothing is traced"


def work(ratio: float, ranks: int, others: int) -> str:
    """ranks: how many the finding names; others: as of `more_than_others`."""
    of = agreeing(ranks)
    if abs(ratio - 1) < 0.05:
        do = f"{of['it']} {of['does']}"
        return f"{do} the same work as the other {_ranks(others)} (examples, FLOPs, bytes)"
    mean = ", in the mean," if ranks > 1 else ""
    return f"{of['its']} work is{mean} {times(ratio)} that of the other {_ranks(others)}"


def stretched(phases: Sequence[float], others: int) -> str:
    """phases: how many times as long forward, backward and optimizer take; others: of `more_than_others`."""
    forward, backward, optimizer = map(times, phases)
    each = f"forward {forward}, backward {backward}, optimizer {optimizer}"
    return f"against the other {_ranks(others)}: {each} as long"


def _ranks(count: int) -> str:
    return "rank" if count == 1 else "ranks"


def foreign(cpus: float, host: str) -> str:
    return f"other processes keep {cpus:.1f} CPUs of {host} busy"


# -- lines of the first screen ------------------------------------------------------------------------------


def under_roof(role: str, share: float, parts: float, precision: str, side: str) -> str:
    """share: of its part of the roof, one of `parts`; side: kind of the ceiling, compute or memory."""
    roof = f"its {1 / parts:.0%} of the {precision} roof" if parts > 1 else f"the {precision} roof"
    reached = "less than 1%" if 0 < share < 0.005 else f"{share:.0%}"
    return f"{role} at {reached} of {roof}, on its {side} side"


def gpu_use(role: str, busy: float, of_bandwidth: float | None, tensor: float | None, gpus: int = 1) -> str:
    """Shares of the time of steps, and of the measured bandwidth of the GPU's memory. gpus: of a rank."""
    found = [f"{role}: GPU busy {busy:.0%} of the time"]
    if gpus > 1:
        found = [f"{role}: {gpus} GPUs a rank, each busy {busy:.0%} of the time (mean)"]
    if of_bandwidth is not None:
        found.append(f"its memory at {of_bandwidth:.0%} of the measured bandwidth")
    if tensor is not None:
        found.append(f"tensor cores active {tensor:.0%}")
    return ", ".join(found)


def no_place_under_roof(role: str, why: str) -> str:
    return f"{role} is not compared with a roof, because {why}"
