"""What work, traffic and time are made of: a stacked bar for each role or rank, a panel for each question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from .. import units
from ..errors import ClientError
from ..model_records import Breakdown, BreakdownPart
from ..names import clean
from . import caption, sheet, style
from .labels import shortened
from .scales import tick, unit_for

TITLES = {
    "time": "Time",
    "flops_by_width": "FLOPs by vector width",
    "flops_by_precision": "FLOPs by precision",
    "work_and_memory": "FLOPs and memory accesses",
    "traffic_by_level": "Traffic by level",
    "kernels_by_time": "Kernels by time",
}
MOST_BARS, MOST_PARTS = 16, 8
REST = "the rest"
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
            boxes.append(sheet.Box(LEFT, top + TITLED + key.height, WIDTH, _height(panel)))
            top = boxes[-1].top + boxes[-1].height + UNDER
        made, axes = sheet.blank(boxes)
        for axis, panel, box, key in zip(axes, panels, boxes, keys, strict=True):
            _draw(axis, panel, pad=key.height * 72 + 9)
            sheet.legend_above(axis, _handles(panel), key.columns, 3 / 72 / box.height)
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
    return {why: _few(names) for why, names in found.items()}


def _few(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _length(bar: Bar) -> float:
    return sum(part.value.value or 0.0 for part in bar.parts)


def _adds_up(bars: Sequence[Bar]) -> bool:
    """Whether parts are shares of a whole: what passes one level passes the next, too."""
    return any(part.share.value is not None for bar in bars for part in bar.parts)


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
    stacked = _adds_up(panel.bars)
    ends = [_length(bar) for bar in panel.bars] if stacked else [_largest(bar) for bar in panel.bars]
    scale, unit = unit_for(panel.bars[0].parts[0].value.unit, max(ends))
    for row, bar in enumerate(panel.bars):
        (_stack if stacked else _beside)(axis, panel, bar, row, max(ends))
    axis.set_ylim(len(panel.bars) - 0.5, -0.5)
    axis.set_xlim(0, max(ends) * (1.02 if stacked else 1.12))
    axis.set_yticks(range(len(panel.bars)), [shortened(clean(bar.subject), 16) for bar in panel.bars])
    for text, bar in zip(axis.get_yticklabels(), panel.bars, strict=True):
        text.set_color(style.colour(bar.role))
        text.set_parse_math(False)
    steps = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(0, max(ends) / scale)
    axis.xaxis.set_major_locator(FixedLocator([at * scale for at in steps]))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{tick(x / scale)} {unit}" if x else "0"))
    axis.tick_params(labelsize=style.TICK)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    sheet.name_panel(axis, TITLES.get(panel.kind, panel.kind.replace("_", " ")), pad)


def _largest(bar: Bar) -> float:
    return max(part.value.value or 0.0 for part in bar.parts)


def _stack(axis: Axes, panel: Panel, bar: Bar, row: int, longest: float) -> None:
    """One bar of all parts, with their shares where there is room."""
    at = 0.0
    for name, colour in [*panel.colours.items(), (REST, style.PARTS["other"])]:
        parts = [p for p in bar.parts if (p.part if p.part in panel.colours else REST) == name]
        width = sum(p.value.value or 0.0 for p in parts)
        if not parts:
            continue
        axis.barh(row, width, 0.72, at, color=colour, edgecolor="white", linewidth=0.5, zorder=2)
        told = units.share(parts[0].share) if len(parts) == 1 else ""
        if width > 0.09 * longest and parts[0].share.value is not None:
            _write(axis, at + width / 2, row, told, "center", style.ink_on(colour))
        at += width


def _beside(axis: Axes, panel: Panel, bar: Bar, row: int, longest: float) -> None:
    """A bar for each part, one under the other, with their values."""
    parts = [p for name in panel.colours for p in bar.parts if p.part == name]
    height = 0.78 / len(parts)
    for order, part in enumerate(parts):
        up, width = row - 0.39 + (order + 0.5) * height, part.value.value or 0.0
        axis.barh(up, width, height * 0.9, color=panel.colours[part.part], linewidth=0, zorder=2)
        _write(axis, width + 0.01 * longest, up, units.show(part.value), "left", style.DIM)


def _write(axis: Axes, x: float, y: float, text: str, side: str, ink: str) -> None:
    looks: dict[str, Any] = {"ha": side, "va": "center_baseline", "color": ink, "parse_math": False}
    axis.text(x, y, text, fontsize=style.SMALL - 0.5, zorder=3, **looks)


def _handles(panel: Panel) -> list[Artist]:
    drawn: list[Artist] = [
        Patch(facecolor=colour, label=_part_name(name)) for name, colour in panel.colours.items()
    ]
    if any(part.part not in panel.colours for bar in panel.bars for part in bar.parts):
        drawn.append(Patch(facecolor=style.PARTS["other"], label=REST))
    return drawn


def _part_name(name: str) -> str:
    """matplotlib leaves entries out that begin with an underscore."""
    return shortened(clean(name).replace("_", " ").strip() or "unnamed", 34)


def _height(panel: Panel) -> float:
    """Of its axes, inches."""
    rows = 1 if _adds_up(panel.bars) else max(1.0, 0.55 * len(panel.colours))
    return BAR * rows * len(panel.bars) + 0.1
