"""The roofline picture: ceilings, roof and one point per rank, as a paper would print it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")  # before pyplot: a picture is a file here, on machines without a display too

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from . import units
from .errors import ClientError
from .records import Point, Report, Roof, RoofLine

FORMATS = (".png", ".svg", ".pdf")
MARKERS = {"worker": "o", "horovod": "s", "ddp": "D", "ps": "^", "chief": "v", "evaluator": "P"}
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # Okabe and Ito, colour-blind safe
TOLD_APART = 0.8  # a ceiling higher than this share of its upper neighbour would hide behind it


class Frame(NamedTuple):
    """Limits of a picture: intensity (FLOP/byte) and FLOP/s."""

    left: float
    right: float
    bottom: float
    top: float


def draw_roofline(report: Report, path: Path) -> None:
    """Write the roofline of a report as PNG, SVG or PDF, by the file's ending: one panel per node.

    Raises ClientError when there is nothing to draw or the file cannot be written.
    """
    if path.suffix.lower() not in FORMATS:
        raise ClientError(f"--plot {path}: the name must end in {', '.join(FORMATS)}")
    roofs = {roof.host: roof for roof in report.roofs if roof.lines}
    hosts = list(dict.fromkeys([*roofs, *(p.host for p in report.points)]))
    if not hosts:
        raise ClientError(
            "nothing to draw: no ceilings were measured and no FLOPs counted (see the report's notes)"
        )
    figure, axes = plt.subplots(
        1, len(hosts), figsize=(6.4 * len(hosts), 4.4), squeeze=False, sharey=True, layout="constrained"
    )
    for axis, host in zip(axes[0], hosts, strict=True):
        _draw_node(axis, report.job, host, roofs.get(host), [p for p in report.points if p.host == host])
    try:
        figure.savefig(path, dpi=200)
    except OSError as error:
        raise ClientError(f"cannot write {path}: {error.strerror}") from None
    finally:
        plt.close(figure)


def _draw_node(axis: Axes, job: str, host: str, roof: Roof | None, points: list[Point]) -> None:
    lines = worth_drawing(roof.lines) if roof else []
    frame = frame_of(lines, points)
    _set_axes(axis, frame)
    axis.set_title(f"Job {job} on {host}", fontsize=10, loc="left")
    for line in lines:
        _draw_line(axis, line, frame)
    for at, point in enumerate(points):
        label = f"{point.label}: {units.number(point.flops, 'FLOP/s')} at {point.intensity:.3g} FLOP/byte"
        marker = MARKERS.get(point.role, "o")
        colour = COLOURS[at % len(COLOURS)]
        size = 10 - 2.5 * (at % 3)  # ranks often fall on one spot: the later lie smaller on top
        axis.plot(point.intensity, point.flops, marker, ms=size, c=colour, mec="white", zorder=4, label=label)
    if points:
        kinds = ", ".join(dict.fromkeys(p.provenance for p in points))
        axis.legend(fontsize=8, loc="lower right", frameon=False, title=f"FLOPs: {kinds}", title_fontsize=7.5)


def _set_axes(axis: Axes, frame: Frame) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xlim(frame.left, frame.right)
    axis.set_ylim(frame.bottom, frame.top)
    axis.set_xlabel("Arithmetic intensity over minimum traffic (FLOP/byte)", fontsize=9)
    axis.set_ylabel("Performance (GFLOP/s)", fontsize=9)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if x >= 1 else f"1/{1 / x:g}"))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y / 1e9:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(True, which="major", linewidth=0.4, color="#DDDDDD")
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def frame_of(lines: Sequence[RoofLine], points: Sequence[Point]) -> Frame:
    """Limits that show every point, the ridge of every pair of ceilings, and room for labels."""
    ridges = [line.intensity[0] for line in lines if line.kind == "compute"]
    across = [*(p.intensity for p in points), *ridges, 1.0, 16.0]
    up = [*(p.flops for p in points), *(line.flops[0] for line in lines if line.kind == "compute")] or [1e9]
    return Frame(min(across) / 4, max(across) * 6, min(up) / 10, max(up) * 3)


def worth_drawing(lines: Sequence[RoofLine]) -> list[RoofLine]:
    """The roof's own lines, and of the other ceilings those that can be told apart from the one above."""
    kept: list[RoofLine] = []
    for kind in ("memory", "compute"):
        above = math.inf
        for line in sorted((x for x in lines if x.kind == kind), key=_height, reverse=True):
            if line.binding or _height(line) < TOLD_APART * above:
                kept.append(line)
                above = _height(line)
    return kept


def _height(line: RoofLine) -> float:
    """FLOP/s of a compute line; of a memory line its FLOP/s at intensity 1, which is its bandwidth."""
    return line.flops[0] / line.intensity[0] if line.kind == "memory" else line.flops[0]


def _draw_line(axis: Axes, line: RoofLine, frame: Frame) -> None:
    colour, width = ("black", 1.6) if line.binding else ("#8C8C8C", 0.8)
    begin, end = max(frame.left, line.intensity[0]), min(frame.right, line.intensity[-1])
    slope = _height(line) if line.kind == "memory" else 0.0
    ends = (begin * slope, end * slope) if slope else (line.flops[0], line.flops[-1])
    axis.plot((begin, end), ends, color=colour, linewidth=width, solid_capstyle="butt", zorder=2)
    place: tuple[float, float] = (frame.right, line.flops[0])
    offset, align, side, angle = (-2, 2), "right", "bottom", 0.0
    if slope:
        # Where the line comes into the picture, written along it.
        at = max(frame.left, frame.bottom / slope) * 1.25
        place, align, angle = (at, at * slope), "left", _angle(axis)
        offset, side = ((0, 3), "bottom") if line.binding else ((4, -2), "top")
    axis.annotate(
        line.label,
        place,
        xytext=offset,
        textcoords="offset points",
        ha=align,
        va=side,
        fontsize=7,
        color="black" if line.binding else "#6E6E6E",
        rotation=angle,
        rotation_mode="anchor",
    )


def _angle(axis: Axes) -> float:
    """Angle on paper of FLOP/s proportional to intensity, degrees."""
    left, right = axis.get_xlim()
    bottom, top = axis.get_ylim()
    box = axis.get_window_extent()
    return math.degrees(math.atan2(box.height / math.log(top / bottom), box.width / math.log(right / left)))
