"""The roofline picture: ceilings, roof and one point per rank, as a paper would print it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter
from matplotlib.transforms import ScaledTranslation

from . import units
from .errors import ClientError
from .names import clean, short_hosts
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
ONE_SPOT = 1.03  # points within this factor of each other lie on one spot of the picture
LEGEND_INSIDE = 4  # longer legends stand below the axes
PANELS_A_ROW = 3
# Text stays text in the file, so that a publisher can embed fonts and a reader can search.
SETTINGS: dict[Any, Any] = {"pdf.fonttype": 42, "svg.fonttype": "none", "text.usetex": False}


class Frame(NamedTuple):
    """Limits of a picture: intensity (FLOP/byte) and FLOP/s."""

    left: float
    right: float
    bottom: float
    top: float


class Panel(NamedTuple):
    """What is drawn of one node."""

    host: str
    lines: list[RoofLine]
    points: list[Point]


def draw_roofline(report: Report, path: Path) -> None:
    """Write the roofline of a report as PNG, SVG or PDF, by the file's ending: one panel per node.

    Raises ClientError when there is nothing to draw or the file cannot be written.
    """
    if path.suffix.lower() not in FORMATS:
        raise ClientError(f"--plot {path}: the name must end in {', '.join(FORMATS)}")
    # The settings count while a file is written, too.
    with matplotlib.rc_context(SETTINGS):
        figure = figure_of(report)
        try:
            figure.savefig(path, dpi=200)
        except OSError as error:
            raise ClientError(f"cannot write {path}: {error.strerror}") from None


def figure_of(report: Report) -> Figure:
    """The picture of a report. Raises ClientError when there is nothing to draw."""
    panels = _panels(report)
    if not panels:
        raise ClientError(
            "nothing to draw: no ceilings were measured and no FLOPs counted (see the report's notes)"
        )
    frame = _around(frame_of(panel.lines, panel.points) for panel in panels)
    figure, axes = _grid(len(panels))
    if len(panels) == 1:
        _set_title(axes[0], f"Job {report.job} on {panels[0].host}")
    else:
        figure.suptitle(clean(f"Job {report.job}"), fontsize=11, parse_math=False)
        names = short_hosts([panel.host for panel in panels])
        for axis, panel in zip(axes, panels, strict=True):
            _set_title(axis, names[panel.host])
    for axis, panel in zip(axes, panels, strict=True):
        _set_axes(axis, frame)
        for line in panel.lines:
            _draw_line(axis, line, frame)
        _draw_points(axis, panel.points)
        axis.set_xlabel(f"Arithmetic intensity over {_traffic(panel.points)} (FLOP/byte)", fontsize=9)
    _place_legends(figure, 2 if len(panels) == 1 else 1)
    _turn_labels(figure)
    return figure


def _panels(report: Report) -> list[Panel]:
    """Nodes that have anything to draw, those with a roof first."""
    lines = {roof.host: _lines(roof) for roof in report.roofs}
    points = [p for p in report.points if _is_shown(p)]
    hosts = dict.fromkeys([*(host for host, drawn in lines.items() if drawn), *(p.host for p in points)])
    return [Panel(host, lines.get(host, []), [p for p in points if p.host == host]) for host in hosts]


def _traffic(points: Sequence[Point]) -> str:
    """Which bytes the intensity is over."""
    names = {"minimum": "minimum", "dram": "DRAM"}
    levels = sorted({names.get(p.level, p.level) for p in points}, key=str.casefold) or ["minimum"]
    return f"{' or '.join(levels)} traffic"


def _lines(roof: Roof) -> list[RoofLine]:
    return worth_drawing([x for x in roof.lines if x.flops and _positive(*x.flops, *x.intensity)])


def _is_shown(point: Point) -> bool:
    """Zero has no place on a logarithmic axis."""
    return _positive(point.intensity, point.flops)


def _positive(*numbers: float) -> bool:
    return all(0 < number < math.inf for number in numbers)


def _grid(count: int) -> tuple[Figure, list[Axes]]:
    """A figure and the axes of its panels, in rows; what the y axis is stands once a row."""
    columns = min(count, PANELS_A_ROW)
    rows = math.ceil(count / columns)
    width, height = (6.4, 4.4) if count == 1 else (4.4, 3.6)
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    axes = list(grid.flat)
    for axis in axes[count:]:
        axis.remove()
    for at, axis in enumerate(axes[:count]):
        if at % columns == 0:
            axis.set_ylabel("Performance (GFLOP/s)", fontsize=9)
        axis.tick_params(labelbottom=True)
    return figure, axes[:count]


def _set_title(axis: Axes, text: str) -> None:
    axis.set_title(clean(text), fontsize=10, loc="left", parse_math=False)


def _set_axes(axis: Axes, frame: Frame) -> None:
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xlim(frame.left, frame.right)
    axis.set_ylim(frame.bottom, frame.top)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.7g}" if x >= 1 else f"1/{1 / x:.7g}"))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y / 1e9:.7g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(True, which="major", linewidth=0.4, color="#DDDDDD")
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def frame_of(lines: Sequence[RoofLine], points: Sequence[Point]) -> Frame:
    """Limits that show every point, the ridge of every pair of ceilings, and room for labels."""
    placed = [p for p in points if _is_shown(p)]
    peaks = [line.flops[0] for line in lines if line.kind == "compute"]
    ridges = [line.intensity[0] for line in lines if line.kind == "compute"]
    if peaks:  # else memory lines end nowhere in particular
        ridges += [line.intensity[-1] for line in lines if line.kind == "memory"]
    across = [*(p.intensity for p in placed), *ridges, 1.0, 16.0]
    up = [*(p.flops for p in placed), *peaks] or [1e9]
    left, right = min(across) / 4, max(across) * 6
    if ridges:
        # Over a third of the width right of the last ridge, or labels of ceilings would lie on the roof.
        right = max(right, max(ridges) * (max(ridges) / left) ** 0.6)
    return Frame(left, right, min(up) / 10, max(up) * 3)


def _around(frames: Iterable[Frame]) -> Frame:
    """The smallest frame that holds all of these."""
    lefts, rights, bottoms, tops = zip(*frames, strict=True)
    return Frame(min(lefts), max(rights), min(bottoms), max(tops))


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
    """A ceiling from its ridge to the edge of the picture, with its label."""
    colour, width = ("black", 1.6) if line.binding else ("#8C8C8C", 0.8)
    if line.kind != "memory":
        across, up = (line.intensity[0], frame.right), (line.flops[0], line.flops[-1])
        _label(axis, line, (frame.right, line.flops[0]), (-2, 2), ha="right", va="bottom")
    else:
        slope = _height(line)
        across = (frame.left, line.intensity[-1])
        up = (across[0] * slope, across[1] * slope)
        # Where the line comes into the picture, written along it; the angle is known after the layout.
        at = max(frame.left, frame.bottom / slope) * 1.25
        offset, side = ((0, 3), "bottom") if line.binding else ((4, -2), "top")
        _label(axis, line, (at, at * slope), offset, ha="left", va=side, gid="along")
    axis.plot(across, up, color=colour, linewidth=width, solid_capstyle="butt", zorder=2)


def _label(
    axis: Axes, line: RoofLine, place: tuple[float, float], offset: tuple[int, int], **how: str
) -> None:
    """Twice: a text with a halo is drawn as outlines, so the halo stands alone behind a text that is text."""
    colour = "black" if line.binding else "#5A5A5A"
    halo = [withStroke(linewidth=2.5, foreground="white")]
    for ink, effects, order in ((colour, [], 3.1), ("white", halo, 3.0)):
        text = axis.annotate(
            clean(line.label),
            place,
            xytext=offset,
            textcoords="offset points",
            fontsize=7,
            color=ink,
            rotation_mode="anchor",
            parse_math=False,
            zorder=order,
            path_effects=effects,
            **how,  # type: ignore[arg-type]
        )
        text.set_in_layout(False)


def _turn_labels(figure: Figure) -> None:
    """Write the labels of memory lines along their lines, as the finished layout has them."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis in figure.axes:
        for text in axis.texts:
            if text.get_gid() == "along":
                text.set_rotation(_angle(axis))
                text.set_gid(None)


def _angle(axis: Axes) -> float:
    """Angle on paper of FLOP/s proportional to intensity, degrees."""
    left, right = axis.get_xlim()
    bottom, top = axis.get_ylim()
    box = axis.get_window_extent()
    return math.degrees(math.atan2(box.height / math.log(top / bottom), box.width / math.log(right / left)))


def _draw_points(axis: Axes, points: Sequence[Point]) -> None:
    """The ranks of a node and their legend, where there are any."""
    spots = [[p] for p in points] if len(points) <= LEGEND_INSIDE else spots_of(points)
    for at, spot in enumerate(spots):
        axis.add_line(_marker(at, spot))
    if spots:
        kinds = ", ".join(dict.fromkeys(clean(p.provenance) or "unknown" for p in points))
        _legend(axis, f"FLOPs: {kinds}", loc="lower right")


def _marker(at: int, spot: Sequence[Point]) -> Line2D:
    """The spot with number `at`: filled for one rank, a ring for several."""
    colour, alone = COLOURS[at % len(COLOURS)], len(spot) == 1
    # Beyond the last colour a dark edge tells the ranks apart.
    edge = "white" if at < len(COLOURS) else "black"
    return Line2D(
        [p.intensity for p in spot],
        [p.flops for p in spot],
        label=_entry(spot),
        linestyle="",
        marker=MARKERS.get(spot[0].role, "o"),
        # Ranks often fall on one spot: the later lie smaller on top.
        markersize=10 - 2.5 * (at % 3),
        markerfacecolor=colour if alone else "none",
        markeredgecolor=edge if alone else colour,
        markeredgewidth=1.0 if alone else 1.6,
        path_effects=None if alone else [withStroke(linewidth=3.5, foreground="white")],
        zorder=5,
    )


def _legend(axis: Axes, title: str, **how: Any) -> None:
    legend = axis.legend(
        fontsize=7.5, frameon=True, framealpha=1.0, edgecolor="#CCCCCC", fancybox=False, title=title, **how
    )
    legend.get_title().set_fontsize(7.5)
    for text in legend.get_texts():
        text.set_parse_math(False)
    legend.set_zorder(4)


def spots_of(points: Sequence[Point]) -> list[list[Point]]:
    """Points in groups: ranks of one role whose points lie within ONE_SPOT of each other are one group."""
    spots: list[list[Point]] = []
    for point in points:
        for spot in spots:
            if spot[0].role == point.role and all(_near(point, other) for other in spot):
                spot.append(point)
                break
        else:
            spots.append([point])
    return spots


def _near(one: Point, other: Point) -> bool:
    apart = (abs(math.log(one.intensity / other.intensity)), abs(math.log(one.flops / other.flops)))
    return max(apart) <= math.log(ONE_SPOT)


def _entry(spot: Sequence[Point]) -> str:
    """One line of the legend; of a group the point in the middle is told."""
    middle = sorted(spot, key=lambda p: p.flops)[len(spot) // 2]
    flops = units.number(middle.flops, "FLOP/s")
    place = f"{flops} at {units.number(middle.intensity, 'FLOP/byte')} FLOP/byte"
    name = clean(_names([p.label for p in spot]))
    # matplotlib leaves entries out that begin with an underscore.
    name = f" {name}" if name.startswith("_") else name
    return f"{name}: {place}" if len(spot) == 1 else f"{name}: each about {place}"


def _names(labels: Sequence[str]) -> str:
    """ "worker:0-3,6" of worker:0, worker:1, worker:2, worker:3 and worker:6."""
    split = [label.rpartition(":") for label in labels]
    roles = {role for role, _, _ in split}
    if len(labels) == 1 or len(roles) > 1 or not all(index.isdecimal() for _, _, index in split):
        return ", ".join(labels)
    runs: list[list[int]] = []
    for index in sorted(int(index) for _, _, index in split):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    told = ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)
    return f"{roles.pop()}:{told}"


def _place_legends(figure: Figure, columns: int) -> None:
    """Leave the legends in the axes where they cover nothing; else put all of them below the axes."""
    figure.draw_without_rendering()
    legends = [(axis, legend) for axis in figure.axes if (legend := axis.get_legend())]
    longest = max((len(legend.get_texts()) for _, legend in legends), default=0)
    if longest <= LEGEND_INSIDE and not any(_covers(axis, legend) for axis, legend in legends):
        return
    rows = len({round(axis.get_position().y0, 3) for axis in figure.axes})
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + rows * (0.3 + 0.16 * math.ceil(longest / columns)))
    for axis, legend in legends:
        # Below the axis' own label, whatever the height of the axes.
        below = axis.transAxes + ScaledTranslation(0, -34 / 72, figure.dpi_scale_trans)
        title = legend.get_title().get_text()
        _legend(axis, title, loc="upper center", ncols=columns, bbox_to_anchor=(0.5, 0), bbox_transform=below)


def _covers(axis: Axes, legend: Legend) -> bool:
    """Whether the legend hides a line, a label or a point of its axes."""
    box = legend.get_window_extent()
    drawn = [line.get_path().transformed(axis.transData) for line in axis.lines]
    return any(path.intersects_bbox(box, filled=False) for path in drawn) or any(
        text.get_window_extent().overlaps(box) for text in axis.texts
    )
