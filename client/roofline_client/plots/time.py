"""The time-based roofline (Wang et al. 2020): complexity (closed symbols) and time (open symbols) of kernels
or steps in one plane of bytes and FLOPs, with machine balance, isocurves and boxes of launch overhead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from roofline.answers.time_roofline import TimePanel, TimePoint, TimeRoofline
from roofline.texts import many

from ..errors import NothingToDraw
from ..tables import units
from ..tables.names import clean, short_hosts
from . import caption, kernels, layout, legends, style
from .label_placement import Labels
from .markers import level_name
from .panels import MOST_PANELS
from .scales import Frame, around, is_drawable, set_plane, shaped, tick
from .time_points import bar, complexity, draw_points, has_place, has_time, took

WIDTHS = {1: 5.7, 2: 3.35}
NARROW = 2.95
FLATTEST, STEEPEST = 0.6, 0.82
SHADE = "#EFEFEF"


def figure(record: TimeRoofline) -> Figure:
    """A panel for each node, device and precision, at most MOST_PANELS. Raises NothingToDraw when there is
    nothing to draw."""
    panels, more = _panels(record)
    frame, ratio = shaped(around(_frame(panel) for panel in panels), FLATTEST, STEEPEST)
    columns = min(3, len(panels))
    width = WIDTHS.get(columns, NARROW)
    boxes = layout.rows(len(panels), columns, width, width * ratio, titled=len(panels) > 1)
    with layout.settings():
        made, axes = layout.blank(boxes)
        handles, key, notes = _draw(axes, record, panels, [frame] * len(panels))
        layout.share_sides(axes, columns)
        where = layout.only_title(axes)
        what = "Time-based roofline" + (f" over {clean(record.over)}" if record.over else "")
        title = caption.title(what, record.about, where)
        points = next((point.kind for panel in record.panels for point in panel.points), "")
        command = caption.command("roofline", record.about, kind="time", points=points, over=record.over)
        not_drawn = [f"{more} more panel{'s are' if more > 1 else ' is'} not drawn."] if more else []
        under = caption.of(record.about, notes, record.notes, always=not_drawn, key=key, command=command)
        layout.finish(made, axes, boxes, title, handles, under)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: TimeRoofline) -> None:
    """Draw on these axes, one for each node, device and precision, at most MOST_PANELS. Errors as of
    `figure`."""
    panels, _ = _panels(record)
    given = layout.axes_list(axes, len(panels), "each node, device and precision")
    frames = [shaped(_frame(p), *[layout.ratio(axis)] * 2)[0] for p, axis in zip(panels, given, strict=True)]
    with layout.settings():
        handles, key, _ = _draw(given, record, panels, frames)
        legends.on(given[0], [*handles, *(Line2D([], [], linestyle="", label=sign) for sign in key)])


def _panels(record: TimeRoofline) -> tuple[list[TimePanel], int]:
    """Those that are drawn, of most time first as the server sends them, and how many more there are."""
    readable = [panel._replace(points=kernels.renamed(panel.points)) for panel in record.panels]
    found = [panel for panel in readable if any(map(has_place, panel.points))]
    if not found:
        reasons = [*record.notes, *(note for panel in readable for note in _missing(panel.points))]
        why = caption.joined(reasons[:3]) or "no kernel or step has FLOPs, bytes and a time"
        raise NothingToDraw(f"nothing to draw: {clean(why)}")
    return found[:MOST_PANELS], len(found[MOST_PANELS:])


def _frame(panel: TimePanel) -> Frame:
    shown = [point for point in panel.points if has_place(point)]
    places = [*map(complexity, shown), *(time for p in shown if has_time(p) for time in [took(p), *bar(p)])]
    places += [(box.bytes, box.flops) for box in panel.boxes if is_drawable(box.bytes, box.flops)]
    across, up = zip(*places, strict=True)
    return Frame(min(across) / 5, max(across) * 8, min(up) / 5, max(up) * 5)


def _draw(
    axes: Sequence[Axes], record: TimeRoofline, panels: Sequence[TimePanel], frames: Sequence[Frame]
) -> tuple[list[Artist], list[str], list[str]]:
    """The entries of the legend, the key to numbers, and notes."""
    hosts = short_hosts(list(dict.fromkeys(clean(panel.host) for panel in panels)))
    key: list[str] = []
    notes: list[str] = []
    for axis, panel, frame in zip(axes, panels, frames, strict=True):
        set_plane(axis, frame, "Traffic (byte)", "Work (FLOP)", prefixed=True)
        parts = (hosts[clean(panel.host)], clean(panel.device), clean(panel.precision))
        title = ", ".join(part for part in parts if part)
        layout.name_panel(axis, title)
        labels = Labels(axis)
        _draw_overhead_boxes(axis, labels, panel, frame)
        if is_drawable(panel.balance.value):
            slope = panel.balance.value or 0.0
            ends = (frame.left * slope, frame.right * slope)
            line = Line2D((frame.left, frame.right), ends, color=style.INK, linewidth=1.2, zorder=2)
            axis.add_line(line)
            balance = f"machine balance {units.number(slope, 'FLOP/byte')} FLOP/byte"
            labels.at_line(line, balance, style.INK, rising=True)
        _draw_isocurves(axis, labels, panel, frame)
        shown = [p for p in panel.points if has_place(p)]
        signs, unnamed = draw_points(axis, labels, shown, record.over, len(key) + 1)
        key += signs
        notes += [*unnamed, *_missing(panel.points)]
        if panel.no_flop_launches.value:
            time = f", {units.show(panel.no_flop_time)}" if panel.no_flop_time.value else ""
            where = f" on {title}" if title and len(panels) > 1 else ""
            launches = many(panel.no_flop_launches.value, "launch")
            why = "0 FLOP has no place on a logarithmic axis"
            notes.append(f"{launches} without FLOPs{where}{time}: not plotted: {why}.")
    return _legend(panels), key, notes


def _draw_overhead_boxes(axis: Axes, labels: Labels, panel: TimePanel, frame: Frame) -> None:
    """Left of and below the corner of a box, launches cost more than the work."""
    for order, box in enumerate(panel.boxes):
        if not frame.holds(box.bytes, box.flops):
            continue
        size = box.bytes - frame.left, box.flops - frame.bottom
        shade = Rectangle((frame.left, frame.bottom), *size, facecolor="black", alpha=0.055, zorder=0.5)
        axis.add_patch(shade)
        edge = Line2D(
            (frame.left, box.bytes, box.bytes), (box.flops, box.flops, frame.bottom),
            color=style.FAINT, linewidth=0.7, zorder=0.6 + 0.01 * order,
        )  # fmt: skip
        axis.add_line(edge)
        labels.may_cross(edge)
        labels.at_point(box.bytes, box.flops, box.label, style.DIM, size=0.0)


def _draw_isocurves(axis: Axes, labels: Labels, panel: TimePanel, frame: Frame) -> None:
    for curve in panel.isocurves:
        if len(curve.bytes) < 2:
            continue
        across = [max(x, frame.left) for x in curve.bytes]
        up = [max(y, frame.bottom) for y in curve.flops]
        # The curve continues beyond its first vertex horizontally, beyond its last one vertically.
        across[0], up[-1] = frame.left, frame.bottom
        corner = max(across), max(up)
        if not frame.holds(*corner) or corner[0] == frame.left or corner[1] == frame.bottom:
            continue
        line = Line2D(across, up, color="#B8B8B8", linewidth=0.6, zorder=1)
        axis.add_line(line)
        labels.may_cross(line)
        labels.at_point(*corner, units.number(curve.seconds, "s"), style.DIM, size=0.0, max_distance=13.0)


def _missing(points: Sequence[TimePoint]) -> list[str]:
    """Why points, or their times, are not drawn."""
    labels_by_text: dict[str, list[str]] = {}
    for point in points:
        if not has_place(point):
            absent = next((v for v in (point.flops, point.bytes) if not is_drawable(v.value)), point.flops)
            number = f"{tick(absent.value or 0.0)} {absent.unit}"
            why = absent.reason or f"{number} has no place on a logarithmic axis"
            text = f"not drawn ({why})"
        elif point.incomplete:
            text = f"incomplete ({point.incomplete})"
        elif has_time(point):
            continue
        elif is_drawable(point.time.value):
            text = (
                "its time has no place without ceilings of compute and memory: its complexity alone is drawn"
            )
        else:
            why = point.time.reason or "not measured"
            text = f"no time ({why}): its complexity alone is drawn"
        labels_by_text.setdefault(text, []).append(point.label)
    sentences = []
    for text, labels in labels_by_text.items():
        names = list(dict.fromkeys(labels))
        subject = ", ".join(names) if len(names) <= 2 else f"{names[0]} and {len(names) - 1} more"
        sentences.append(f"{subject}: {text}.")
    return sentences


def _legend(panels: Sequence[TimePanel]) -> list[Artist]:
    shown = [p for panel in panels for p in panel.points if has_place(p)]
    handles: list[Artist] = []
    for role in dict.fromkeys(point.role for point in shown):
        own = [p for p in shown if p.role == role]
        words = " and ".join(dict.fromkeys(clean(p.flops.provenance) or "unknown" for p in own))
        levels = " and ".join(dict.fromkeys(level_name(p.level) for p in own))
        label = f"{clean(role) or 'no role'}: FLOPs {words}, {levels}"
        looks: dict[str, Any] = {"color": style.colour(role), "marker": style.marker(role), "linestyle": ""}
        handles.append(Line2D([], [], label=label, **looks))
    grey: dict[str, Any] = {"color": style.DIM, "linestyle": "", "marker": "o", "markersize": 6}
    handles.append(Line2D([], [], label="complexity: bytes and FLOPs", **grey))
    if any(map(has_time, shown)):
        label = "time: as bytes and FLOPs at peak"
        handles.append(Line2D([], [], label=label, markerfacecolor="white", **grey))
    if any(p.incomplete for p in shown):
        handles.append(Line2D([], [], label="half filled: incomplete counts", fillstyle="left", **grey))
    if any(map(bar, shown)):
        counted = {"kernel": "launches", "step": "steps"}
        kinds = dict.fromkeys(counted.get(p.kind, clean(p.kind)) for p in filter(bar, shown))
        label = f"5 to 95 % of {' or '.join(kinds)}"
        handles.append(Line2D([], [], color=style.DIM, alpha=0.5, linewidth=1.6, label=label))
    if any(panel.isocurves for panel in panels):
        handles.append(Line2D([], [], color="#B8B8B8", linewidth=0.8, label="equal time"))
    if any(panel.boxes for panel in panels):
        handles.append(Patch(facecolor=SHADE, edgecolor=style.FAINT, label="launch overhead decides"))
    return handles
