"""Roofline pictures: a panel for each node and device, or for each kind of machine where there are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from roofline.answers.roofline import RoofLine, Roofline, RoofPoint

from ..errors import ClientError
from ..tables.names import clean, short_hosts
from . import caption, kernels, legends, marks, omissions, roofs, sheet
from .label_placement import Labels
from .scales import Frame, around, performance, set_plane, shaped

MOST_PANELS = 6
SIZES = {1: 5.7, 2: 3.35}  # width of a panel by the number of columns, inches
NARROW = 2.95
FLATTEST, STEEPEST = 0.55, 0.68  # height over width of a panel


class Panel(NamedTuple):
    """What is drawn of one node (or kind of machine) and device."""

    title: str
    lines: list[RoofLine]
    points: list[RoofPoint]
    hidden: Sequence[str] = ()  # labels of ceilings that lie too near to others


class Drawn(NamedTuple):
    """What the legend and the caption have to say of a panel's points, apart from what they are."""

    key: list[str]  # numbers for long names
    arrows: bool = False
    more: Sequence[Artist] = ()


class Kind(NamedTuple):
    """What tells one kind of roofline picture from another."""

    title: str
    across: Callable[[Sequence[RoofPoint]], str]  # name of the x axis
    draw: Callable[[Axes, Labels, Panel, int], Drawn]  # points of a panel; the last: first number of its key
    by_level: bool = False  # markers tell levels, not roles


def figure(kind: Kind, record: Roofline) -> Figure:
    """Raises ClientError when there is nothing to draw."""
    panels, left_out = panels_of(record)
    frame, ratio = shaped(around(_frame(panel) for panel in panels), FLATTEST, STEEPEST)
    columns = min(len(panels), 3)
    width = SIZES.get(columns, NARROW)
    boxes = sheet.rows(len(panels), columns, width, width * ratio, titled=len(panels) > 1)
    with sheet.settings():
        made, axes = sheet.blank(boxes)
        handles, key, notes = _draw(kind, axes, panels, [frame] * len(panels))
        sheet.share_sides(axes, columns)
        where = sheet.only_title(axes)
        under = caption.of(
            record.about, left_out, notes, record.notes, key=key, command=_command(record, panels)
        )
        sheet.finish(made, axes, boxes, caption.title(kind.title, record.about, where), handles, under)
    return made


def _command(record: Roofline, panels: Sequence[Panel]) -> str:
    """What shows the same in words; its defaults are left out."""
    points = next((point.kind for panel in panels for point in panel.points), "")
    kind = "" if record.kind == "classic" else record.kind
    return caption.command("roofline", record.about, kind=kind, points="" if points == "rank" else points)


def draw_on(kind: Kind, axes: Axes | Sequence[Axes], record: Roofline) -> None:
    """Draw on axes of somebody else, one for each panel. Raises ClientError when their number differs."""
    panels, _ = panels_of(record)
    given = sheet.given(axes, len(panels), "each node or device")
    frames = [shaped(_frame(p), *[sheet.ratio(axis)] * 2)[0] for p, axis in zip(panels, given, strict=True)]
    with sheet.settings():
        handles, _, _ = _draw(kind, given, panels, frames)
        legends.on(given[0], handles)


def _draw(
    kind: Kind, axes: Sequence[Axes], panels: Sequence[Panel], frames: Sequence[Frame]
) -> tuple[list[Artist], list[str], list[str]]:
    """The entries of the legend, the key to numbers, and notes."""
    key: list[str] = []
    drawn: list[Drawn] = []
    for axis, panel, frame in zip(axes, panels, frames, strict=True):
        unit, name = performance(frame.top)
        set_plane(axis, frame, kind.across(panel.points), f"Performance ({name})", unit)
        sheet.name_panel(axis, panel.title)
        labels = Labels(axis)
        roofs.draw_roof(axis, labels, panel.lines, frame)
        drawn.append(kind.draw(axis, labels, panel, len(key) + 1))
        key += drawn[-1].key
    notes = [f"{p.title}: no roof, no ceilings were measured there." for p in panels if not p.lines]
    notes += dict.fromkeys(
        said for p, frame in zip(panels, frames, strict=True) for said in roofs.outside(p.lines, frame)
    )
    points = [point for panel in panels for point in panel.points]
    handles = [
        *marks.explained(points, any(d.arrows for d in drawn), kind.by_level),
        *({str(h.get_label()): h for d in drawn for h in d.more}.values()),
        *roofs.explained(line for panel in panels for line in panel.lines),
    ]
    notes += [
        f"{p.title}: not drawn, as they would lie on others: {', '.join(p.hidden)}."
        for p in panels
        if p.hidden
    ]
    return handles, key, notes


def _frame(panel: Panel) -> Frame:
    return roofs.frame_of(panel.lines, (place for p in panel.points for place in marks.extent(p)))


def panels_of(record: Roofline) -> tuple[list[Panel], list[str]]:
    """What to draw, and what is said of what cannot be drawn. Raises ClientError when nothing can."""
    record = record._replace(points=kernels.renamed(record.points))
    points = [p for p in record.points if marks.can_be_drawn(p)]
    lines = {(roof.host, roof.device): roofs.drawable(roof) for roof in record.roofs}
    hidden = {(roof.host, roof.device): roofs.hidden(roof) for roof in record.roofs}
    keys = [key for key, drawn in lines.items() if drawn]
    keys = list(dict.fromkeys([*keys, *((p.host, p.device) for p in points)]))
    if not keys:
        raise ClientError(_nothing(record))
    used = [key for key in keys if any((p.host, p.device) == key for p in points)]
    keys = used or keys  # a GPU without points beside CPUs with some would be an empty panel
    notes = omissions.missing(record.points)
    if len(keys) > MOST_PANELS:
        return _by_machine(record, keys, lines, points, notes)
    names = short_hosts(list(dict.fromkeys(clean(host) for host, _ in keys)))
    panels = []
    for host, device in keys:
        own = [p for p in points if (p.host, p.device) == (host, device)]
        title = ", ".join(part for part in (names[clean(host)], clean(device)) if part)
        key = host, device
        panels.append(Panel(title, lines.get(key, []), own, hidden.get(key, [])))
    return panels, notes


def _by_machine(
    record: Roofline,
    keys: Sequence[tuple[str, str]],
    lines: dict[tuple[str, str], list[RoofLine]],
    points: Sequence[RoofPoint],
    notes: list[str],
) -> tuple[list[Panel], list[str]]:
    """A panel for each kind of machine, under the lowest roof among them."""
    models = {m.host: m.cpu_model for m in record.about.machines}
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for host, device in keys:
        groups.setdefault((models.get(host, ""), device), []).append((host, device))
    panels = []
    for (model, device), members in groups.items():
        roofed = [key for key in members if lines.get(key)]
        lowest = min(roofed, key=lambda key: _top(lines[key]), default=members[0])
        own = [p for p in points if (p.host, p.device) in members]
        what = ", ".join(part for part in (clean(model) or "CPU not named", clean(device)) if part)
        panels.append(Panel(f"{len(members)} × {what}", lines.get(lowest, []), own))
        notes.append(f"{len(members)} × {what}: under the roof of {lowest[0]}, the lowest of them.")
    panels.sort(key=lambda panel: len(panel.points), reverse=True)
    if len(panels) > MOST_PANELS:
        notes.append(f"{len(panels) - MOST_PANELS} more kinds of machines are not drawn.")
    return panels[:MOST_PANELS], notes


def _top(lines: Sequence[RoofLine]) -> float:
    return max((roofs.height(x) for x in lines if x.binding and not roofs.is_slanting(x)), default=0.0)


def _nothing(record: Roofline) -> str:
    said = [*omissions.missing(record.points), *record.notes]
    why = caption.joined(said[:3]) or "no ceilings were measured and no FLOPs counted"
    return f"nothing to draw: {clean(why)}"
