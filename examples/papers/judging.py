"""A claim of a paper, compared with what the product measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from points import NAMES, NETWORKS
from readings import Reading, Readings

AGREES, DIFFERS, OPEN = "agrees", "differs", "can't be judged here"

# How sure it is that the paper says so; some of them could be read in part only.
READ = "read in the text"
FIGURE = "read off the paper's figures, or the tables its authors published"
QUOTED = "quoted by others"
EXPECTED = "what the experiment is for; its wording was not read"


Found = TypeVar("Found")


class AbsentError(Exception):
    """What a claim needs was not measured; the text says what."""


class Judged(NamedTuple):
    """ours: our figures; why: the reason where it differs, or cannot be judged. jobs: what it rests on."""

    ours: str
    verdict: str
    why: str = ""
    jobs: tuple[str, ...] = ()


class Job:
    """The numbers of one job; one that is absent ends the judgement."""

    def __init__(self, reading: Reading) -> None:
        self.name, self.tags, self._numbers = reading.job, reading.tags, reading.numbers

    def __getitem__(self, name: str) -> float:
        if name not in self._numbers:
            raise AbsentError(f"{name} was not measured in {self.name}")
        return self._numbers[name]

    def get(self, name: str, other: float = 0.0) -> float:
        return self._numbers.get(name, other)

    def like(self, prefix: str) -> dict[str, float]:
        """Numbers whose names begin so, without that."""
        return {k.removeprefix(prefix): v for k, v in self._numbers.items() if k.startswith(prefix)}


class Jobs:
    """Finds jobs by experiment and tags, and remembers which were used."""

    def __init__(self, readings: Readings, network: dict[str, dict[str, float]]) -> None:
        self._readings, self._network = readings, network
        self.used: dict[str, None] = {}

    def __call__(self, experiment: str, **tags: object) -> Job:
        found = self._readings.find(experiment, **tags)
        if found is None:
            which = ", ".join(f"{name} {text}" for name, text in tags.items())
            raise AbsentError(f"not run: {experiment}, {which}")
        self.used[found.job] = None
        return Job(found)

    def link(self, rate: str) -> Job:
        """What `bench net` measured over links of this rate: results and ceilings by name."""
        if rate not in self._network:
            raise AbsentError(f"not run: bench net, {rate}")
        return Job(Reading(rate, f"bench net, {rate}", {}, "", self._network[rate]))


class Claim(NamedTuple):
    """where: in the paper; text: in our words; theirs: their figure; sure: that the paper says so."""

    where: str
    text: str
    theirs: str
    sure: str
    judge: Callable[[Jobs], Judged]


def collect(
    into: list[Claim],
) -> Callable[..., Callable[[Callable[[Jobs], Judged]], Callable[[Jobs], Judged]]]:
    """A decorator that adds what a function judges to the claims of a paper."""

    def claim(
        where: str, text: str, theirs: str = "-", sure: str = EXPECTED
    ) -> Callable[[Callable[[Jobs], Judged]], Callable[[Jobs], Judged]]:
        def add(judge: Callable[[Jobs], Judged]) -> Callable[[Jobs], Judged]:
            into.append(Claim(where, text, theirs, sure, judge))
            return judge

        return add

    return claim


def judged(claim: Claim, readings: Readings, network: dict[str, dict[str, float]]) -> Judged:
    """The verdict, with the jobs it rests on; where something is absent it stays open."""
    jobs = Jobs(readings, network)
    try:
        found = claim.judge(jobs)
    except AbsentError as error:
        found = Judged("-", OPEN, str(error))
    return found._replace(jobs=found.jobs or tuple(jobs.used))


def holds(true: bool, ours: str, otherwise: str = "") -> Judged:
    """otherwise: the reason where it does not hold."""
    return Judged(ours, AGREES) if true else Judged(ours, DIFFERS, otherwise)


def of_each(what: Callable[[str], Found]) -> dict[str, Found]:
    """Something of each network of which all that it takes was run: two of them at least."""
    found: dict[str, Found] = {}
    absent = None
    for network in NETWORKS:
        try:
            found[network] = what(network)
        except AbsentError as error:
            absent = error
    if absent is not None and len(found) < 2:
        raise absent
    return found


def never(why: str) -> Callable[[Jobs], Judged]:
    """Of a claim that this machine cannot judge."""
    return lambda jobs: Judged("-", OPEN, why)


# Parts of the product's account in words; others as they are called there.
WORDS = {
    "compute": "in kernels",
    "contention": "without a CPU",
    "input|wait_ps": "waiting for input or servers",
    "wait_ranks": "waiting for other ranks",
    "transfer": "in communication",
    "host": "in code outside kernels",
    "input|host": "in input or code outside kernels",
    "compute|host": "in kernels or code outside",
    "compute|host|blocked": "in kernels, code outside or blocked",
}


def named(part: str) -> str:
    return WORDS.get(part, part.replace("|", " or ").replace("_", " "))


def spent(job: Job) -> str:
    """Where a step goes by the product's account: its largest parts."""
    parts = sorted(job.like("account.").items(), key=lambda part: -part[1])[:3]
    return f"of a step {', '.join(f'{share:.0%} {named(part)}' for part, share in parts)}"


def longer(one: Job, other: Job, role: str = "horovod") -> str:
    """By which parts of the account a step of the other is longer, or shorter: the largest three."""
    steps = [job[f"{role}.step_time_median"] for job in (one, other)]
    parts = [job.like("account.") for job in (one, other)]
    by = {
        part: steps[1] * parts[1].get(part, 0.0) - steps[0] * parts[0].get(part, 0.0)
        for part in parts[0] | parts[1]
    }
    most = sorted(by, key=lambda part: -abs(by[part]))[:3]
    of = ", ".join(f"{1e3 * by[part]:+.0f} ms {named(part)}" for part in most)
    more = 1e3 * (steps[1] - steps[0])
    return f"a step is {abs(more):.0f} ms {'longer' if more > 0 else 'shorter'} ({of})"


def each(form: str, numbers: Mapping[str, float]) -> str:
    """A number of each network."""
    return ", ".join(f"{NAMES.get(name, name)} {form.format(number)}" for name, number in numbers.items())


def percent(share: float) -> str:
    return f"{share:.0%}"


def times(ratio: float) -> str:
    return f"{ratio:.3g}x"


def giga(flops: float) -> str:
    return f"{flops / 1e9:.3g} GFLOP/s"


def series(numbers: list[float], form: Callable[[float], str]) -> str:
    return ", ".join(map(form, numbers))
