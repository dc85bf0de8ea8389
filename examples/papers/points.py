"""What is run: one point for each job, in the order in which they are run. `quick`: also by papers-quick."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

NAMES = {"alexnet": "AlexNet", "resnet50": "ResNet-50", "vgg16": "VGG-16", "inception3": "Inception-v3"}
NETWORKS = tuple(NAMES)
STEPS = {"alexnet": 60, "resnet50": 24, "vgg16": 20, "inception3": 20}
BATCHES = (8, 16)  # for the papers' 64 and 128
BASE = {"batch": 16, "onednn": 1}  # of the points that differ in something else
RATE, UNSHAPED = "2gbit", "unshaped"  # of each node's link and direction, as tc(8) writes it
TRACED, TRACED_NETWORKS = 3, ("alexnet", "resnet50")  # steps, on request, of a running job
CYCLES = (1, 10, 50)  # HOROVOD_CYCLE_TIME, ms


class Point(NamedTuple):
    """program: ps, horovod, torch, keras, layer or net. tags: what it is run with, and the job's tags."""

    experiment: str
    program: str
    tags: dict[str, str]
    quick: bool = False

    @property
    def key(self) -> str:
        return "-".join([self.experiment, *(f"{name}{text}" for name, text in self.tags.items())])


def points() -> list[Point]:
    every = [*network(), *servers(), *horovod(), *traced(), *sweeps(), *characterisation()]
    return list({point.key: point for point in every}.values())


def network() -> Iterator[Point]:
    """Lu, Bench 2018: point to point and parameter servers over gRPC, between two nodes."""
    for rate in (UNSHAPED, RATE):  # the last one stays the ceiling that jobs are compared with
        yield Point("net", "net", {"rate": rate}, quick=True)


def servers() -> Iterator[Point]:
    """Javed, Ibrahim, Lu 2019: parameter servers."""
    for name in NETWORKS:
        for ps, workers in ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4)):
            yield _ps(name, ps, workers, quick=(name, ps, workers) in QUICK_SERVERS)
    for name in NETWORKS:
        yield _ps(name, 1, 2, batch=BATCHES[0])
        yield _ps(name, 1, 1, onednn=0, quick=name == "alexnet")
        yield _ps(name, 1, 2, onednn=0)


QUICK_SERVERS = (("alexnet", 1, 1), ("alexnet", 1, 2), ("resnet50", 1, 2))


def _ps(name: str, ps: int, workers: int, batch: int = 16, onednn: int = 1, quick: bool = False) -> Point:
    tags = {"network": name, "ps": ps, "workers": workers, "batch": batch, "onednn": onednn}
    return Point("ps", "ps", {key: str(one) for key, one in tags.items()}, quick)


def horovod() -> Iterator[Point]:
    """Javed, Ibrahim, Lu 2019: the same networks with Horovod."""
    for name in NETWORKS:
        for ranks in (1, 2, 4):
            yield _horovod(
                name, ranks, quick=(name == "alexnet" and ranks < 4) or (name, ranks) == ("resnet50", 2)
            )
    for name in NETWORKS:
        yield _horovod(name, 2, batch=BATCHES[0])
        yield _horovod(name, 1, onednn=0)


def _horovod(name: str, ranks: int, batch: int = 16, onednn: int = 1, quick: bool = False) -> Point:
    tags = {"network": name, "workers": ranks, "batch": batch, "onednn": onednn}
    return Point("horovod", "horovod", {key: str(one) for key, one in tags.items()}, quick)


def traced() -> Iterator[Point]:
    """Lu, Bench 2018: layers of the stack, by what the framework's profiler records of some steps."""
    for name in TRACED_NETWORKS:
        for untraced in (_ps(name, 1, 1), _horovod(name, 2)):
            tags = {**untraced.tags, "traced": str(TRACED)}
            yield Point(f"traced-{untraced.program}", untraced.program, tags, quick=name == "alexnet")


SWEPT: dict[str, dict[str, tuple[int, ...]]] = {
    "conv2d": {"batch": (4, 16, 64), "filters": (16, 64, 256), "kernel": (1, 3, 7), "stride": (1, 2, 3)},
    "lstm": {"batch": (4, 16, 64), "length": (8, 32, 64), "features": (64, 256), "hidden": (16, 128, 512)},
}


def sweeps() -> Iterator[Point]:
    """Wang et al. 2020: one parameter of a layer at a time, the others as they are."""
    for framework in ("torch", "tensorflow"):
        for layer, parameters in SWEPT.items():
            for name, sizes in parameters.items():
                for size in sizes:
                    tags = {"framework": framework, "layer": layer, name: str(size)}
                    yield Point(f"{layer}-{name}", "layer", tags, quick=name == "batch")


def characterisation() -> Iterator[Point]:
    """Jain et al. 2019, mostly on the network of examples/horovod."""
    for processes, threads in ((1, 2), (2, 1), (4, 1)):  # of a batch of 64 in all
        yield _torch("processes", processes, threads, batch=64 // processes, quick=processes < 4)
    for batch in (8, 32, 128):
        yield _torch("batch", 1, 2, batch=batch)
    for nodes, batch in ((1, 32), (2, 32), (4, 32), (1, 8), (2, 8)):
        yield _torch("nodes", 1, 1, nodes=nodes, batch=batch)
    for cycle in CYCLES:
        yield _torch("cycle", 1, 1, nodes=2, cycle=cycle, quick=cycle != CYCLES[1])
    yield _torch("fusion", 1, 1, nodes=2, fusion=0, quick=True)
    for framework, program in (("torch", "torch"), ("tensorflow", "keras")):
        for processes in (1, 2):
            point = _torch("frameworks", processes, 2 // processes, batch=64 // processes)
            yield point._replace(program=program, tags={"framework": framework, **point.tags})
    for network in ("resnet50", "inception3"):
        for intra, inter in ((1, 1), (1, 2), (2, 1), (4, 1)):
            tags = {"network": network, "intra": intra, "inter": inter, "batch": 16, "workers": 1}
            yield Point("threads", "horovod", {key: str(one) for key, one in tags.items()})


def _torch(
    experiment: str,
    processes: int,
    threads: int,
    batch: int = 32,
    nodes: int = 1,
    cycle: int = 1,
    fusion: int = 64,
    quick: bool = False,
) -> Point:
    """processes: on each node; cycle: HOROVOD_CYCLE_TIME, ms; fusion: HOROVOD_FUSION_THRESHOLD, MiB."""
    tags = {"processes": processes, "threads": threads, "batch": batch, "nodes": nodes}
    tags |= {"cycle": cycle, "fusion": fusion}
    return Point(experiment, "torch", {key: str(one) for key, one in tags.items()}, quick)
