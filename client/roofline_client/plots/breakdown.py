"""What work, traffic and time are made of: a stacked bar for each role or rank, a panel for each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from .. import units
from ..errors import ClientError
from ..model_records import Breakdown, BreakdownPart
from ..names import clean
from . import caption, sheet, style
from .labels import shortened

TITLES = {
    "time": "Time",
    "flops_by_width": "FLOPs by vector width",
    "flops_by_precision": "FLOPs by precision",
    "work_and_memory": "FLOPs and memory accesses",
    "traffic_by_level": "Traffic by level",
    "kernels_by_time": "Kernels by time",
}
MOST_BARS, MOST_PARTS = 16, 8
BAR, WIDTH, LEFT = 0.27, 4.7, 1.3  # inches
TITLED, UNDER = 0.34, 0.34  # inches above and under the bars of a panel, without its legend


class Bar(NamedTuple):
    """The parts of one subject, in order."""

    subject: str
    role: str
    parts: list[BreakdownPart]


class Panel(NamedTuple):
    """One question."""

    kind: str
    bars: list[Bar]
    colours: dict[str, str]  # by part, in the order they are drawn


def figure(record: Breakdown) -> Figure:
    """A panel for each kind of breakdown there is. Raises ClientError when there is none."""
    panels, notes = _panels(record)
    with sheet.settings():
        keys = [sheet.measured(_handles(panel), WIDTH) for panel in panels]
        boxes, top = [], sheet.TOP
        for panel, key in zip(panels, keys, strict=True):
            boxes.append(sheet.Box(LEFT, top + TITLED + key.height, WIDTH, BAR * len(panel.bars) + 0.1))
            top = boxes[-1].top + boxes[-1].height + UNDER
        made, axes = sheet.blank(boxes)
        for axis, panel, box, key in zip(axes, panels, boxes, keys, strict=True):
            _draw(axis, panel, pad=key.height * 72 + 8)
            sheet.legend_above(axis, _handles(panel), key.columns, 5 / 72 / box.height)
        title = caption.title("Breakdown", record.about)
        under = caption.of(record.about, notes, record.notes)
        sheet.finish(made, boxes, title, [], under, below=UNDER)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Breakdown) -> None:
    """Draw on these axes, one for each kind of breakdown. Errors as of `figure`."""
    panels, _ = _panels(record)
    with sheet.settings():
        for axis, panel in zip(sheet.given(axes, len(panels), "breakdowns"), panels, strict=True):
            _draw(axis, panel)
            sheet.legend_on(axis, _handles(panel))


def _panels(record: Breakdown) -> tuple[list[Panel], list[str]]:
    kinds = dict.fromkeys([*TITLES, *(part.kind for part in record.parts)])
    notes: list[str] = []
    found = [panel for kind in kinds if (panel := _panel(kind, record.parts, notes))]
    if not found:
        said = " ".join([*notes, *record.notes][:3]) or "nothing was counted and no step was timed"
        raise ClientError(f"nothing to draw: {clean(said)}")
    return found, notes


def _panel(kind: str, parts: Sequence[BreakdownPart], notes: list[str]) -> Panel | None:
    own = [part for part in parts if part.kind == kind]
    shown = [part for part in own if part.value.value is not None and part.value.value > 0]
    for reason, lacking in _reasons([part for part in own if part.value.value is None]).items():
        notes.append(f"{TITLES.get(kind, kind)}: {lacking} absent: {reason}.")
    if not shown:
        return None
    subjects = dict.fromkeys((part.subject, part.role) for part in shown)
    bars = [Bar(name, role, [p for p in shown if p.subject == name]) for name, role in subjects]
    if len(bars) > MOST_BARS:
        bars.sort(key=_length, reverse=True)
        notes.append(f"{TITLES.get(kind, kind)}: the {MOST_BARS} longest of {len(bars)} bars.")
    return Panel(kind, bars[:MOST_BARS], _colours(kind, shown))


def _reasons(parts: Sequence[BreakdownPart]) -> dict[str, str]:
    """Reason -> what is absent for it."""
    found: dict[str, list[str]] = {}
    for part in parts:
        found.setdefault(part.value.reason or "nobody measured it", []).append(f"{part.subject} {part.part}")
    return {
        why: names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        for why, names in found.items()
    }


def _length(bar: Bar) -> float:
    return sum(part.value.value or 0.0 for part in bar.parts)


def _colours(kind: str, parts: Sequence[BreakdownPart]) -> dict[str, str]:
    """Of many parts the largest have a colour, the rest one together."""
    totals: dict[str, float] = {}
    for part in parts:
        totals[part.part] = totals.get(part.part, 0.0) + (part.value.value or 0.0)
    names = list(totals)
    if len(names) > MOST_PARTS:
        largest = sorted(names, key=lambda name: -totals[name])[: MOST_PARTS - 1]
        names = [name for name in names if name in largest]
    if kind in ("flops_by_width", "flops_by_precision"):
        return {name: style.shade(at, len(names)) for at, name in enumerate(names)}
    return {name: style.part_colour(name, at) for at, name in enumerate(names)}


def _draw(axis: Axes, panel: Panel, pad: float = 4.0) -> None:
    unit = panel.bars[0].parts[0].value.unit
    for row, bar in enumerate(panel.bars):
        _draw_bar(axis, panel, bar, row)
    axis.set_ylim(len(panel.bars) - 0.5, -0.5)
    axis.set_xlim(0, max(map(_length, panel.bars)) * 1.02)
    axis.set_yticks(range(len(panel.bars)), [shortened(clean(bar.subject), 20) for bar in panel.bars])
    for text, bar in zip(axis.get_yticklabels(), panel.bars, strict=True):
        text.set_color(style.colour(bar.role))
        text.set_parse_math(False)
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: units.number(x, unit) if x else "0"))
    axis.tick_params(labelsize=style.TICK)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    sheet.name_panel(axis, TITLES.get(panel.kind, panel.kind.replace("_", " ")), pad)


def _draw_bar(axis: Axes, panel: Panel, bar: Bar, row: int) -> None:
    at = 0.0
    longest = max(map(_length, panel.bars))
    ordered = [p for name in panel.colours for p in bar.parts if p.part == name]
    rest = [p for p in bar.parts if p.part not in panel.colours]
    for part in [*ordered, *rest]:
        width = part.value.value or 0.0
        colour = panel.colours.get(part.part, style.PARTS["other"])
        axis.barh(row, width, 0.72, at, color=colour, edgecolor="white", linewidth=0.5, zorder=2)
        if width > 0.075 * longest and part in ordered:
            told = units.share(part.share) if part.share.value is not None else units.show(part.value)
            if len(told) * 0.0125 * longest < width:
                axis.text(
                    at + width / 2, row, told, ha="center", va="center", parse_math=False,
                    fontsize=style.SMALL - 0.5, color=style.ink_on(colour), zorder=3,
                )  # fmt: skip
        at += width


def _handles(panel: Panel) -> list[Artist]:
    drawn: list[Artist] = [
        Patch(facecolor=colour, label=shortened(clean(name), 34).replace("_", " "))
        for name, colour in panel.colours.items()
    ]
    if any(part.part not in panel.colours for bar in panel.bars for part in bar.parts):
        drawn.append(Patch(facecolor=style.PARTS["other"], label="the rest"))
    return drawn
