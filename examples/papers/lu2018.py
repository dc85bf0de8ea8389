"""Biswas, Lu, Panda 2018: gRPC for TensorFlow (arXiv 1804.01138); Lu, Bench 2018: layers of the stack.

The first was read in full, of the talk nothing could be read. Theirs is C++ over networks of 10 to 100 Gbit/s
with RDMA; ours is gRPC from Python over links of one machine.
"""

from __future__ import annotations

from judging import (
    EXPECTED,
    FIGURE,
    READ,
    Claim,
    Jobs,
    Judged,
    collect,
    each,
    holds,
    never,
    of_each,
    percent,
    times,
)
from points import NAMES, RATE, TRACED_NETWORKS, UNSHAPED

TITLE = "gRPC for parameter servers (Biswas, Lu, Panda 2018; Lu, Bench 2018)"
CLAIMS: list[Claim] = []
claim = collect(CLAIMS)

SIZES = ("small", "medium", "large")
NO_RDMA = "no RDMA here"
LAYERS = ("compute", "communication", "framework", "nothing ran")  # of traced steps


def payload(jobs: Jobs, network: str, what: str) -> dict[str, float]:
    """By size class: how many variables, or their bytes."""
    job = jobs("ps", network=network, ps=1, workers=1, batch=16, onednn=1)
    return {size: job[f"ps:0.payload.{size}.{what}"] for size in SIZES}


@claim(
    "section 2.3, figure 4",
    "Messages of a training consist of small, medium and large buffers",
    "under 1 KB, 1 MB, above",
    READ,
)
def three_classes(jobs: Jobs) -> Judged:
    found = of_each(lambda n: payload(jobs, n, "variables"))
    ours = "; ".join(
        f"{NAMES[n]} {x['small']:.0f}, {x['medium']:.0f}, {x['large']:.0f}" for n, x in found.items()
    )
    return holds(
        all(min(x.values()) > 0 for x in found.values()),
        f"variables by class: {ours}",
    )


@claim("section 3.2", "Large buffers carry most of the bytes", "60 % of the skewed payload's buffers", READ)
def large_carry_most(jobs: Jobs) -> Judged:
    found = of_each(lambda n: _share(payload(jobs, n, "bytes")))
    return holds(
        all(x > 0.6 for x in found.values()),
        "of the bytes: " + ", ".join(f"{NAMES[n]} {x:.0%}" for n, x in found.items()),
        "; ".join(thin(jobs, n) for n, x in found.items() if x <= 0.6),
    )


@claim(
    "section 3.2",
    "A payload of mostly large buffers stands for a training",
    "60 % large, 30 % medium, 10 % small",
    READ,
)
def large_are_most(jobs: Jobs) -> Judged:
    found = of_each(lambda n: _share(payload(jobs, n, "variables")))
    return holds(
        all(x > 0.5 for x in found.values()),
        "of the variables: " + ", ".join(f"{NAMES[n]} {x:.0%}" for n, x in found.items()),
        "their skewed payload is chosen, not counted: biases and norms are many and small",
    )


def thin(jobs: Jobs, network: str) -> str:
    counts, size = payload(jobs, network, "variables"), payload(jobs, network, "bytes")
    return (
        f"{NAMES[network]} has {counts['medium']:.0f} medium variables for {counts['large']:.0f} large ones: "
        f"many thin layers, of {size['medium'] / counts['medium'] / 1e3:.0f} KB each in the mean"
    )


def _share(classes: dict[str, float]) -> float:
    return classes["large"] / sum(classes.values())


@claim(
    "section 4.2, figure 7",
    "Serialising adds a cost of its own, whatever the network",
    "27 us of 64 KB on three networks",
    READ,
)
def serialising_costs(jobs: Jobs) -> Judged:
    extra = {
        r: jobs.link(r)["grpc.latency.skewed.serialized"] - jobs.link(r)["grpc.latency.skewed"]
        for r in (RATE, UNSHAPED)
    }
    ours = ", ".join(f"{rate} {1e6 * x:.0f} us" for rate, x in extra.items())
    close = 0.5 < extra[RATE] / extra[UNSHAPED] < 2 if extra[UNSHAPED] > 0 else False
    return holds(
        min(extra.values()) > 0 and close,
        f"skewed payload: {ours}",
        "on a slow link the longer message itself counts, too",
    )


@claim("figure 7", "The faster the network, the larger serialisation's share", "27 % to 48 %", FIGURE)
def share_of_serialising(jobs: Jobs) -> Judged:
    shares = {}
    for rate in (RATE, UNSHAPED):
        plain, packed = (jobs.link(rate)[f"grpc.latency.skewed{x}"] for x in ("", ".serialized"))
        shares[rate] = 1 - plain / packed
    return holds(
        shares[UNSHAPED] > shares[RATE], ", ".join(f"{rate} {percent(x)}" for rate, x in shares.items())
    )


@claim(
    "section 4.3, figure 8",
    "Latency is largest for skewed payloads, which have most bytes",
    "2.9 ms against 2.0 uniform, 1.5 random",
    READ,
)
def skewed_is_slowest(jobs: Jobs) -> Judged:
    found = {p: jobs.link(RATE)[f"grpc.latency.{p}"] for p in ("uniform.mixed", "random", "skewed")}
    return holds(
        max(found, key=lambda p: found[p]) == "skewed",
        ", ".join(f"{p} {1000 * x:.2f} ms" for p, x in found.items()),
    )


@claim(
    "section 4.3",
    "A slower network costs large payloads more than small ones",
    "skewed: 59 % of the latency",
    READ,
)
def slow_links_and_size(jobs: Jobs) -> Judged:
    def slower(payload: str) -> float:
        return jobs.link(RATE)[f"grpc.latency.{payload}"] / jobs.link(UNSHAPED)[f"grpc.latency.{payload}"]

    return holds(
        slower("skewed") > slower("uniform.small"),
        f"{RATE} over {UNSHAPED}: skewed {times(slower('skewed'))}, small {times(slower('uniform.small'))}",
    )


@claim(
    "section 4.4, figure 11",
    "gRPC does not use what a fast link offers",
    "2.4 GB/s of a 40 Gbit/s line",
    FIGURE,
)
def grpc_limits(jobs: Jobs) -> Judged:
    share = jobs.link(UNSHAPED)["net.grpc"] / jobs.link(UNSHAPED)["net.tcp"]
    return holds(share < 0.8, f"{percent(share)} of plain TCP over an unshaped link")


@claim("section 4.4", "On a slow link the link limits, not gRPC", "-", EXPECTED)
def link_limits(jobs: Jobs) -> Judged:
    share = jobs.link(RATE)["net.grpc"] / jobs.link(RATE)["net.tcp"]
    return holds(share > 0.8, f"{percent(share)} of plain TCP at {RATE}")


@claim("figure 11", "Bandwidth hardly depends on the pattern of the payload", "within 5 %", FIGURE)
def patterns_alike(jobs: Jobs) -> Judged:
    found = {p: jobs.link(RATE)[f"grpc.bandwidth.{p}"] for p in ("uniform.mixed", "random", "skewed")}
    spread = max(found.values()) / min(found.values()) - 1
    return holds(spread < 0.1, ", ".join(f"{p} {x / 1e6:.0f} MB/s" for p, x in found.items()))


@claim(
    "section 4.5, figures 13, 14",
    "A parameter server takes fewest calls of skewed payloads",
    "510 against 670 and 810 calls/s",
    FIGURE,
)
def fewest_skewed_calls(jobs: Jobs) -> Judged:
    found = {p: jobs.link(RATE)[f"grpc.ps.{p}"] for p in ("uniform.mixed", "random", "skewed")}
    return holds(
        min(found, key=lambda p: found[p]) == "skewed",
        ", ".join(f"{p} {x:.0f} calls/s" for p, x in found.items()),
    )


@claim(
    "section 4.5",
    "A faster network gains more for the server's pattern than from point to point",
    "4.1x against 2.1x",
    EXPECTED,
)
def pattern_gains_more(jobs: Jobs) -> Judged:
    def gain(name: str) -> float:
        return jobs.link(UNSHAPED)[name] / jobs.link(RATE)[name]

    server, line = gain("grpc.ps.skewed"), gain("grpc.bandwidth.skewed")
    return holds(
        server > line,
        f"{UNSHAPED} over {RATE}: server {times(server)}, point to point {times(line)}",
        "the server's calls carry data both ways, so a link that is full one way holds them up less: "
        f"{_moved(jobs, RATE)} over {RATE}, {_moved(jobs, UNSHAPED)} over {UNSHAPED}",
    )


def _moved(jobs: Jobs, rate: str) -> str:
    link = jobs.link(rate)
    server, line = link["grpc.ps.skewed.bytes"], link["grpc.bandwidth.skewed"]
    return f"{server / 1e6:.0f} MB/s against {line / 1e6:.0f} from point to point"


def _of_first(jobs: Jobs) -> str:
    def share(network: str) -> float:
        job = jobs("ps", network=network, ps=2, workers=2, batch=16, onednn=1)
        held = [job[f"ps:{server}.payload.total.bytes"] for server in (0, 1)]
        return held[0] / sum(held)

    return ", ".join(f"{NAMES[n]} {percent(x)}" for n, x in of_each(share).items())


@claim("section 3.1", "One server for many workers may hold them up; a second may help", "-", READ)
def second_server(jobs: Jobs) -> Judged:
    def speed(network: str, ps: int) -> float:
        return jobs("ps", network=network, ps=ps, workers=2, batch=16, onednn=1)["worker.examples_per_second"]

    found = of_each(lambda n: speed(n, 2) / speed(n, 1))
    return holds(
        max(found.values()) > 1.05,
        f"2 servers over 1, 2 workers: {each('{:.2f}x', found)}",
        f"of two servers ps:0 holds {_of_first(jobs)} of the bytes: TensorFlow deals variables out in turn",
    )


@claim(
    "layers of the stack",
    "In a short job with a small network launching takes much of the time",
    "15 % and more",
    EXPECTED,
)
def launching(jobs: Jobs) -> Judged:
    job = jobs("processes", processes=1, threads=2)
    share = job["seconds_to_first_step"] / job["seconds"]
    return holds(share > 0.05, f"{percent(share)} of {job['seconds']:.0f} s pass before the first step")


@claim(
    "layers of the stack",
    "Communication's share is larger where there are more gradient bytes per FLOP",
    "-",
    EXPECTED,
)
def communication_share(jobs: Jobs) -> Judged:
    found = of_each(lambda n: jobs("horovod", network=n, workers=2, batch=16, onednn=1))
    held = ("transfer", "wait_ranks")
    shares = {n: sum(job.get(f"account.{part}") for part in held) for n, job in found.items()}
    sent, work = "horovod.sent_bytes_per_step", "horovod.flops_per_step"
    weight = {n: job[sent] / job[work] for n, job in found.items()}
    most = max(weight, key=lambda n: weight[n])
    return holds(
        max(shares, key=lambda n: shares[n]) == most,
        "communication and waits: "
        + ", ".join(f"{NAMES[n]} {x:.0%}" for n, x in shares.items())
        + f"; most bytes per FLOP: {NAMES[most]}",
    )


@claim(
    "layers of the stack",
    "The layers add up to the step: input, framework, compute, communication, waits",
    "-",
    EXPECTED,
)
def layers_add_up(jobs: Jobs) -> Judged:
    found = of_each(lambda n: jobs("horovod", network=n, workers=2, batch=16, onednn=1))
    sums = {n: sum(job.like("account.").values()) for n, job in found.items()}
    return holds(
        all(abs(x - 1) < 0.02 for x in sums.values()),
        "sum of the parts: " + ", ".join(f"{NAMES[n]} {x:.1%}" for n, x in sums.items()),
    )


@claim(
    "layers of the stack",
    "Above computation a step has communication, or waits for it, more than the framework's own work",
    "-",
    EXPECTED,
)
def overhead_by_layer(jobs: Jobs) -> Judged:
    found = {
        f"{NAMES[n]} with {how}": jobs(f"traced-{program}", network=n, workers=workers).like("traced.")
        for n in TRACED_NETWORKS
        for program, how, workers in (("ps", "servers", 1), ("horovod", "Horovod", 2))
    }
    ours = [
        f"{what} {', '.join(f'{layers.get(layer, 0.0):.0%} {layer}' for layer in LAYERS)}"
        for what, layers in found.items()
    ]
    # Horovod's engine has a thread of its own, which the profiler does not see: nothing ran meanwhile.
    above = [one.get("communication", 0.0) + one.get("nothing ran", 0.0) for one in found.values()]
    own = [one.get("framework", 0.0) for one in found.values()]
    return holds(
        all(a > b for a, b in zip(above, own, strict=True)),
        f"traced steps: {'; '.join(ours)} (Horovod's engine is not in TensorFlow's trace)",
    )


for where, text, theirs in (
    ("section 4.2", "RDMA cuts latency by 40 % against 40G Ethernet", "40 %"),
    ("section 4.4", "RDMA has 2.14 times IPoIB's bandwidth", "2.14x"),
    ("section 4.5", "RDMA raises the server's throughput", "4.1x"),
):
    claim(where, text, theirs, READ)(never(NO_RDMA))
