"""Which trainings are run: framework x cause x severity x load, and why some combinations are not. No I/O."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import NamedTuple

TORCH = ("ddp", "horovod", "fsdp2")
SERVERS = ("ps_async", "ps_sync")
FRAMEWORKS = (*TORCH, *SERVERS)
SEVERITIES = (0.05, 0.1, 0.2, 0.5)  # of the step
LOADS = ("quiet", "crowded")
MODELS = ("mlp", "cnn", "resnet", "lstm", "gru", "encoder", "gpt", "autoencoder")
SERVER_MODELS = ("cnn", "mlp", "wide")
HEALTHY = "healthy"
HEALTHY_SEEDS = 3  # of healthy runs for one of planted ones
TOGETHER = 5

# What is planted -> the kinds of a finding that name it.
CAUSES: dict[str, frozenset[str]] = {
    "sleep_input": frozenset({"input"}),
    "sleep_step": frozenset({"blocked"}),
    "python": frozenset({"host"}),
    "batch": frozenset({"more_work"}),
    "sequences": frozenset({"more_work"}),
    "hog": frozenset({"contention"}),
    "quota": frozenset({"throttled"}),
    "stops": frozenset({"stopped"}),
    "memory": frozenset({"memory_bandwidth"}),
    "disk": frozenset({"disk"}),
    "uplink": frozenset({"slow_link", "network", "transfer"}),
    "gc": frozenset({"gc"}),
    "ps_work": frozenset({"server_overloaded", "server_skewed", "server_work"}),
    "ps_stops": frozenset({"server_slow", "stopped"}),
    "ps_quota": frozenset({"server_slow", "server_overloaded", "throttled"}),
}
OF_SERVERS = ("ps_work", "ps_stops", "ps_quota")
# The cost is known from what the plant itself measured; of all others it is what the pair of runs differs by.
SELF_MEASURED = ("sleep_input", "sleep_step", "python", "disk", "gc", "stops")

_NO_PYTHON = "workers run the chief's graph and no Python of their own"
LEFT_OUT: dict[tuple[str, str], str] = {
    **{(framework, "sleep_step"): _NO_PYTHON for framework in SERVERS},
    **{(framework, "gc"): _NO_PYTHON for framework in SERVERS},
    **{(framework, "sleep_input"): "tf.data makes the next batch while a step runs" for framework in SERVERS},
    **{(framework, "sequences"): "its network is the CNN of the papers" for framework in SERVERS},
    **{(framework, "disk"): "tf.data cannot read past the page cache" for framework in SERVERS},
    ("horovod", "uplink"): "its launcher cannot place ranks in network namespaces",
    **{
        (framework, cause): "there are no parameter servers"
        for framework in TORCH
        for cause in ("ps_work", "ps_stops", "ps_quota")
    },
}
CORES_NEEDED = {"memory": 4}  # else the hog competes for CPUs as well
UNSCALED = {"memory": 0.5}  # cause -> its only severity: what it costs cannot be chosen


class Plan(NamedTuple):
    """One run."""

    framework: str
    model: str
    cause: str  # of CAUSES, or healthy
    severity: float  # of the step; 0 of a healthy run
    load: str
    seed: int

    @property
    def key(self) -> str:
        severity = f"-{self.severity:.0%}".rstrip("%") if self.severity else ""
        return f"{self.framework}-{self.model}-{self.cause}{severity}-{self.load}-{self.seed}"

    @property
    def rank(self) -> str:
        """The rank that the plant is on; "" of a healthy run. It alternates with the seed."""
        if self.cause == HEALTHY:
            return ""
        if self.cause in OF_SERVERS or (self.cause == "uplink" and self.servers):
            return f"ps:{self.servers - 1}"
        role = {"horovod": "horovod", "ps_async": "worker", "ps_sync": "worker"}.get(self.framework, "ddp")
        return f"{role}:{self.seed % 2}"

    @property
    def servers(self) -> int:
        """Parameter servers. A lone one is the most common."""
        if self.framework in TORCH:
            return 0
        return 1 + (self.seed // 2 + (self.cause in ("ps_stops", "ps_quota"))) % 2


def reason_against(framework: str, cause: str, cores: int) -> str:
    """Why a combination is not run; "" when it is."""
    if cores < CORES_NEEDED.get(cause, 0):
        return f"needs {CORES_NEEDED[cause]} cores"
    return LEFT_OUT.get((framework, cause), "")


def plans(seeds: range, cores: int) -> Iterator[Plan]:
    """All plans in a fixed random order, seed by seed, so that what is finished is a sample of all.

    Those that can share a reference are together, a few at a time.
    """
    for seed in seeds:
        draw = random.Random(seed)
        alike: dict[tuple[str, str, str], list[Plan]] = {}
        for load in LOADS:
            for one in [*planted(seed, load, cores), *healthy(seed, load)]:
                alike.setdefault((one.framework, one.model, load), []).append(one)
        chunks = []
        for group in alike.values():
            draw.shuffle(group)
            chunks += [group[at : at + TOGETHER] for at in range(0, len(group), TOGETHER)]
        draw.shuffle(chunks)
        yield from itertools.chain.from_iterable(chunks)


def planted(seed: int, load: str, cores: int) -> Iterator[Plan]:
    for severity, cause, framework in itertools.product(SEVERITIES, CAUSES, FRAMEWORKS):
        if not reason_against(framework, cause, cores) and UNSCALED.get(cause, severity) == severity:
            yield Plan(framework, model_of(framework, cause, seed), cause, severity, load, seed)


def healthy(seed: int, load: str) -> Iterator[Plan]:
    """A third of them with parameter servers."""
    for number in range(HEALTHY_SEEDS * seed, HEALTHY_SEEDS * (seed + 1)):
        for model, framework in itertools.product(MODELS, TORCH):
            yield Plan(framework, model, HEALTHY, 0, load, number)
    for number in range(2 * HEALTHY_SEEDS * seed, 2 * HEALTHY_SEEDS * (seed + 1)):
        for model, framework in itertools.product(SERVER_MODELS, SERVERS):
            yield Plan(framework, model, HEALTHY, 0, load, number)


def model_of(framework: str, cause: str, seed: int) -> str:
    if cause == "uplink":
        return "wide" if framework in SERVERS else "mlp"
    if cause == "sequences":
        return ("gpt", "encoder", "lstm")[seed % 3]
    if framework in SERVERS:
        return ("cnn", "mlp")[seed % 2]
    return ("cnn", "gpt", "mlp", "lstm")[seed % 4]
