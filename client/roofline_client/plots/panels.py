"""Roofline plots: a panel for each node and device, or for each kind of machine if there are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from roofline.answers.roofline import RoofLine, Roofline, RoofPoint

from ..errors import NothingToDraw
from ..tables.names import clean, natural, short_hosts
from . import caption, kernels, layout, legends, markers, omissions, roofs
from .label_placement import Labels
from .scales import Frame, around, performance, set_plane, shaped

MOST_PANELS = 6
SIZES = {1: 5.7, 2: 3.35}  # width of a panel by the number of columns, inches
NARROW = 2.95
ALIKE = 1.3  # roofs of like machines differ less, those of two generations of GPUs more
FLATTEST, STEEPEST = 0.55, 0.68  # height over width of a panel

Place = tuple[str, str]  # host, and device: "" CPUs, "gpu 0"


class RooflinePanel(NamedTuple):
    """What is drawn of one device of a node, or of a kind of machine."""

    title: str
    lines: list[RoofLine]
    points: list[RoofPoint]
    hidden: Sequence[str] = ()  # labels of ceilings that are too close to others


class DrawnPoints(NamedTuple):
    """What legend and caption need to know about the drawn points of a panel."""

    key: list[str]  # numbers for long names
    arrows: bool = False
    more: Sequence[Artist] = ()  # entries of the legend


class RooflineKind(NamedTuple):
    """What differs between the kinds of roofline plots."""

    title: str
    across: Callable[[Sequence[RoofPoint]], str]  # label of the x axis
    # Draws the points of a panel; the number is the first one of its key.
    draw: Callable[[Axes, Labels, RooflinePanel, int], DrawnPoints]
    by_level: bool = False  # markers show levels, not roles


def figure(kind: RooflineKind, record: Roofline) -> Figure:
    """Raises NothingToDraw when there is nothing to draw."""
    panels, not_drawn, missing = panels_of(record)
    frame, ratio = shaped(around(_frame(panel) for panel in panels), FLATTEST, STEEPEST)
    columns = min(len(panels), 3)
    width = SIZES.get(columns, NARROW)
    boxes = layout.rows(len(panels), columns, width, width * ratio, titled=len(panels) > 1)
    with layout.settings():
        made, axes = layout.blank(boxes)
        handles, key, notes = _draw(kind, axes, panels, [frame] * len(panels))
        layout.share_sides(axes, columns)
        title = caption.title(kind.title, record.about, layout.only_title(axes))
        # The command leaves out its defaults.
        points = next((point.kind for panel in panels for point in panel.points), "")
        command = caption.command(
            "roofline",
            record.about,
            kind="" if record.kind == "classic" else record.kind,
            points="" if points == "rank" else points,
        )
        under = caption.of(
            record.about, missing, notes, record.notes, always=not_drawn, key=key, command=command
        )
        layout.finish(made, axes, boxes, title, handles, under)
    return made


def draw_on(kind: RooflineKind, axes: Axes | Sequence[Axes], record: Roofline) -> None:
    """Draw on the caller's axes, one for each panel. Raises ClientError when their number differs."""
    panels, *_ = panels_of(record)
    given = layout.axes_list(axes, len(panels), "each node or device")
    frames = [shaped(_frame(p), *[layout.ratio(axis)] * 2)[0] for p, axis in zip(panels, given, strict=True)]
    with layout.settings():
        handles, _, _ = _draw(kind, given, panels, frames)
        legends.on(given[0], handles)


def _draw(
    kind: RooflineKind, axes: Sequence[Axes], panels: Sequence[RooflinePanel], frames: Sequence[Frame]
) -> tuple[list[Artist], list[str], list[str]]:
    """The entries of the legend, the key to numbers, and notes."""
    key: list[str] = []
    outside: list[str] = []
    has_arrows = False
    more: dict[str, Artist] = {}
    for axis, panel, frame in zip(axes, panels, frames, strict=True):
        unit, name = performance(frame.top)
        set_plane(axis, frame, kind.across(panel.points), f"Performance ({name})", unit)
        layout.name_panel(axis, panel.title)
        labels = Labels(axis)
        roofs.draw_roof(axis, labels, panel.lines, frame)
        drawn = kind.draw(axis, labels, panel, len(key) + 1)
        key += drawn.key
        outside += roofs.outside(panel.lines, frame)
        has_arrows = has_arrows or drawn.arrows
        more.update((str(handle.get_label()), handle) for handle in drawn.more)

    notes = [f"{p.title}: no roof, no ceilings were measured there." for p in panels if not p.lines]
    notes += outside
    for panel in panels:
        if panel.hidden:
            names = ", ".join(panel.hidden)
            notes.append(f"{panel.title}: hidden, because each overlaps another line: {names}.")
    points = [point for panel in panels for point in panel.points]
    handles = [
        *markers.legend_entries(points, has_arrows, kind.by_level),
        *more.values(),
        *roofs.legend_entries(line for panel in panels for line in panel.lines),
    ]
    return handles, key, notes


def _frame(panel: RooflinePanel) -> Frame:
    return roofs.frame_of(panel.lines, (place for p in panel.points for place in markers.extent(p)))


def panels_of(record: Roofline) -> tuple[list[RooflinePanel], list[str], list[str]]:
    """The panels, a note on panels that are not drawn, and notes on points that are not.

    Raises NothingToDraw when there is nothing to draw.
    """
    renamed = kernels.renamed(record.points)
    points = [p for p in renamed if markers.can_be_drawn(p)]
    notes = omissions.missing(renamed)
    lines = {(roof.host, roof.device): roofs.drawable(roof) for roof in record.roofs}
    hidden = {(roof.host, roof.device): roofs.hidden(roof) for roof in record.roofs}
    with_points = dict.fromkeys((p.host, p.device) for p in points)
    keys = list(dict.fromkeys([*(key for key, drawn in lines.items() if drawn), *with_points]))
    if not with_points:
        # Roofs alone say nothing of the job.
        why = caption.joined([*notes, *record.notes][:3])
        why = why or "no FLOPs are known"
        raise NothingToDraw(f"nothing to draw: {clean(why)}")
    # A GPU without points next to CPUs with some would be an empty panel.
    keys = sorted((key for key in keys if key in with_points), key=lambda key: tuple(map(natural, key)))

    if len(keys) > MOST_PANELS:
        return _panels_by_machine(record, keys, lines, points, notes)
    names = short_hosts(list(dict.fromkeys(clean(host) for host, _ in keys)))
    panels = []
    for host, device in keys:
        key = host, device
        own = [p for p in points if (p.host, p.device) == key]
        title = ", ".join(part for part in (names[clean(host)], clean(device)) if part)
        panels.append(RooflinePanel(title, lines.get(key, []), own, hidden.get(key, [])))
    return panels, [], notes


def _panels_by_machine(
    record: Roofline,
    keys: Sequence[Place],
    lines: dict[Place, list[RoofLine]],
    points: Sequence[RoofPoint],
    notes: list[str],
) -> tuple[list[RooflinePanel], list[str], list[str]]:
    """A panel for each kind of machine, under the lowest roof among them."""
    models = {m.host: m.cpu_model for m in record.about.machines}
    panels = []
    for model, members in like_machines(keys, lines, models):
        lowest = lowest_of(members, lines)
        own = [p for p in points if (p.host, p.device) in members]
        title = title_of_machines(members, model)
        panels.append(RooflinePanel(title, lines.get(lowest, []), own))
        if len(members) > 1:
            notes.append(lowest_note(title, lowest))
    panels.sort(key=lambda panel: len(panel.points), reverse=True)
    more = len(panels) - MOST_PANELS
    more_kinds = f"{more} more kind{'s' if more > 1 else ''} of machines"
    not_drawn = [f"{more_kinds} {'are' if more > 1 else 'is'} not drawn."] if more > 0 else []
    return panels[:MOST_PANELS], not_drawn, notes


def like_machines(
    keys: Sequence[Place], lines: dict[Place, list[RoofLine]], models: dict[str, str]
) -> list[tuple[str, list[Place]]]:
    """Machines of one model of CPU and about one roof; GPUs, whose model nobody names, by their roofs."""
    groups: list[tuple[str, list[Place]]] = []
    for key in keys:
        host, device = key
        model = "" if device else models.get(host, "")
        for of_group, members in groups:
            same_kind = bool(members[0][1]) == bool(device) and of_group == model
            if same_kind and _alike(lines.get(members[0], []), lines.get(key, [])):
                members.append(key)
                break
        else:
            groups.append((model, [key]))
    return groups


def _alike(one: Sequence[RoofLine], other: Sequence[RoofLine]) -> bool:
    """Whether the lines of two roofs are as high, but for the spread of measurements."""
    heights = {line.name: roofs.height(line) for line in one if line.binding}
    both = [(heights[x.name], roofs.height(x)) for x in other if x.binding and x.name in heights]
    return all(max(pair) <= ALIKE * min(pair) for pair in both) if both else bool(one) == bool(other)


def lowest_of(members: Sequence[Place], lines: dict[Place, list[RoofLine]]) -> Place:
    with_roof = [key for key in members if lines.get(key)]
    return min(with_roof, key=lambda key: _compute_peak(lines[key]), default=members[0])


def title_of_machines(members: Sequence[Place], model: str) -> str:
    if not members[0][1]:
        return f"{len(members)} × {clean(model) or 'CPU not named'}"
    if len(members) == 1:
        return ", ".join(map(clean, members[0]))
    nodes = len({host for host, _ in members})
    return f"{len(members)} × GPU" + (f" on {nodes} nodes" if nodes > 1 else "")


def lowest_note(title: str, lowest: Place) -> str:
    where = " ".join(part for part in lowest if part)
    return f"{title}: under the roof of {where}, the lowest of them."


def _compute_peak(lines: Sequence[RoofLine]) -> float:
    return max((roofs.height(x) for x in lines if x.binding and not roofs.is_slanting(x)), default=0.0)
