"""Javed, Ibrahim, Lu 2019: performance of deep-learning workloads by roofline trajectories.

Only the abstract and the introduction could be read; other figures are those that the literature quotes.
"""

from __future__ import annotations

from judging import (
    DIFFERS,
    QUOTED,
    READ,
    AbsentError,
    Claim,
    Job,
    Jobs,
    Judged,
    collect,
    each,
    giga,
    holds,
    longer,
    never,
    of_each,
    percent,
    series,
    spent,
    times,
)
from points import BATCHES, NAMES

TITLE = "Roofline trajectories (Javed, Ibrahim, Lu 2019)"
CLAIMS: list[Claim] = []
claim = collect(CLAIMS)

NO_PMU = "no hardware counters here (a virtual machine), so no DRAM bytes; intensity is over tensors"


def ps(jobs: Jobs, network: str, ps: int = 1, workers: int = 1, batch: int = 16, onednn: int = 1) -> Job:
    return jobs("ps", network=network, ps=ps, workers=workers, batch=batch, onednn=onednn)


def horovod(jobs: Jobs, network: str, workers: int = 1, batch: int = 16, onednn: int = 1) -> Job:
    return jobs("horovod", network=network, workers=workers, batch=batch, onednn=onednn)


@claim(
    "abstract",
    "Settings found with the roofline make training faster than TensorFlow's defaults",
    "up to 3.5x",
    READ,
)
def tuned_is_faster(jobs: Jobs) -> Judged:
    found = of_each(
        lambda n: (
            horovod(jobs, n)["horovod.flops_per_second"]
            / horovod(jobs, n, onednn=0)["horovod.flops_per_second"]
        )
    )
    best = max(found.values())
    return holds(best > 1.05, f"oneDNN on against off: {each('{:.2f}x', found)}")


@claim(
    "introduction",
    "Default software leaves much of a CPU's speed unused; no change of the model is needed to get it",
    "-",
    READ,
)
def defaults_leave_speed(jobs: Jobs) -> Judged:
    off = of_each(lambda n: horovod(jobs, n, onednn=0)["horovod.roof_share"])
    on = of_each(lambda n: horovod(jobs, n)["horovod.roof_share"])
    worse = [n for n in on if not on[n] > off[n]]
    ours = f"share of the roof: {each('{:.0%}', off)}; with oneDNN {each('{:.0%}', on)}"
    return holds(not worse, ours, f"not for {', '.join(NAMES[n] for n in worse)}")


@claim(
    "figures 11 to 13",
    "VGG-16 with MKL comes nearest to the peak of all networks",
    "1,200 GFLOP/s, 92 % of the peak",
    QUOTED,
)
def vgg_is_nearest(jobs: Jobs) -> Judged:
    found = of_each(lambda n: ps(jobs, n)["worker.roof_share"])
    if "vgg16" not in found:
        raise AbsentError("not run: VGG-16 with one server and one worker")
    return holds(
        max(found, key=lambda n: found[n]) == "vgg16",
        each("{:.0%}", found),
        spent(ps(jobs, "vgg16")),
    )


@claim("figures 11 to 13", "VGG-16 with MKL is within a tenth of the peak", "8 % under the peak", QUOTED)
def vgg_reaches_the_peak(jobs: Jobs) -> Judged:
    share = max(ps(jobs, "vgg16")["worker.roof_share"], horovod(jobs, "vgg16")["horovod.roof_share"])
    return holds(
        share >= 0.8,
        f"{percent(share)} of the worker's roof",
        spent(horovod(jobs, "vgg16")),
    )


@claim(
    "figure 6",
    "FLOP/s per worker fall as the cluster of parameter servers grows (AlexNet)",
    "311 to 98 GFLOP/s, to 32 %",
    QUOTED,
)
def flops_fall_with_workers(jobs: Jobs) -> Judged:
    found = [ps(jobs, "alexnet", workers=n)["worker.flops_per_second"] / n for n in (1, 2)]
    return holds(
        found[1] < found[0], f"1, 2 workers: {series(found, giga)} each ({percent(found[1] / found[0])})"
    )


@claim("figure 6", "They fall most where there are most parameters per FLOP: AlexNet", "-")
def most_for_parameters(jobs: Jobs) -> Judged:
    found = of_each(lambda n: (ps(jobs, n), ps(jobs, n, workers=2)))
    speed, variables = "worker.flops_per_second", "ps:0.payload.total.bytes"
    kept = {n: two[speed] / 2 / one[speed] for n, (one, two) in found.items()}
    weight = {n: one[variables] / one["worker.flops_per_step"] for n, (one, _) in found.items()}
    heaviest = max(weight, key=lambda n: weight[n])
    ours = f"kept from 1 to 2 workers: {each('{:.0%}', kept)}; most parameters per FLOP: {NAMES[heaviest]}"
    least = min(kept, key=lambda n: kept[n])
    why = f"with a second worker {NAMES[least]} loses most, not by its parameters alone"
    return holds(least == heaviest, ours, f"{why}: {longer(*found[least], 'worker')}")


@claim(
    "figure 5", "A server's point is far left of and below its workers': a fraction of a FLOP per byte", "-"
)
def server_is_far_left(jobs: Jobs) -> Judged:
    found = of_each(lambda n: ps(jobs, n))
    left = all(j["ps.intensity.minimum"] < 0.1 * j["worker.intensity.minimum"] for j in found.values())
    below = all(j["ps.flops_per_second"] < 0.05 * j["worker.flops_per_second"] for j in found.values())
    one = found["resnet50"]
    ours = (
        f"ResNet-50: server {one['ps.intensity.minimum']:.2g} FLOP/byte, {giga(one['ps.flops_per_second'])}; "
    )
    worker = f"{one['worker.intensity.minimum']:.3g}, {giga(one['worker.flops_per_second'])}"
    ours += f"worker {worker} (over tensors, analytic)"
    return holds(left and below, ours)


@claim("figure 5", "More workers load a server more", "-")
def workers_load_the_server(jobs: Jobs) -> Judged:
    found = of_each(
        lambda n: (
            ps(jobs, n, workers=2)["ps.received_bytes_per_second"]
            / ps(jobs, n)["ps.received_bytes_per_second"]
        )
    )
    return holds(all(x > 1 for x in found.values()), f"bytes/s at 2 workers over 1: {each('{:.2f}x', found)}")


@claim("figure 5", "With a second server each carries less", "-")
def second_server_carries(jobs: Jobs) -> Judged:
    found = of_each(
        lambda n: (
            ps(jobs, n, ps=2, workers=2)["ps:0.payload.total.bytes"]
            / ps(jobs, n, workers=2)["ps:0.payload.total.bytes"]
        )
    )
    return holds(
        all(x < 0.75 for x in found.values()),
        f"bytes that ps:0 holds, 2 servers over 1: {each('{:.0%}', found)}",
        "TensorFlow deals variables out in turn: weights come to one server, their small biases to the other",
    )


@claim("figure 7", "Throughput grows with workers, by less than in proportion", "-")
def throughput_grows(jobs: Jobs) -> Judged:
    found = of_each(
        lambda n: (
            ps(jobs, n, workers=2)["worker.examples_per_second"] / ps(jobs, n)["worker.examples_per_second"]
        )
    )
    return holds(all(1 < x < 2 for x in found.values()), f"2 workers over 1: {each('{:.2f}x', found)}")


@claim("figure 7", "Throughput goes on growing with 4 workers", "to 16 nodes")
def four_workers(jobs: Jobs) -> Judged:
    ratio = (
        ps(jobs, "resnet50", workers=4)["worker.examples_per_second"]
        / ps(jobs, "resnet50", workers=2)["worker.examples_per_second"]
    )
    ours = f"ResNet-50, 4 over 2 workers: {times(ratio)}"
    return Judged(ours, "can't be judged here", "two CPUs: four workers share them, which is no scaling")


@claim("figure 8", "Horovod keeps more FLOP/s per rank than parameter servers do", "-")
def horovod_keeps_more(jobs: Jobs) -> Judged:
    found = of_each(
        lambda n: (
            horovod(jobs, n, workers=2)["horovod.flops_per_second"]
            / ps(jobs, n, workers=2)["worker.flops_per_second"]
        )
    )
    return holds(
        all(x > 1 for x in found.values()), f"Horovod over PS, 2 ranks each: {each('{:.2f}x', found)}"
    )


@claim("figure 8", "Horovod's advantage is largest for AlexNet", "-")
def largest_for_alexnet(jobs: Jobs) -> Judged:
    found = of_each(
        lambda n: (
            horovod(jobs, n, workers=2)["horovod.examples_per_second"]
            / ps(jobs, n, workers=2)["worker.examples_per_second"]
        )
    )
    most, heaviest = max(found, key=lambda n: found[n]), _heaviest(jobs)
    why = f"with these small images {NAMES[heaviest]} has most parameters per FLOP"
    if most != heaviest:
        why += f"; {NAMES[most]} with servers: {spent(ps(jobs, most, workers=2))}"
    return holds(most == "alexnet", f"examples/s, Horovod over PS: {each('{:.2f}x', found)}", why)


def _heaviest(jobs: Jobs) -> str:
    """Which network has most parameters per FLOP."""
    found = of_each(lambda n: ps(jobs, n))
    weight = {n: j["ps:0.payload.total.bytes"] / j["worker.flops_per_step"] for n, j in found.items()}
    return max(weight, key=lambda n: weight[n])


@claim(
    "figures 5, 8",
    "Horovod moves fewer bytes for the same FLOPs: intensity doubles",
    "VGG-16: 2.0 (PS), 4.2 (Horovod), of DRAM",
    QUOTED,
)
def fewer_network_bytes(jobs: Jobs) -> Judged:
    found = of_each(
        lambda n: (
            _per_network_byte(horovod(jobs, n, workers=2), "horovod")
            / _per_network_byte(ps(jobs, n, workers=2), "worker")
        )
    )
    judged = holds(
        all(x > 1 for x in found.values()),
        f"FLOPs per network byte, Horovod over PS: {each('{:.2f}x', found)}",
        "with 2 ranks a ring sends 2 (N-1)/N = 1 times the gradients, as much as a worker pushes",
    )
    return judged if judged.verdict != DIFFERS else judged._replace(why=f"{judged.why}; {NO_PMU}")


def _per_network_byte(job: Job, role: str) -> float:
    return job[f"{role}.flops_per_step"] / max(
        job[f"{role}.sent_bytes_per_step"], job[f"{role}.received_bytes_per_step"]
    )


claim("figures 5, 8", "Intensity over DRAM bytes", "VGG-16: 2.0 (PS), 4.2 (Horovod)", QUOTED)(never(NO_PMU))


@claim(
    "figures 9, 14",
    "FLOPs of a step and rank do not change with cluster size and method; memory accesses do",
    "-",
)
def same_flops(jobs: Jobs) -> Judged:
    def spread(n: str) -> float:
        found = [ps(jobs, n, workers=w)["worker.flops_per_step"] for w in (1, 2)]
        found += [horovod(jobs, n, workers=w)["horovod.flops_per_step"] for w in (1, 2)]
        return max(found) / min(found) - 1

    worst = max(of_each(spread).values())
    return holds(
        worst < 0.01,
        f"FLOPs of a step differ by at most {worst:.2%} (analytic)",
    )


@claim("figures 10, 15", "With MKL nearly all FLOPs are single precision in the widest vectors", "-")
def widest_vectors(jobs: Jobs) -> Judged:
    wide = of_each(lambda n: _widest(horovod(jobs, n)))
    single = min(of_each(lambda n: horovod(jobs, n)["precision.f32"]).values())
    return holds(
        min(wide.values()) > 0.9 and single > 0.99,
        f"widest vectors: {each('{:.0%}', wide)}; FP32 at least {percent(single)}",
    )


@claim("figures 10, 15", "Without MKL more FLOPs are done in narrower vectors or scalars", "-")
def vanilla_is_narrower(jobs: Jobs) -> Judged:
    off = of_each(lambda n: _widest(horovod(jobs, n, onednn=0)))
    on = of_each(lambda n: _widest(horovod(jobs, n)))
    return holds(
        all(off[n] < on[n] for n in off),
        f"known to be widest: without {each('{:.0%}', off)}; with {each('{:.0%}', on)}",
        "without its options the kernels are oneDNN's gemm_api, which does not say its width",
    )


def _widest(job: Job) -> float:
    widths = {
        int(name.split()[1].removesuffix("-bit")): share
        for name, share in job.like("width.").items()
        if name.endswith("-bit")
    }
    return widths[max(widths)] if widths else 0.0


@claim("figures 11 to 13", "MKL moves workers up for every network", "-", QUOTED)
def mkl_moves_up(jobs: Jobs) -> Judged:
    found = of_each(
        lambda n: ps(jobs, n)["worker.flops_per_second"] / ps(jobs, n, onednn=0)["worker.flops_per_second"]
    )
    return holds(
        all(x > 1 for x in found.values()),
        f"on over off, 1 worker: {each('{:.2f}x', found)}",
    )


@claim("figures 11 to 13", "The more workers there are, the less MKL gains: communication weighs more", "-")
def mkl_gains_less(jobs: Jobs) -> Judged:
    def gain(n: str, workers: int) -> float:
        on, off = (ps(jobs, n, workers=workers, onednn=x)["worker.examples_per_second"] for x in (1, 0))
        return on / off

    found = of_each(lambda n: gain(n, 2) / gain(n, 1))
    return holds(
        all(x <= 0.99 for x in found.values()),
        f"gain at 2 workers over that at 1: {each('{:.2f}', found)}",
        "; ".join(_second_worker(jobs, onednn) for onednn in (1, 0)),
    )


def _second_worker(jobs: Jobs, onednn: int) -> str:
    one, two = (ps(jobs, "alexnet", workers=n, onednn=onednn) for n in (1, 2))
    return f"oneDNN {'on' if onednn else 'off'}, AlexNet with a second worker: {longer(one, two, 'worker')}"


@claim("figures 16, 17", "Twice the batch: more examples a second", "batch 64 to 128", QUOTED)
def larger_batch(jobs: Jobs) -> Judged:
    small, large = BATCHES
    found = of_each(
        lambda n: (
            ps(jobs, n, workers=2, batch=large)["worker.examples_per_second"]
            / ps(jobs, n, workers=2, batch=small)["worker.examples_per_second"]
        )
    )
    return holds(
        all(1 < x < 2.1 for x in found.values()), f"batch {large} over {small}: {each('{:.2f}x', found)}"
    )


@claim("figures 16, 17", "Twice the batch halves the network bytes of an example", "-")
def fewer_bytes_an_example(jobs: Jobs) -> Judged:
    small, large = BATCHES

    def of_an_example(n: str, batch: int) -> float:
        return ps(jobs, n, workers=2, batch=batch)["worker.sent_bytes_per_step"] / batch

    found = of_each(lambda n: of_an_example(n, large) / of_an_example(n, small))
    return holds(all(abs(x - 0.5) < 0.05 for x in found.values()), each("{:.1%}", found))


@claim("figures 16, 17", "A larger batch raises intensity and FLOP/s of the workers", "-", QUOTED)
def batch_raises_intensity(jobs: Jobs) -> Judged:
    small, large = BATCHES

    def raised(n: str, name: str) -> float:
        few, many = (horovod(jobs, n, workers=2, batch=b)[name] for b in (small, large))
        return many / few

    intensity = of_each(lambda n: raised(n, "horovod.intensity.minimum"))
    speed = of_each(lambda n: raised(n, "horovod.flops_per_second"))
    ours = f"Horovod: intensity {each('{:.2f}x', intensity)}; FLOP/s {each('{:.2f}x', speed)}"
    return holds(all(x > 1 for x in [*intensity.values(), *speed.values()]), ours)
