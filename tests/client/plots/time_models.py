"""Answers of the time-based roofline made up of plain records: the V100 of Wang et al. 2020."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.answers.time_roofline import Isocurve, OverheadBox, TimePanel, TimePoint, TimeRoofline

from ..reports import ceiling, seen
from .models import about, spread

TENSOR, HBM, LAUNCH = 107.479e12, 828.8e9, 4.2e-6


def time_point(
    label: str = "conv forward", flops: float = 4e12, data: float = 2e10, time: float = 0.09, **more: Any
) -> TimePoint:
    balance = TENSOR / HBM
    intensity = flops / data
    bandwidth = min(time, time * balance / intensity) if intensity else time
    compute = min(time, time * intensity / balance)
    made = TimePoint(
        label=label,
        kind="kernel",
        role="ddp",
        rank="ddp:0",
        job="42",
        at="",
        flops=seen(flops, "FLOP"),
        bytes=seen(data, "byte"),
        time=seen(time, "s"),
        launches=96,
        bandwidth_time=seen(bandwidth, "s"),
        compute_time=seen(compute, "s"),
        time_bytes=bandwidth * HBM,
        time_flops=compute * TENSOR,
        bound="compute" if intensity >= balance else "memory",
        time_spread=spread(time / 96, 0.2),
        incomplete="",
        words="",
        level="hbm",
    )
    return made._replace(**more)


def overhead_box(launches: int) -> OverheadBox:
    took = launches * LAUNCH
    label = "1 launch" if launches == 1 else f"{launches} launches (ddp:0, a step)"
    return OverheadBox(launches, took * HBM, took * TENSOR, label)


def v100(points: Sequence[TimePoint], **more: Any) -> TimePanel:
    curves = [
        Isocurve(t, [0.0, t * HBM, t * HBM], [t * TENSOR, t * TENSOR, 0.0])
        for t in (10.0**k for k in range(-6, 2))
    ]
    made = TimePanel(
        host="node1",
        device="gpu 0",
        precision="f16",
        compute=ceiling("peak.f16", "compute", TENSOR, precision="f16", device="gpu 0"),
        memory=ceiling("hbm.read", "memory", HBM, level="hbm", device="gpu 0"),
        balance=seen(TENSOR / HBM, "FLOP/byte"),
        launch_overhead=seen(LAUNCH, "s"),
        points=list(points),
        no_flop_launches=seen(1234.0, "1"),
        no_flop_time=seen(0.0123, "s"),
        boxes=[overhead_box(1), overhead_box(320)],
        isocurves=curves,
    )
    return made._replace(**more)


def time_roofline(*panels: TimePanel, **more: Any) -> TimeRoofline:
    return TimeRoofline(about("node1"), list(panels), [])._replace(**more)
