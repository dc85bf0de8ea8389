"""The time-based roofline (Wang et al. 2020): complexity (closed) and time (open) of kernels or steps in one
plane of bytes and FLOPs, with the machine's balance, curves of equal time, what launches cost at least."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from roofline.answers.time_roofline import TimePanel, TimePoint, TimeRoofline

from ..errors import ClientError
from ..tables import units
from ..tables.names import clean, short_hosts
from . import caption, kernels, legends, sheet, style
from .label_placement import Labels
from .marks import level_name
from .scales import Frame, around, is_drawable, set_plane, shaped, tick
from .time_points import bar, complexity, draw_points, has_place, has_time, took

WIDTHS = {1: 5.7, 2: 3.35}
NARROW = 2.95
FLATTEST, STEEPEST = 0.6, 0.82
SHADE = "#EFEFEF"


def figure(record: TimeRoofline) -> Figure:
    """A panel for each node, device and precision. Raises ClientError when there is nothing to draw."""
    panels = _panels(record)
    frame, ratio = shaped(around(_frame(panel) for panel in panels), FLATTEST, STEEPEST)
    columns = min(3, len(panels))
    width = WIDTHS.get(columns, NARROW)
    boxes = sheet.rows(len(panels), columns, width, width * ratio, titled=len(panels) > 1)
    with sheet.settings():
        made, axes = sheet.blank(boxes)
        handles, key, notes = _draw(axes, record, panels, [frame] * len(panels))
        sheet.share_sides(axes, columns)
        where = sheet.only_title(axes)
        what = "Time-based roofline" + (f" over {clean(record.over)}" if record.over else "")
        title = caption.title(what, record.about, where)
        under = caption.of(record.about, notes, record.notes, key=key, command=_command(record))
        sheet.finish(made, axes, boxes, title, handles, under)
    return made


def _command(record: TimeRoofline) -> str:
    points = next((point.kind for panel in record.panels for point in panel.points), "")
    return caption.command("roofline", record.about, kind="time", points=points, over=record.over)


def draw_on(axes: Axes | Sequence[Axes], record: TimeRoofline) -> None:
    """Draw on these axes, one for each node, device and precision. Errors as of `figure`."""
    panels = _panels(record)
    given = sheet.given(axes, len(panels), "each node, device and precision")
    frames = [shaped(_frame(p), *[sheet.ratio(axis)] * 2)[0] for p, axis in zip(panels, given, strict=True)]
    with sheet.settings():
        handles, _, _ = _draw(given, record, panels, frames)
        legends.on(given[0], handles)


def _panels(record: TimeRoofline) -> list[TimePanel]:
    told = [panel._replace(points=kernels.renamed(panel.points)) for panel in record.panels]
    found = [panel for panel in told if any(map(has_place, panel.points))]
    if not found:
        why = [*record.notes, *(note for panel in told for note in _missing(panel.points))]
        said = caption.joined(why[:3]) or "no kernel or step has FLOPs, bytes and a time"
        raise ClientError(f"nothing to draw: {clean(said)}")
    return found


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
        sheet.name_panel(axis, title)
        labels = Labels(axis)
        _boxes(axis, labels, panel, frame)
        _balance(axis, labels, panel, frame)
        _isocurves(axis, labels, panel, frame)
        shown = [p for p in panel.points if has_place(p)]
        signs, unnamed = draw_points(axis, labels, shown, record.over, len(key) + 1)
        key += signs
        notes += [*unnamed, *_missing(panel.points), *_without_flops(panel, title if len(panels) > 1 else "")]
    return _explained(panels), key, notes


def _boxes(axis: Axes, labels: Labels, panel: TimePanel, frame: Frame) -> None:
    """Left of and below a corner the launches cost more than the work."""
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


def _balance(axis: Axes, labels: Labels, panel: TimePanel, frame: Frame) -> None:
    balance = panel.balance.value
    if not is_drawable(balance):
        return
    slope = balance or 0.0
    across = (frame.left, frame.right)
    line = Line2D(across, (frame.left * slope, frame.right * slope), color=style.INK, linewidth=1.2, zorder=2)
    axis.add_line(line)
    labels.at_line(line, f"machine balance {units.number(slope, 'FLOP/byte')} FLOP/byte", style.INK, True)


def _isocurves(axis: Axes, labels: Labels, panel: TimePanel, frame: Frame) -> None:
    for curve in panel.isocurves:
        across = [max(x, frame.left) for x in curve.bytes]
        up = [max(y, frame.bottom) for y in curve.flops]
        # The curve goes on beyond its first and last vertex, level and upright.
        across[:1], up[-1:] = [frame.left], [frame.bottom]
        corner = max(across, default=0.0), max(up, default=0.0)
        if (
            len(across) < 2
            or not frame.holds(*corner)
            or corner[0] == frame.left
            or corner[1] == frame.bottom
        ):
            continue
        line = Line2D(across, up, color="#B8B8B8", linewidth=0.6, zorder=1)
        axis.add_line(line)
        labels.may_cross(line)
        labels.at_point(*corner, units.number(curve.seconds, "s"), style.DIM, size=0.0, max_distance=13.0)


def _missing(points: Sequence[TimePoint]) -> list[str]:
    lacking: dict[str, list[str]] = {}
    for point in points:
        if not has_place(point):
            absent = next((v for v in (point.flops, point.bytes) if not is_drawable(v.value)), point.flops)
            number = f"{tick(absent.value or 0.0)} {absent.unit}"
            why = absent.reason or f"{number} has no place on a logarithmic axis"
            lacking.setdefault(f"not drawn ({why})", []).append(point.label)
        elif point.incomplete:
            lacking.setdefault(f"incomplete ({point.incomplete})", []).append(point.label)
        elif not has_time(point):
            lacking.setdefault(f"{_timeless(point)}: its complexity alone is drawn", []).append(point.label)
    return [f"{_few(labels)}: {what}." for what, labels in lacking.items()]


def _timeless(point: TimePoint) -> str:
    """Why it has no open symbol."""
    if is_drawable(point.time.value):
        return "its time has no place without ceilings of compute and memory"
    return f"no time ({point.time.reason or 'nobody measured it'})"


def _few(labels: Sequence[str]) -> str:
    told = list(dict.fromkeys(labels))
    return ", ".join(told) if len(told) <= 2 else f"{told[0]} and {len(told) - 1} more"


def _without_flops(panel: TimePanel, where: str) -> list[str]:
    launches = panel.no_flop_launches.value
    if not launches:
        return []
    took = f", {units.show(panel.no_flop_time)}" if panel.no_flop_time.value else ""
    place = f" on {where}" if where else ""
    return [f"{launches:,.0f} launches without FLOPs{place}{took}: they have no place in this plane."]


def _explained(panels: Sequence[TimePanel]) -> list[Artist]:
    shown = [p for panel in panels for p in panel.points if has_place(p)]
    handles: list[Artist] = []
    for role in dict.fromkeys(point.role for point in shown):
        own = [p for p in shown if p.role == role]
        words = " and ".join(dict.fromkeys(clean(p.flops.provenance) or "unknown" for p in own))
        levels = " and ".join(dict.fromkeys(level_name(p.level) for p in own))
        told = f"{clean(role) or 'no role'}: FLOPs {words}, {levels}"
        looks: dict[str, Any] = {"color": style.colour(role), "marker": style.marker(role), "linestyle": ""}
        handles.append(Line2D([], [], label=told, **looks))
    grey: dict[str, Any] = {"color": style.DIM, "linestyle": "", "marker": "o", "markersize": 6}
    handles.append(Line2D([], [], label="complexity: bytes and FLOPs", **grey))
    if any(map(has_time, shown)):
        told = "time: as bytes and FLOPs at peak"
        handles.append(Line2D([], [], label=told, markerfacecolor="white", **grey))
    if any(p.incomplete for p in shown):
        handles.append(Line2D([], [], label="half filled: incomplete counts", fillstyle="left", **grey))
    if any(map(bar, shown)):
        whose = {"kernel": "launches", "step": "steps"}
        kinds = dict.fromkeys(whose.get(p.kind, clean(p.kind)) for p in filter(bar, shown))
        told = f"5 to 95 % of {' or '.join(kinds)}"
        handles.append(Line2D([], [], color=style.DIM, alpha=0.5, linewidth=1.6, label=told))
    if any(panel.isocurves for panel in panels):
        handles.append(Line2D([], [], color="#B8B8B8", linewidth=0.8, label="equal time"))
    if any(panel.boxes for panel in panels):
        handles.append(Patch(facecolor=SHADE, edgecolor=style.FAINT, label="launch overhead decides"))
    return handles
