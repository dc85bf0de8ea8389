"""The roofline picture: ceilings, roof and one point per rank, as a paper would print it."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from . import units
from .errors import ClientError
from .records import Point, Report, Roof

FORMATS = (".png", ".svg", ".pdf")
ROLE_MARKERS = {"worker": "o", "horovod": "s", "ddp": "D", "ps": "^", "chief": "v", "evaluator": "P"}
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # Okabe and Ito, colour-blind safe


def draw_roofline(report: Report, path: Path) -> None:
    """Write the roofline of a report as PNG, SVG or PDF, by the file's ending.

    Raises ClientError when there is nothing to draw or the file cannot be written.
    """
    if path.suffix.lower() not in FORMATS:
        raise ClientError(f"--plot {path}: the name must end in {', '.join(FORMATS)}")
    roofs = [roof for roof in report.roofs if roof.lines]
    if not roofs and not report.points:
        raise ClientError(
            "nothing to draw: no ceilings were measured and no FLOPs were counted (see the notes)"
        )
    hosts = [roof.host for roof in roofs] or list(dict.fromkeys(p.host for p in report.points))
    figure, axes = plt.subplots(
        1, len(hosts), figsize=(6.4 * len(hosts), 4.4), squeeze=False, sharey=True, layout="constrained"
    )
    for axis, host in zip(axes[0], hosts, strict=True):
        roof = next((r for r in roofs if r.host == host), None)
        _draw_node(axis, report, roof, [p for p in report.points if p.host == host], host)
    try:
        figure.savefig(path, dpi=200)
    except OSError as error:
        raise ClientError(f"cannot write {path}: {error.strerror}") from None
    finally:
        plt.close(figure)


def _draw_node(axis: Axes, report: Report, roof: Roof | None, points: list[Point], host: str) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    if roof is not None:
        _draw_roof(axis, roof, points)
    _draw_points(axis, points)
    axis.set_title(f"Job {report.job} on {host}", fontsize=10, loc="left")
    axis.set_xlabel("Arithmetic intensity over minimum traffic (FLOP/byte)")
    axis.set_ylabel("Performance (GFLOP/s)")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y / 1e9:g}"))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if x >= 1 else f"1/{1 / x:g}"))
    axis.grid(True, which="major", linewidth=0.4, color="#DDDDDD")
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    if points:
        axis.legend(fontsize=8, loc="lower right", frameon=False, title="FLOPs: analytic, from kernel shapes"
                    if all(p.provenance == "analytic" for p in points) else None, title_fontsize=7)  # fmt: skip


def _draw_roof(axis: Axes, roof: Roof, points: list[Point]) -> None:
    left, right = _span(roof, points)
    axis.set_xlim(left, right)
    shown = _worth_drawing(roof)
    for line in shown:
        intensity = [max(left, min(right, i)) for i in line.intensity]
        flops = (
            [line.flops[0] * i / line.intensity[0] for i in intensity]
            if line.kind == "memory"
            else line.flops
        )
        style = (
            {"color": "black", "linewidth": 1.6} if line.binding else {"color": "#999999", "linewidth": 0.8}
        )
        axis.plot(intensity, flops, solid_capstyle="butt", zorder=2, **style)
    top = max((y for line in shown for y in line.flops), default=1e12)
    lowest = min(
        [p.flops for p in points] + [line.flops[-1] for line in shown if line.kind == "compute"], default=1e9
    )
    axis.set_ylim(lowest / 8, top * 2.5)
    for line in shown:
        _label(axis, line.kind, line.label, line.intensity, line.flops, left, right, line.binding)


def _worth_drawing(roof: Roof) -> list:  # type: ignore[type-arg]
    """Lines far enough from the next higher one of their kind to be told apart; the roof's own always."""
    kept: list = []  # type: ignore[type-arg]
    for kind in ("memory", "compute"):
        last = None
        ordered = sorted(
            (x for x in roof.lines if x.kind == kind), key=lambda x: (not x.binding, -_height(x))
        )
        for line in ordered:
            if last is None or line.binding or _height(line) < 0.8 * last:
                kept.append(line)
                last = _height(line)
    return kept


def _height(line) -> float:  # type: ignore[no-untyped-def]
    return float(line.flops[0] / line.intensity[0] if line.kind == "memory" else line.flops[0])


def _span(roof: Roof, points: list[Point]) -> tuple[float, float]:
    ridges = [line.intensity[0] for line in roof.lines if line.kind == "compute"]
    marks = [p.intensity for p in points] + ridges
    return min([*marks, 1.0]) / 8, max([*marks, 16.0]) * 8


def _label(axis, kind, text, intensity, flops, left, right, binding) -> None:  # type: ignore[no-untyped-def]
    colour = "black" if binding else "#777777"
    if kind == "compute":
        axis.annotate(text, (right, flops[0]), xytext=(-2, 2), textcoords="offset points", ha="right", va="bottom",
                      fontsize=7, color=colour)  # fmt: skip
        return
    at = left * 1.15
    axis.annotate(text, (at, flops[0] * at / intensity[0]), xytext=(0, 3), textcoords="offset points", ha="left",
                  va="bottom", fontsize=7, color=colour, rotation_mode="anchor", rotation=_slope(axis))  # fmt: skip


def _slope(axis: Axes) -> float:
    """Angle on paper of a line of slope 1 in these log axes, degrees."""
    import math

    left, right = axis.get_xlim()
    bottom, top = axis.get_ylim()
    box = axis.get_window_extent()
    per_decade_x = box.width / math.log10(right / left)
    per_decade_y = box.height / math.log10(top / bottom)
    return math.degrees(math.atan2(per_decade_y, per_decade_x))


def _draw_points(axis: Axes, points: list[Point]) -> None:
    for at, point in enumerate(points):
        label = f"{point.label}  {units.number(point.flops, 'FLOP/s')} at {point.intensity:.3g}"
        axis.plot(point.intensity, point.flops, ROLE_MARKERS.get(point.role, "o"), markersize=7, zorder=4,
                  color=COLOURS[at % len(COLOURS)], markeredgecolor="white", label=label)  # fmt: skip
