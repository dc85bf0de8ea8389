"""What a job would do with something changed: the answer, what it is based on, why it cannot tell."""

from __future__ import annotations

from collections.abc import Sequence

from .reasons import LESS_WORK
from .wording import duration, enumerated, first_of, many, number, quantity

# -- the change -------------------------------------------------------------------------------------------

_ONE = {
    "ranks": "rank",
    "workers": "worker",
    "parameter servers": "parameter server",
    "examples a rank and step": "example a rank and step",
}


def instead(then: float, now: float, what: str) -> str:
    """ "3 ranks instead of 2". what: the plural."""
    count = number(then)
    return f"{count} {_ONE.get(what, what) if count == '1' else what} instead of {number(now)}"


def of_bandwidth(times: float) -> str:
    return f"links with {number(times)} times the bandwidth"


def links_of(bandwidth: float) -> str:
    return f"links of {quantity(bandwidth, 'B/s')}"


def fixed(what: str) -> str:
    return f"{what} fixed"


# -- the answer -------------------------------------------------------------------------------------------


def answer(change: str, then: float, low: float, high: float, now: float) -> str:
    """Rates of the job, examples/s."""
    rates = f"{number(then)} examples/s ({number(low)} to {number(high)}) instead of {number(now)}"
    return f"with {change}: about {rates}"


def answer_of_step(change: str, then: float, low: float, high: float, now: float) -> str:
    """Steps, seconds: of a job whose examples are not known."""
    steps = f"{duration(then)} a step ({duration(low)} to {duration(high)}) instead of {duration(now)}"
    return f"with {change}: about {steps}"


def cannot_tell(why: str) -> str:
    return f"cannot be predicted: {why}"


# -- what it is based on ------------------------------------------------------------------------------------


def steady_steps(steps: int, ranks: int) -> str:
    return f"{many(steps, 'steady step')} of {many(ranks, 'rank')}"


def exposed_transfer(seconds: float, payload: float | None) -> str:
    of = f" for {quantity(payload / 1e6, 'MB')} a step" if payload else ""
    return f"communication that nothing hides: {duration(seconds)} a step{of}"


def link(latency: float, bandwidth: float) -> str:
    return f"link: {duration(latency)} and {quantity(bandwidth, 'B/s')}, measured by bench net"


def cpu_of_rank(seconds: float, cpus: float) -> str:
    return f"CPU time of a rank: {duration(seconds)} a step; its node has {many(cpus, 'CPU')}"


def cpu_of_all(seconds: float, cpus: float) -> str:
    node = f"their node has {many(cpus, 'CPU')}"
    return f"CPU time of all ranks for a worker step: {duration(seconds)}; {node}"


def kernels(seconds: float) -> str:
    return f"kernels: {duration(seconds)} a step"


def demands(names: Sequence[str], seconds: Sequence[float]) -> str:
    each = ", ".join(f"{name} {duration(one)}" for name, one in zip(names, seconds, strict=True))
    return f"busy time of the servers per worker step: {each}"


def links_in_use(names: Sequence[str], seconds: Sequence[float]) -> str:
    each = ", ".join(f"{name} {duration(one)}" for name, one in zip(names, seconds, strict=True))
    return f"busy time of their links per worker step, from bench net: {each}"


def replayed(measured: float, played: float) -> str:
    return (
        f"the replay of the job: {duration(played)} a step with nothing fixed, measured {duration(measured)}"
    )


# -- what to know -----------------------------------------------------------------------------------------

NO_RATE = f"examples/s are not predicted: {LESS_WORK}"
NO_LINK = (
    "latency and bandwidth of the links are not known (roofline-client bench net measures them): the range "
    "goes from communication that only bandwidth limits to communication that only latency limits"
)
ONE_NODE = "all ranks are on one node: what they exchange goes through its memory, over no link"
SHARED_CPUS = "the ranks share one node's CPUs: with more ranks each gets fewer"
NO_SERVER_LINKS = (
    "the bandwidth of the servers' links is not known: where they hold the workers up, the range is wrong "
    "(roofline-client bench net measures it)"
)
NODES_ALIKE = "the number of ranks on each node is kept: other ranks come with other nodes"
NO_KERNELS = "the time of kernels is not known: how much of a step grows with the batch is a guess"
BOUNDS = (
    "the range is the lower and upper bound of a queueing model; the true value depends on how the workers' "
    "steps line up"
)
ONE_LARGE_VARIABLE = "how the variables would be shared out is not known: a large one stays on one server"
ALONE = (
    "it has one rank, so no collective was measured: the range goes from communication that is entirely "
    "hidden behind computation to communication that is not hidden at all; its CPU time is not known"
)


def part_shown(part: str) -> str:
    """ "input or host" of "input|host", as tables have it."""
    return part.replace("|", " or ")


def all_parts_of(rank: str) -> str:
    return (
        f"everything that {rank} does is as on the other ranks; the report's figure is of its finding alone"
    )


def stands_for(what: str, parts: Sequence[str]) -> str:
    """what: a name that only parts have in which it is not separated from others."""
    shown = [f"{part_shown(part)!r}" for part in parts]
    removed = "that part" if len(shown) == 1 else "these parts"
    return (
        f"{what!r} is known only as a part of {enumerated(shown)}: the prediction removes {removed} "
        "entirely, so the real gain may be smaller"
    )


# -- why it cannot be told --------------------------------------------------------------------------------

NO_STEPS = "too few steady steps were seen"
NO_BATCH = "the batch of the job is not known: no examples were reported"
ALONE_WITHOUT_PAYLOAD = "it has one rank: what others would exchange with it was not seen"
ALONE_WITHOUT_LINK = (
    "it has one rank, and the link to other nodes is not known (roofline-client bench net measures it)"
)
NO_BANDWIDTH = "the bandwidth of the links is not known; roofline-client bench net measures it"
NO_DEMAND = "the CPU time of the servers was not read"
SERVER_LINKS = "the links' part of the servers' time is not known"
NO_REPLAY = "ranks that step independently hold nobody up: only a server can be fixed"
NOTHING_LEFT = "its steps are little else: almost nothing would be left"
INDEPENDENT = "its ranks step independently of each other, and there are no parameter servers"


def not_a_cause(what: str) -> str:
    return f"{what} was not found to cost anything"


def seldom_there(rank: str) -> str:
    return f"{rank} did less than half of the steps of the job"


def no_such(what: str, ranks: Sequence[str], parts: Sequence[str]) -> str:
    known = ", ".join([first_of(ranks), *parts])
    return f"{what!r} is no rank of the job and no part of its steps; these are: {known}"


def left_out(ranks: Sequence[str]) -> str:
    whom = "it" if len(ranks) == 1 else "they"
    return f"left out, as {whom} did less than half of the steps of the job: {first_of(list(ranks))}"


def whole_groups(ranks: int) -> str:
    """ranks: that share a batch."""
    return f"other numbers of ranks are taken for more or fewer groups of {ranks} that share a batch"
