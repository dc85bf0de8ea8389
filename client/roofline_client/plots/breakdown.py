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
            _draw_with_key(axis, panel, key, box.height)
        title = caption.title("Breakdown", record.about)
        under = caption.of(record.about, notes, record.notes)
        sheet.finish(made, boxes, title, [], under, below=UNDER)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Breakdown) -> None:
    """Draw on these axes, one for each kind of breakdown. Errors as of `figure`."""
    panels, _ = _panels(record)
    with sheet.settings():
        given = sheet.given(axes, len(panels), "each kind of breakdown")
        for axis, panel in zip(given, panels, strict=True):
            width, height = sheet.size(axis)
            _draw_with_key(axis, panel, sheet.measured(_handles(panel), width), height)


def _draw_with_key(axis: Axes, panel: Panel, key: sheet.Size, height: float) -> None:
    """The legend stands above the axes: inside it would cover bars; height: of the axes, inches."""
    _draw(axis, panel, pad=key.height * 72 + 9)
    sheet.legend_above(axis, _handles(panel), key.columns, 3 / 72 / height)


def _panels(record: Breakdown) -> tuple[list[Panel], list[str]]:
    kinds = dict.fromkeys([*TITLES, *(part.kind for part in record.parts)])
    notes: list[str] = []
    found = [panel for kind in kinds if (panel := _panel(kind, record.parts, notes))]
    notes += _absent(record.parts)
    if not found:
        said = caption.joined([*notes, *record.notes][:3]) or "nothing was counted and no step was timed"
        raise ClientError(f"nothing to draw: {clean(said)}")
    return found, notes


def _panel(kind: str, parts: Sequence[BreakdownPart], notes: list[str]) -> Panel | None:
    own = [part for part in parts if part.kind == kind]
    shown = [part for part in own if part.value.value is not None and part.value.value > 0]
    if not shown:
        return None
    subjects = dict.fromkeys((part.subject, part.role) for part in shown)
    bars = [Bar(name, role, [p for p in shown if p.subject == name]) for name, role in subjects]
    if len(bars) > MOST_BARS:
        bars.sort(key=_length, reverse=True)
        notes.append(f"{_title(kind)}: the {MOST_BARS} longest of {len(bars)} bars.")
    return Panel(kind, bars[:MOST_BARS], _colours(kind, shown))


def _title(kind: str) -> str:
    return TITLES.get(kind, clean(kind).replace("_", " "))


def _absent(parts: Sequence[BreakdownPart]) -> list[str]:
    """What is absent and why, reason by reason."""
    reasons: dict[str, list[BreakdownPart]] = {}
    for part in parts:
        if part.value.value is None:
            reasons.setdefault(part.value.reason or "nobody measured it", []).append(part)
    return [f"{_lacking(own)} absent: {why}." for why, own in reasons.items()]


def _lacking(parts: Sequence[BreakdownPart]) -> str:
    """ "FLOPs by precision, FLOPs by vector width of chief, ps"."""
    names = ", ".join(dict.fromkeys(clean(p.subject) for p in parts))
    kinds = list(dict.fromkeys(_title(p.kind) for p in parts))
    if len(kinds) == 1 and len({p.part for p in parts}) < 4:
        kinds = [f"{kinds[0]} ({', '.join(dict.fromkeys(clean(p.part) for p in parts))})"]
    return f"{', '.join(kinds)} of {shortened(names, 60)}"


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
        told = sorted((name for name in names if "not told" not in name), key=_width)
        shades = {name: style.shade(at, len(told)) for at, name in enumerate(told)}
        return {**shades, **{name: style.PARTS["other"] for name in names if name not in shades}}
    return {name: style.part_colour(name, at) for at, name in enumerate(names)}


def _width(part: str) -> tuple[int, str]:
    """Order from narrow to wide: scalar, then the bits that are said, then tiles."""
    bits = [int(word) for word in part.replace("-", " ").split() if word.isdecimal()]
    return (10_000 if "amx" in part.casefold() else max(bits, default=0)), part


def _draw(axis: Axes, panel: Panel, pad: float = 4.0) -> None:
    stacked = _adds_up(panel.bars)
    scales = _scales(panel)
    ends = [_length(bar) for bar in panel.bars] if stacked else [_largest(bar, scales) for bar in panel.bars]
    for row, bar in enumerate(panel.bars):
        if stacked:
            _stack(axis, panel, bar, row, max(ends))
        else:
            _beside(axis, panel, bar, row, scales, max(ends))
    axis.set_ylim(len(panel.bars) - 0.5, -0.5)
    axis.set_xlim(0, max(ends) * (1.02 if stacked else 1.22))
    _set_subjects(axis, panel)
    _set_amounts(axis, panel, max(ends))
    axis.tick_params(labelsize=style.TICK)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    own = " (each to its own scale)" if len(scales) > 1 else ""
    sheet.name_panel(axis, f"{_title(panel.kind)}{own}", pad)


def _scales(panel: Panel) -> dict[str, float]:
    """By unit what a bar of length 1 stands for: of several units the largest number of each."""
    values = [part.value for bar in panel.bars for part in bar.parts]
    found = {value.unit: max(v.value or 0.0 for v in values if v.unit == value.unit) for value in values}
    return found if len(found) > 1 else dict.fromkeys(found, 1.0)


def _set_subjects(axis: Axes, panel: Panel) -> None:
    axis.set_yticks(range(len(panel.bars)), [shortened(clean(bar.subject), 16) for bar in panel.bars])
    for text, bar in zip(axis.get_yticklabels(), panel.bars, strict=True):
        text.set_color(style.colour(bar.role))
        text.set_parse_math(False)


def _set_amounts(axis: Axes, panel: Panel, longest: float) -> None:
    """Numbers at the x axis; where units differ the bars alone have theirs."""
    if len(_scales(panel)) > 1:
        axis.set_xticks([])
        return
    scale, unit = unit_for(panel.bars[0].parts[0].value.unit, longest)
    steps = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(0, longest / scale)
    # A number beyond the longest bar would stand beside the paper.
    axis.xaxis.set_major_locator(FixedLocator([at * scale for at in steps if at * scale <= longest]))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{tick(x / scale)} {unit}" if x else "0"))


def _largest(bar: Bar, scales: dict[str, float]) -> float:
    return max((part.value.value or 0.0) / scales[part.value.unit] for part in bar.parts)


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


def _beside(axis: Axes, panel: Panel, bar: Bar, row: int, scales: dict[str, float], longest: float) -> None:
    """A bar for each part, one under the other, with their values."""
    parts = [p for name in panel.colours for p in bar.parts if p.part == name]
    height = 0.78 / len(parts)
    for order, part in enumerate(parts):
        up = row - 0.39 + (order + 0.5) * height
        width = (part.value.value or 0.0) / scales[part.value.unit]
        axis.barh(up, width, height * 0.9, color=panel.colours[part.part], linewidth=0, zorder=2)
        _write(axis, width + 0.01 * longest, up, _amount(part), "left", style.DIM)


def _amount(part: BreakdownPart) -> str:
    value = part.value
    if value.unit != "1" or value.value is None:
        return units.show(value)
    scale, prefix = unit_for("", value.value)
    counted = "accesses" if "access" in part.part else ""
    return " ".join(word for word in (f"{value.value / scale:.4g}", prefix, counted) if word)


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
