"""Answers of the models made up of plain records, with the papers' figures where they have some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.answers.about import About, MachineAbout
from roofline.answers.breakdown import Breakdown, BreakdownPart
from roofline.answers.roofline import Crossing, Roof, RoofLine, Roofline, RoofPoint
from roofline.answers.tables import TableChunk
from roofline.answers.trajectory import Path, Stop, Trajectory
from roofline.answers.values import Spread, Value
from roofline_client.plots import AccountOf, Steps

from .. import chunks, verdicts
from ..reports import BEGIN, SECOND, absent, report, seen

# The machine of Javed, Ibrahim, Lu 2019: 2 sockets x 12 cores, STREAM 119.21 GiB/s.
XEON = "Intel(R) Xeon(R) Gold 6126 CPU @ 2.60GHz"
PEAK_512, PEAK_256, STREAM = 1305.6e9, 710.4e9, 119.21 * 2**30
ETHERNET = 1.17e9


def about(*hosts: str, **more: Any) -> About:
    machines = [MachineAbout(host, XEON, 24, BEGIN - 86_400 * SECOND) for host in hosts or ("node1",)]
    made = About(
        jobs=["42"],
        experiment="",
        begin_ns=BEGIN,
        end_ns=BEGIN + 300 * SECOND,
        machines=machines,
        alignment=seen(2.5e-5, "s", scope="node"),
        step_time=seen(0.0652, "s"),
        tags={"nodes": "4"},
    )
    return made._replace(**more)


def spread(middle: float, relative: float = 0.1, count: int = 60) -> Spread:
    factors = (1 - 2 * relative, 1 - relative, 1.0, 1 + relative, 1 + 2 * relative)
    return Spread(*(middle * f for f in factors), count)


def line(
    name: str, label: str, kind: str, value: float, other: float, binding: bool = False, **more: Any
) -> RoofLine:
    """A ceiling; other: the highest of the other kind, where it ends (FLOP/s or byte/s)."""
    if kind == "compute":
        intensity = [value / other, 2.0**12]
        flops = [value, value]
    else:
        intensity = [2.0**-6, other / value]
        flops = [i * value for i in intensity]
    level = "" if kind == "compute" else name.partition(".")[0].replace("net", "network")
    made = RoofLine(name, label, kind, intensity, flops, binding, level, "f32", 0, "measured")
    return made._replace(**more)


def xeon_roof(host: str = "node1", scale: float = 1.0, hierarchical: bool = False) -> Roof:
    """Measured ceilings by vector width with the theoretical peak dashed, as `calibrate` finds them."""
    peak, bandwidth = PEAK_512 * scale * 0.93, STREAM * scale
    fastest = 8 * bandwidth if hierarchical else bandwidth
    widths = (("512-bit FMA", 1.0), ("256-bit FMA", 0.54), ("128-bit", 0.27), ("scalar", 0.06))
    lines = [
        line(f"peak.f32.{n}", f"FP32 {n} {f * peak / 1e9:.1f} GFLOP/s", "compute", f * peak, fastest, f == 1)
        for n, f in widths
    ]
    stated = f"FP32 512-bit theoretical {PEAK_512 * scale / 1e9:.1f} GFLOP/s"
    theory = line("peak.f32.512.theory", stated, "compute", PEAK_512 * scale, fastest, provenance="analytic")
    triad = f"DRAM triad {bandwidth / 1e9:.1f} GB/s"
    lines += [theory, line("dram.triad", triad, "memory", bandwidth, peak, True)]
    if hierarchical:
        for level, factor in (("l3", 2.3), ("l2", 4.6), ("l1", 8.0)):
            found = bandwidth * factor
            label = f"{level.upper()} read {found / 1e9:.1f} GB/s"
            lines.append(line(f"{level}.read", label, "memory", found, peak))
    return Roof(host, "the whole node, shared by all its ranks", lines, [], "", BEGIN)


def point(label: str = "worker:0", intensity: float = 4.2, flops: float = 4e11, **more: Any) -> RoofPoint:
    role = label.partition(":")[0].partition(" ")[0]
    attainable = min(PEAK_512 * 0.93, intensity * STREAM)
    made = RoofPoint(
        label=label,
        kind="rank",
        role=role,
        rank=label,
        host="node1",
        device="",
        level="dram",
        precision="f32",
        intensity=seen(intensity, "FLOP/byte"),
        flops_per_second=seen(flops, "FLOP/s", "analytic"),
        intensity_spread=spread(intensity, 0.05),
        flops_spread=spread(flops),
        time=seen(19.0, "s"),
        bound="peak.f32.512",
        attainable=seen(attainable, "FLOP/s"),
        headroom=seen(attainable / flops, "1"),
        words="bound by memory",
        incomplete="",
        flops_per_joule=absent("FLOP/J"),
    )
    return made._replace(**more)


def no_point(label: str = "ps:0", reason: str = "no FLOPs were counted: no PMU here") -> RoofPoint:
    return point(label)._replace(flops_per_second=absent("FLOP/s", reason), headroom=absent("1"))


def roofline(
    points: Sequence[RoofPoint] = (), roofs: Sequence[Roof] = (), kind: str = "classic", **more: Any
) -> Roofline:
    hosts = list(dict.fromkeys([*(r.host for r in roofs), *(p.host for p in points)]))
    return Roofline(about(*hosts), kind, list(roofs), list(points), [], [])._replace(**more)


def network_roof(host: str = "node1") -> Roof:
    peak = PEAK_512 * 0.93
    lines = [
        line("peak.f32.512", f"FP32 512-bit FMA {peak / 1e9:.1f} GFLOP/s", "compute", peak, ETHERNET, True),
        line("net.tcp", "TCP to node2 1.17 GB/s", "network", ETHERNET, peak, True),
        line("net.grpc", "gRPC to node2 0.71 GB/s", "network", 0.71e9, peak),
    ]
    return Roof(host, "", lines, [], "", BEGIN)


def crossing(label: str = "worker:0", batch: float = 32, at: float | None = 188) -> Crossing:
    found = absent("1", "its FLOPs do not grow with the batch") if at is None else seen(at, "1", "estimated")
    ridge = seen(PEAK_512 * 0.93 / ETHERNET, "FLOP/byte", "estimated")
    words = f"{label} hides its communication from 188 examples a step on; it ran with {batch:.0f}."
    return Crossing(label, label.partition(":")[0], seen(batch, "1"), found, words, ridge)


def value(number: float | None, unit: str, reason: str = "") -> Value:
    return absent(unit, reason) if number is None else seen(number, unit)


# -- trajectories: Javed et al. 2019, Vgg16 and AlexNet -----------------------------------------------


def stop(at: str, found: RoofPoint, throughput: float | None, efficiency: float | None) -> Stop:
    speedup = None if throughput is None else throughput / 120
    return Stop(
        at,
        [f"job-{at}"],
        found._replace(kind="role", label=found.role, rank=""),
        value(throughput, "examples/s", "no step said how many examples it had"),
        value(speedup, "1", "no throughput"),
        value(efficiency, "1", "no throughput"),
        seen(0.5, "s"),
    )


def trajectory(*paths: Path, over: str = "nodes", roofs: Sequence[Roof] = (), **more: Any) -> Trajectory:
    jobs = list(dict.fromkeys(job for path in paths for s in path.stops for job in s.jobs))
    head = about("node1", jobs=jobs, experiment="vgg16", tags={"model": "Vgg16"})
    return Trajectory(head, over, list(paths), list(roofs) or [xeon_roof()], [])._replace(**more)


def vgg16() -> Trajectory:
    """Parameter servers and workers from 1 to 32 nodes against Horovod."""
    nodes = (1, 2, 4, 8, 16, 32)
    ps, workers, horovod = [], [], []
    for k, n in enumerate(nodes):
        eff, ring = 0.86**k, 0.97**k
        ps.append(stop(str(n), point("ps:0", 2.0 * 0.62**k, 8e9 * 0.35**k), 120 * n * eff, eff))
        workers.append(stop(str(n), point("worker:0", 4.0 * 0.93**k, 3.11e11 * 0.79**k), 120 * n * eff, eff))
        found = point("horovod:0", 10.5 * 0.97**k, 1.1e12 * 0.96**k)
        horovod.append(stop(str(n), found, 230 * n * ring, ring))
    sentence = "horovod keeps 82 % of its FLOP/s from 1 to 32 nodes."
    return trajectory(Path("ps", ps, ""), Path("worker", workers, ""), Path("horovod", horovod, sentence))


# -- breakdowns ---------------------------------------------------------------------------------------

BREAKDOWNS = {
    "time": ("s", {"input": 4e-3, "forward": 1.9e-2, "backward": 3.4e-2, "communicate": 8e-3, "other": 3e-4}),
    "flops_by_width": ("FLOP", {"scalar": 1e8, "128-bit": 6e7, "256-bit": 9e8, "512-bit": 4.1e9}),
    "traffic_by_level": ("byte", {"l2": 8e8, "l3": 3e8, "dram": 1.2e8}),
    "kernels_by_time": (
        "s",
        {
            "convolution backward_data": 2.1e-2,
            "convolution backward_weights": 1.7e-2,
            "convolution forward": 1.5e-2,
            "inner_product forward": 3e-3,
            **{f"reorder {n}": 4e-4 for n in range(9)},
        },
    ),
}


LAYERS = {"ResNet/layer1/0/conv1": 2.1e-2, "ResNet/fc": 4e-3, "(collective)": 9e-3, "(nothing ran)": 2e-3}


def layers(*subjects: str) -> Breakdown:
    """Next to another kind, which is not drawn, and with notes, of which one is of layers."""
    found = breakdown(*subjects, kinds=["time"])
    parts = [
        BreakdownPart(
            "layers_by_time", subject, subject.partition(":")[0], part, seen(number, "s"), share, ""
        )
        for subject in subjects
        for part, number in LAYERS.items()
        for share in [seen(number / sum(LAYERS.values()), "1")]
    ]
    return found._replace(parts=[*found.parts, *parts], notes=["layers are those of 3 steps", "no PMU"])


def breakdown(*subjects: str, kinds: Sequence[str] = tuple(BREAKDOWNS), **more: Any) -> Breakdown:
    parts = []
    for kind in kinds:
        unit, numbers = BREAKDOWNS[kind]
        for at, subject in enumerate(subjects or ("worker", "ps")):
            whole = sum(numbers.values())
            for part, number in numbers.items():
                found = seen(number / (1 + at), unit)
                share = absent("1") if kind == "traffic_by_level" else seen(number / whole, "1")
                role = subject.partition(":")[0]
                parts.append(BreakdownPart(kind, subject, role, part, found, share, ""))
    return Breakdown(about(), parts, [])._replace(**more)


# -- steps --------------------------------------------------------------------------------------------

SHARES = {"input": 0.05, "forward": 0.3, "backward": 0.45, "communicate": 0.15}


def rank_steps(rank: str, numbers: Sequence[int], seconds: float = 0.065, phases: bool = True) -> TableChunk:
    """Steps whose time wanders a little, the same each time."""
    times = [
        seconds * (1 + 0.03 * ((n * 7919 + len(rank)) % 17) / 17 + (0.6 if n % 37 == 5 else 0))
        for n in numbers
    ]
    begins, now = [], BEGIN
    for time in times:
        begins.append(now)
        now += int(time * 1e9)
    columns: dict[str, Sequence[Any]] = {
        "rank": [rank] * len(times),
        "step": list(numbers),
        "begin_ns": begins,
        "duration_ns": [int(time * 1e9) for time in times],
    }
    if phases:
        columns.update({f"{name}_time": [time * share for time in times] for name, share in SHARES.items()})
    return chunks.chunk("steps", columns)


def account(ranks: Sequence[str] = ("worker:0", "ps:0"), **more: Any) -> AccountOf:
    """Each rank a little faster than the one before."""
    accounts = [
        verdicts.account(
            rank, 0.157 - at / 1000, input=0.1, compute=0.4, contention=0.08, wait_ranks=0.35, other=0.07
        )
        for at, rank in enumerate(ranks)
    ]
    return AccountOf(report(verdict=verdicts.verdict(accounts=accounts), **more), about())


def steps(*found: TableChunk, **more: Any) -> Steps:
    return Steps("42", list(found) or [rank_steps("worker:0", range(60))], about())._replace(**more)
