"""Reports made up of plain records, as the server would send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.answers.machines import Ceiling, SourceStatus
from roofline.answers.report import (
    Alignment,
    Fact,
    Gap,
    PartReport,
    Point,
    ProfilerCost,
    RankReport,
    Report,
    RoleReport,
    SourceReport,
    Summary,
)
from roofline.answers.roofline import Roof, RoofLine
from roofline.answers.values import Provenance, Scope, Value

SECOND = 10**9
BEGIN = 1_760_000_000 * SECOND
BANDWIDTH, PEAK = 40e9, 2e12  # byte/s and FLOP/s of the made-up node
RIDGE = PEAK / BANDWIDTH
LOWEST, HIGHEST = 2.0**-6, 2.0**12
UNITS = {
    "steps": "1",
    "step_time_median": "s",
    "step_time_p95": "s",
    "examples_per_second": "examples/s",
    "input_time_per_step": "s",
    "forward_time_per_step": "s",
    "backward_time_per_step": "s",
    "communicate_time_per_step": "s",
    "wait_time_per_step": "s",
    "optimizer_time_per_step": "s",
    "other_time_per_step": "s",
    "flops_per_step": "FLOP",
    "flops_per_second": "FLOP/s",
    "flops_per_step.measured": "FLOP",
    "flops_per_second.measured": "FLOP/s",
    "bytes_per_step.minimum": "byte",
    "bytes_per_step.dram": "byte",
    "intensity.minimum": "FLOP/byte",
    "kernel_time_per_step": "s",
    "attainable_flops_per_second": "FLOP/s",
    "roof_share": "1",
    "cpu_time_per_step": "s",
    "cpu_utilization": "1",
    "memory_peak": "byte",
    "sent_bytes_per_step": "byte",
    "received_bytes_per_step": "byte",
    "sent_bytes_per_second": "byte/s",
    "received_bytes_per_second": "byte/s",
    "dram_bytes_per_second": "byte/s",
    "intensity.dram": "FLOP/byte",
    "energy_per_step": "J",
    "power": "W",
    "flops_per_joule": "FLOP/J",
}
SEEN = {
    "steps": 60.0,
    "step_time_median": 0.0652,
    "step_time_p95": 0.071,
    "examples_per_second": 245.4,
    "flops_per_step": 4.32e9,
    "flops_per_second": 6.6e10,
    "bytes_per_step.minimum": 3.0 * 2**20,
    "intensity.minimum": 1373.3,
    "cpu_utilization": 1.93,
}


def seen(number: float, unit: str, provenance: str = "measured", scope: str = "process") -> Value:
    return Value(number, unit, Provenance(provenance), Scope(scope), 1.0, "")


def absent(unit: str, reason: str = "nobody measured it") -> Value:
    return Value(None, unit, reason=reason)


def summary(bound: str = "", **numbers: float | None) -> Summary:
    """All values: those of SEEN, then `numbers` (dots of a key written as __); the rest absent."""
    known = {**SEEN, **{name.replace("__", "."): number for name, number in numbers.items()}}
    values = {
        key: absent(unit) if known.get(key) is None else seen(float(known[key] or 0.0), unit)
        for key, unit in UNITS.items()
    }
    return Summary(values, bound, "" if bound else "no ceilings")


def empty_summary() -> Summary:
    return Summary({key: absent(unit) for key, unit in UNITS.items()}, "", "nobody measured it")


def rank(
    key: str = "worker:0", host: str = "node1", what: Summary | None = None, name: str = ""
) -> RankReport:
    role, _, index = key.rpartition(":")
    return RankReport(key, role, int(index), host, 4711, name, "own", what or summary())


def ceiling(name: str, kind: str, value: float, **more: Any) -> Ceiling:
    unit = "byte/s" if kind == "memory" else "FLOP/s"
    level, precision, width = ("dram", "", 0) if kind == "memory" else ("", "f32", 512)
    made = Ceiling(
        name,
        kind,
        level,
        precision,
        width,
        value,
        unit,
        0.012,
        "7 runs",
        BEGIN,
        "",
        8,
        Provenance.MEASURED,
        None,
        None,
        "",
        "",
        "",
    )
    return made._replace(**more)


def memory_line(bandwidth: float, peak: float = PEAK, binding: bool = False, name: str = "read") -> RoofLine:
    span = [LOWEST, peak / bandwidth]
    label = f"DRAM {name} {bandwidth / 1e9:.1f} GB/s"
    return RoofLine(
        f"dram.{name}",
        label,
        "memory",
        span,
        [i * bandwidth for i in span],
        binding,
        "dram",
        "",
        0,
        Provenance.MEASURED,
    )


def compute_line(
    peak: float, bandwidth: float = BANDWIDTH, binding: bool = False, name: str = "512-bit"
) -> RoofLine:
    span = [peak / bandwidth, HIGHEST]
    label = f"FP32 {name} {peak / 1e9:.1f} GFLOP/s"
    return RoofLine(
        f"peak.f32.{name}", label, "compute", span, [peak, peak], binding, "", "f32", 512, Provenance.MEASURED
    )


def roof(host: str = "node1", peak: float = PEAK, bandwidth: float = BANDWIDTH) -> Roof:
    """Four compute ceilings and two of memory, as `roofline-agent calibrate` finds them."""
    lines = [
        memory_line(bandwidth, peak, True, "triad"),
        memory_line(bandwidth * 0.9, peak, False, "read"),
        compute_line(peak, bandwidth, True, "512-bit"),
        compute_line(peak / 2, bandwidth, False, "256-bit"),
        compute_line(peak / 4, bandwidth, False, "128-bit"),
        compute_line(peak / 16, bandwidth, False, "scalar"),
    ]
    ceilings = [ceiling("dram.triad", "memory", bandwidth), ceiling("peak.f32.512", "compute", peak)]
    return Roof(
        host, "a made-up CPU, 8 CPUs; the whole node, shared by all its ranks", lines, ceilings, "", BEGIN
    )


def point(
    label: str = "worker:0", host: str = "node1", intensity: float = 24.0, flops: float = 3e11
) -> Point:
    return Point(label, label.partition(":")[0], host, intensity, flops, Provenance.ANALYTIC, "minimum")


def part(host: str = "node1", instance: str = "eth0", **values: Value) -> PartReport:
    sent = {
        "nic_sent_bytes": seen(5e8, "byte", scope="node"),
        "nic_sent_bytes.per_second": seen(41.7e6, "byte/s", scope="node"),
        "nic_dropped.per_second": seen(0.0, "1/s", scope="node"),
    }
    return PartReport(host, "", instance, "network", values or sent)


def report(
    ranks: Sequence[RankReport] = (), roofs: Sequence[Roof] = (), points: Sequence[Point] = (), **more: Any
) -> Report:
    """A report of these ranks, or of one worker."""
    members = list(ranks) or [rank()]
    roles = [
        RoleReport(role, len(own), sorted({r.host for r in own}), own[0].summary)
        for role in dict.fromkeys(r.role for r in members)
        for own in [[r for r in members if r.role == role]]
    ]
    made = Report(
        job="42",
        begin_ns=BEGIN,
        end_ns=BEGIN + 12 * SECOND,
        mode="synchronous",
        running=False,
        first_step=None,
        last_step=None,
        roles=roles,
        ranks=members,
        roofs=list(roofs),
        points=list(points),
        alignment=[Alignment("node1", seen(2.5e-5, "s", scope="node"))],
        gaps=[Gap("node1", "", BEGIN + SECOND, BEGIN + 2 * SECOND, "the agent was started again")],
        notes=["gap: node1 was not watched for 1.0 s"],
        sources=[
            SourceReport(
                "node1",
                [
                    SourceStatus("perf", False, "no PMU here", "none", "counted FLOPs"),
                    SourceStatus("tcp", True, "", "", "bytes"),
                ],
            ),
        ],
        parts=[part()],
        facts=[Fact("setting.OMP_NUM_THREADS", "4", ["worker:0"])],
        tags={"nodes": "1"},
        verdicts=["of all workers: 16x below their roof"],
        cost=ProfilerCost("The profiler itself: 0.2 %", {"cost.share": seen(0.002, "1", scope="node")}),
    )
    return made._replace(**more)
