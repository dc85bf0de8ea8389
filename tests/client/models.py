"""Answers of the models made up as messages, in the units that models.proto states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from roofline.answers.breakdown import Breakdown
from roofline.answers.roofline import Roofline
from roofline.answers.time_roofline import TimeRoofline
from roofline.answers.trajectory import Trajectory
from roofline.convert import from_message
from roofline.v1 import machine_pb2, models_pb2, values_pb2

BEGIN = 1_760_000_000_000_000_000
WHY = "no PMU on node1"


def value(number: float | None, unit: str, reason: str = WHY) -> Any:
    """A measured number, or an absent one with its reason."""
    if number is None:
        return values_pb2.Value(unit=unit, reason=reason)
    return values_pb2.Value(
        value=number, unit=unit, provenance="PROVENANCE_MEASURED", scope="SCOPE_PROCESS", coverage=1.0
    )


def about(*jobs: str, experiment: str = "") -> Any:
    machine = models_pb2.MachineAbout(host="node1", cpu_model="a made-up CPU", cpus=8, calibrated_ns=BEGIN)
    return models_pb2.About(
        jobs=jobs or ["42"],
        experiment=experiment,
        begin_ns=BEGIN,
        end_ns=BEGIN + 12 * 10**9,
        machines=[machine],
        alignment=value(2.5e-5, "s"),
        step_time=value(0.03, "s"),
        tags={"nodes": "1"},
    )


def ceiling(name: str, kind: str, number: float, unit: str) -> Any:
    return machine_pb2.Ceiling(
        name=name,
        kind=kind,
        level="dram" if kind == "memory" else "",
        precision="f32" if kind == "compute" else "",
        width=512 if kind == "compute" else 0,
        value=number,
        unit=unit,
        spread=0.01,
        method="seven runs",
        time_ns=BEGIN,
        provenance="PROVENANCE_MEASURED",
    )


COMPUTE = ceiling("peak.f32.512", "compute", 2e12, "FLOP/s")
MEMORY = ceiling("dram.triad", "memory", 40e9, "byte/s")


def roof() -> Any:
    line = {"binding": True, "provenance": "PROVENANCE_MEASURED"}
    lines = [
        values_pb2.RoofLine(
            name="dram.triad",
            label="DRAM triad 40 GB/s",
            kind="memory",
            intensity=[0.25, 50.0],
            flops=[10e9, 2e12],
            level="dram",
            **line,
        ),
        values_pb2.RoofLine(
            name="peak.f32.512",
            label="FP32 512-bit 2 TFLOP/s",
            kind="compute",
            intensity=[50.0, 4096.0],
            flops=[2e12, 2e12],
            precision="f32",
            width=512,
            **line,
        ),
    ]
    return values_pb2.Roof(
        host="node1", note="the whole node", lines=lines, ceilings=[COMPUTE, MEMORY], calibrated_ns=BEGIN
    )


def spread(middle: float, count: int = 60) -> Any:
    factors = {"p5": 0.8, "p25": 0.9, "p50": 1.0, "p75": 1.1, "p95": 1.2}
    at = {name: middle * factor for name, factor in factors.items()}
    return models_pb2.Spread(**at, count=count)


def point(label: str = "worker:0", level: str = "minimum", intensity: float | None = 24.0) -> Any:
    return models_pb2.RoofPoint(
        label=label,
        kind="rank",
        role=label.partition(":")[0],
        rank=label,
        host="node1",
        level=level,
        precision="f32",
        intensity=value(intensity, "FLOP/byte"),
        flops_per_second=value(3e11, "FLOP/s"),
        flops_spread=spread(3e11),
        time=value(1.8, "s"),
        bound="dram.triad" if intensity else "",
        attainable=value(intensity and 9.6e11, "FLOP/s"),
        headroom=value(intensity and 3.2, "1"),
        words="DRAM bandwidth holds it back" if intensity else "there is no roof for it",
        flops_per_joule=value(None, "FLOP/J", "no energy was read"),
    )


def roofline(kind: str = "classic") -> Any:
    absent = point("ps:0", intensity=None)
    absent.incomplete = "AMX FLOPs are not counted"
    crossing = models_pb2.Crossing(
        label="worker:0",
        role="worker",
        batch=value(16, "1"),
        crossing=value(48, "1"),
        words="from 48 examples a step on the network no longer holds it back",
        ridge=value(1000, "FLOP/byte"),
    )
    return models_pb2.Roofline(
        about=about(),
        kind=kind,
        roofs=[roof()],
        points=[point(), absent],
        crossings=[crossing] if kind == "network" else [],
        notes=["a note"],
    )


def time_roofline() -> Any:
    kernel = models_pb2.TimePoint(
        label="convolution forward",
        kind="kernel",
        role="worker",
        rank="worker:0",
        job="42",
        flops=value(4.3e9, "FLOP"),
        bytes=value(3e6, "byte"),
        time=value(0.05, "s"),
        launches=60,
        bandwidth_time=value(0.001, "s"),
        compute_time=value(0.05, "s"),
        time_bytes=4e7,
        time_flops=1e11,
        bound="compute",
        time_spread=spread(0.001),
        words="compute takes the time",
        level="minimum",
    )
    panel = models_pb2.TimePanel(
        host="node1",
        precision="f32",
        compute=COMPUTE,
        memory=MEMORY,
        balance=value(50.0, "FLOP/byte"),
        launch_overhead=value(None, "s", "launch overhead was not measured"),
        points=[kernel],
        no_flop_launches=value(120, "1"),
        no_flop_time=value(0.002, "s"),
        boxes=[models_pb2.OverheadBox(launches=1, bytes=1.7e5, flops=8.4e6, label="1 launch")],
        isocurves=[models_pb2.Isocurve(seconds=0.001, bytes=[1, 4e7], flops=[2e9, 2e9])],
    )
    return models_pb2.TimeRoofline(about=about(), panels=[panel], notes=["a note"])


def trajectory() -> Any:
    stops = [
        models_pb2.Stop(
            at=str(nodes),
            jobs=[f"job{nodes}"],
            point=point("worker"),
            throughput=value(200.0 * nodes**0.9, "examples/s"),
            speedup=value(nodes**0.9, "1"),
            efficiency=value(nodes**-0.1, "1"),
            step_time=value(0.03, "s"),
        )
        for nodes in (1, 2, 4)
    ]
    path = models_pb2.Path(role="worker", stops=stops, words="FLOP/s a node fall as nodes are added")
    return models_pb2.Trajectory(
        about=about("job1", "job2", "job4", experiment="scaling"),
        over="nodes",
        paths=[path],
        roofs=[roof()],
        notes=["job job8 is left out: it has no steps"],
    )


def breakdown() -> Any:
    parts = [
        models_pb2.BreakdownPart(
            kind="flops_by_width",
            subject="worker",
            role="worker",
            part=part,
            value=value(flops, "FLOP"),
            share=value(flops / 4e9, "1"),
            words=words,
        )
        for part, flops, words in (("f32 512-bit", 3e9, ""), ("f32 scalar", 1e9, "could use wider vectors"))
    ]
    parts.append(
        models_pb2.BreakdownPart(
            kind="traffic_by_level",
            subject="worker",
            role="worker",
            part="dram",
            value=value(None, "byte"),
            share=value(None, "1"),
        )
    )
    return models_pb2.Breakdown(about=about(), parts=parts, notes=["a note"])


def machines() -> Any:
    machine = machine_pb2.Machine(host="node1", cpu_model="a made-up CPU", cpus=8, ceilings=[COMPUTE, MEMORY])
    version = models_pb2.MachineVersion(
        machine=machine, version=1, since_ns=BEGIN, jobs=["42"], connected=True, agent="a1"
    )
    return models_pb2.GetMachinesResponse(machines=[version])


def efficiency() -> Any:
    def utilisation(label: str, rank: str = "") -> Any:
        def measure(name: str, of: Any) -> Any:
            return models_pb2.UtilisationMeasure(name=name, value=of, formula=f"formula of {name}")

        def part(name: str, seconds: float) -> Any:
            time, share = value(seconds, "s"), value(seconds / 0.02, "1")
            return models_pb2.WaterfallPart(part=name, time=time, share=share, formula=f"formula of {name}")

        return models_pb2.Utilisation(
            label=label,
            rank=rank,
            host="node1" if rank else "",
            precision="f32",
            steps=100,
            measures=[
                measure("step", value(0.02, "s")),
                measure("model_flops", value(1e9, "FLOP")),
                measure("mfu", value(0.25, "1")),
                measure("hfu", value(None, "1")),
                measure("roofline_utilisation", value(0.5, "1")),
            ],
            waterfall=[part("useful", 0.005), part("kernels", 0.005), part("input|host", 0.01)],
        )

    return models_pb2.Efficiency(
        about=about(),
        sentence="MFU 25.0% of the measured FP32 peak",
        whole=utilisation("2 ranks"),
        ranks=[utilisation("worker:0", "worker:0"), utilisation("worker:1", "worker:1")],
        notes=["a note"],
    )


class Model(NamedTuple):
    """A model: the method of the wire, its answer, and the record of it."""

    method: str
    message: Callable[[], Any]
    record: Any


MODELS = {
    "roofline": Model("GetRoofline", roofline, Roofline),
    "time_roofline": Model("GetTimeRoofline", time_roofline, TimeRoofline),
    "trajectory": Model("GetTrajectory", trajectory, Trajectory),
    "breakdown": Model("GetBreakdown", breakdown, Breakdown),
}


def made(model: str) -> Any:
    """The record of a made-up answer."""
    return from_message(MODELS[model].record, MODELS[model].message())
