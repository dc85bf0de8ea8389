"""Jain, Awan, Anthony, Subramoni, Panda 2019: characterisation of training on CPU and GPU clusters (CLUSTER).

The abstract was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from judging import (
    EXPECTED,
    OPEN,
    QUOTED,
    READ,
    Claim,
    Job,
    Jobs,
    Judged,
    collect,
    each,
    holds,
    longer,
    never,
    percent,
    series,
    spent,
    times,
)
from points import CYCLES, NAMES

TITLE = "Characterisation of training (Jain et al. 2019)"
CLAIMS: list[Claim] = []
claim = collect(CLAIMS)


def torch(jobs: Jobs, experiment: str, **tags: int) -> Job:
    return jobs(experiment, **tags)


def speed(job: Job) -> float:
    return job["horovod.examples_per_second"]


def threads(jobs: Jobs, network: str, intra: int, inter: int) -> Job:
    return jobs("threads", network=network, intra=intra, inter=inter)


def two_threads(jobs: Jobs, networks: Sequence[str]) -> str:
    """By how much a step of each is longer or shorter with a second thread, and in what."""
    return "; ".join(
        f"{NAMES[n]} with a second thread: {longer(*(threads(jobs, n, intra, 1) for intra in (1, 2)))}"
        for n in networks
    )


@claim("abstract", "On one node several processes train faster than one", "up to 1.47x (ResNet-152)", READ)
def processes_help(jobs: Jobs) -> Judged:
    one = speed(torch(jobs, "processes", processes=1, threads=2))
    two = speed(torch(jobs, "processes", processes=2, threads=1))
    return holds(
        two > one,
        f"2 processes of 1 thread over 1 of 2, the same batch in all: {times(two / one)}",
        longer(*(torch(jobs, "processes", processes=n, threads=3 - n) for n in (1, 2))),
    )


@claim("abstract", "The gain of several processes stays below 1.5", "1.47x", READ)
def gain_is_bounded(jobs: Jobs) -> Judged:
    found = {
        n: 2
        * jobs("horovod", network=n, workers=1, batch=16, onednn=1)["horovod.examples_per_second"]
        / threads(jobs, n, 2, 1)["horovod.examples_per_second"]
        for n in ("resnet50", "inception3")
    }
    worst = max(found.values())
    ours = "two single-threaded processes, if they did not slow each other down, over one of two threads: "
    why = two_threads(jobs, [n for n, gain in found.items() if gain > 1.5])
    return holds(worst <= 1.5, ours + each("{:.2f}x", found), why)


@claim("abstract", "More processes than cores do not help", "-")
def more_than_cores(jobs: Jobs) -> Judged:
    two, four = (speed(torch(jobs, "processes", processes=n, threads=1)) for n in (2, 4))
    return holds(four < 1.05 * two, f"4 over 2 processes on two cores: {times(four / two)}")


@claim("abstract", "Over nodes it is near linear", "125x on 128 nodes (98 %)", READ)
def near_linear(jobs: Jobs) -> Judged:
    one, two = (speed(torch(jobs, "nodes", nodes=n, batch=32)) for n in (1, 2))
    return holds(
        two / one / 2 >= 0.85,
        f"2 nodes of one core: {times(two / one)} ({percent(two / one / 2)})",
        "both nodes are this machine, and its CPUs carry the links, too; "
        + longer(*(torch(jobs, "nodes", nodes=n, batch=32) for n in (1, 2))),
    )


@claim("abstract", "Scaling goes on over many nodes", "128 nodes", READ)
def many_nodes(jobs: Jobs) -> Judged:
    one, four = (speed(torch(jobs, "nodes", nodes=n, batch=32)) for n in (1, 4))
    return Judged(
        f"4 nodes on two CPUs: {times(four / one)}",
        OPEN,
        "two CPUs: four nodes share them, which is no scaling",
    )


@claim("abstract", "The relation between cores, threads and network is not linear", "-", READ)
def not_linear(jobs: Jobs) -> Judged:
    gains = {
        n: threads(jobs, n, 2, 1)["horovod.flops_per_second"]
        / threads(jobs, n, 1, 1)["horovod.flops_per_second"]
        for n in ("resnet50", "inception3")
    }
    return holds(
        all(1 < x < 2 for x in gains.values()),
        f"2 threads over 1: {each('{:.2f}x', gains)}",
        two_threads(jobs, [n for n, x in gains.items() if not 1 < x < 2]),
    )


@claim("threads", "More threads than cores bring nothing", "-", EXPECTED)
def too_many_threads(jobs: Jobs) -> Judged:
    two, four = (threads(jobs, "resnet50", n, 1)["horovod.flops_per_second"] for n in (2, 4))
    return holds(four < 1.05 * two, f"ResNet-50, 4 over 2 threads on two cores: {times(four / two)}")


@claim(
    "threads",
    "Operations side by side (inter-op) help a network with branches more than a chain",
    "-",
    EXPECTED,
)
def branches(jobs: Jobs) -> Judged:
    gains = {
        n: threads(jobs, n, 1, 2)["horovod.flops_per_second"]
        / threads(jobs, n, 1, 1)["horovod.flops_per_second"]
        for n in ("resnet50", "inception3")
    }
    return holds(
        gains["inception3"] > gains["resnet50"],
        each("{:.2f}x", gains),
        "; ".join(f"{NAMES[n]} with two at a time: {spent(threads(jobs, n, 1, 2))}" for n in gains),
    )


@claim("batch size", "Throughput rises with the batch, and flattens", "-", EXPECTED)
def batch_flattens(jobs: Jobs) -> Judged:
    found = [speed(torch(jobs, "batch", batch=n)) for n in (8, 32, 128)]
    rises = [found[1] / found[0], found[2] / found[1]]
    return holds(
        rises[0] > 1 and rises[0] > rises[1], f"batch 8, 32, 128: {series(found, '{:.0f}'.format)} examples/s"
    )


@claim("batch size", "A larger batch scales better: as many gradient bytes for more work", "-", EXPECTED)
def batch_scales(jobs: Jobs) -> Judged:
    def efficiency(batch: int) -> float:
        one, two = (speed(torch(jobs, "nodes", nodes=n, batch=batch)) for n in (1, 2))
        return two / one / 2

    small, large = efficiency(8), efficiency(32)
    return holds(large > small, f"efficiency at 2 nodes: batch 8 {percent(small)}, 32 {percent(large)}")


@claim(
    "TensorFlow and PyTorch", "On CPUs TensorFlow is clearly faster than the PyTorch of 2019", "-", EXPECTED
)
def tensorflow_is_faster(jobs: Jobs) -> Judged:
    torch_, keras = (speed(jobs("frameworks", framework=f, processes=1)) for f in ("torch", "tensorflow"))
    return holds(
        keras > 1.2 * torch_,
        f"the same network, one process of two threads: TensorFlow over PyTorch {times(keras / torch_)}",
        "the kernels of both are oneDNN's",
    )


@claim("TensorFlow and PyTorch", "PyTorch gains more from several processes than TensorFlow", "-", EXPECTED)
def torch_gains_more(jobs: Jobs) -> Judged:
    gains = {
        f: speed(jobs("frameworks", framework=f, processes=2))
        / speed(jobs("frameworks", framework=f, processes=1))
        for f in ("torch", "tensorflow")
    }
    return holds(
        gains["torch"] > gains["tensorflow"],
        f"PyTorch {times(gains['torch'])}, TensorFlow {times(gains['tensorflow'])}",
    )


@claim(
    "Horovod's profile",
    "The framework asks for an allreduce for each gradient, the engine makes far fewer",
    "-",
    QUOTED,
)
def engine_fuses(jobs: Jobs) -> Judged:
    job = torch(jobs, "cycle", cycle=1)
    return holds(
        job["engine"] < 0.7 * job["asked"],
        f"a step asks for {job['asked']:.1f}, the engine makes {job['engine']:.1f}",
    )


@claim("Horovod's profile", "A longer HOROVOD_CYCLE_TIME means fewer calls of the engine", "-", QUOTED)
def cycles_fuse(jobs: Jobs) -> Judged:
    found = [torch(jobs, "cycle", cycle=n)["engine"] for n in CYCLES]
    falling = all(a >= 0.95 * b for a, b in pairwise(found)) and found[-1] < found[0]
    return holds(falling, f"{', '.join(map(str, CYCLES))} ms: {series(found, '{:.2f}'.format)} calls a step")


@claim(
    "Horovod's profile",
    "Without fusion (threshold 0) the engine makes as many calls as are asked for",
    "-",
    EXPECTED,
)
def no_fusion(jobs: Jobs) -> Judged:
    job = torch(jobs, "fusion", fusion=0)
    return holds(
        abs(job["engine"] - job["asked"]) < 0.5, f"asked {job['asked']:.1f}, made {job['engine']:.1f} a step"
    )


@claim("Horovod's profile", "A cycle time that is too long makes gradients wait", "-", EXPECTED)
def long_cycles_cost(jobs: Jobs) -> Judged:
    found = [torch(jobs, "cycle", cycle=n)["horovod.step_time_median"] for n in CYCLES]
    return holds(
        found[-1] > found[0],
        f"{', '.join(map(str, CYCLES))} ms: step {series([1000 * x for x in found], '{:.1f} ms'.format)}",
        "the engine wakes less often on a CPU that it shares with the training: from "
        f"{CYCLES[0]} to {CYCLES[-1]} ms of cycle time "
        + longer(*(torch(jobs, "cycle", cycle=n) for n in (CYCLES[0], CYCLES[-1]))),
    )


claim("abstract", "The fastest Skylake against K80 and V100", "2.35x faster, 3.32x slower", READ)(
    never("no GPU was at hand")
)
claim("GPU", "On GPUs both frameworks are close", "-", EXPECTED)(never("no GPU was at hand"))
