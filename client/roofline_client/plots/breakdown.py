"""The breakdown of work, traffic and time: a panel for each kind, a bar for each role or rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from roofline.answers.breakdown import Breakdown, BreakdownPart

from ..tables import units
from ..tables.names import clean
from . import caption, layout, legends, scales, style
from .breakdown_panels import UNSEEN, Bar, BreakdownPanel, adds_up, length, panels_of, title_of
from .label_placement import shortened
from .scales import tick, unit_for

REST = "the rest"
BAR, WIDTH = 0.27, 5.2  # inches
TITLED, UNDER = 0.34, 0.34  # inches above and under the bars of a panel, without its legend


def figure(record: Breakdown, name: str = "Breakdown") -> Figure:
    """A panel for each kind of breakdown there is. name: in the title. Raises ClientError when there is
    none."""
    panels, notes = panels_of(record)
    with layout.settings():
        keys = [legends.measured(_handles(panel), WIDTH) for panel in panels]
        subjects = [_subject(bar) for panel in panels for bar in panel.bars]
        left = 0.3 + max(layout.width_of(name, style.TICK) for name in subjects)
        boxes: list[layout.Box] = []
        top = layout.TOP
        for panel, key in zip(panels, keys, strict=True):
            rows = 1 if adds_up(panel.bars) else max(1.0, 0.55 * len(panel.colours))
            height = BAR * rows * len(panel.bars) + 0.1
            boxes.append(layout.Box(left, top + TITLED + key.height, WIDTH, height))
            # Bars with scales of their own have no numbers under them.
            top = boxes[-1].top + height + (UNDER if len(_scales(panel)) == 1 else UNDER / 3)
        made, axes = layout.blank(boxes)
        for axis, panel, box, key in zip(axes, panels, boxes, keys, strict=True):
            _draw_with_key(axis, panel, key, box.height)
        title = caption.title(name, record.about)
        roles = all(part.subject == part.role for part in record.parts)
        command = caption.command("breakdown", record.about, by="" if roles else "rank")
        under = caption.of(record.about, notes, record.notes, command=command)
        layout.finish(made, axes, boxes, title, [], under, below=UNDER)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Breakdown) -> None:
    """Draw on these axes, one for each kind of breakdown. Errors as of `figure`."""
    panels, _ = panels_of(record)
    with layout.settings():
        given = layout.axes_list(axes, len(panels), "each kind of breakdown")
        for axis, panel in zip(given, panels, strict=True):
            width, height = scales.size(axis)
            _draw_with_key(axis, panel, legends.measured(_handles(panel), width), height)


def _draw_with_key(axis: Axes, panel: BreakdownPanel, key: legends.Size, height: float) -> None:
    """With the legend above the axes, because inside it would cover bars; height: of the axes, inches."""
    scales = _scales(panel)
    if adds_up(panel.bars):
        longest = max(length(bar) for bar in panel.bars)
        for row, bar in enumerate(panel.bars):
            _draw_stacked_bar(axis, panel, bar, row, longest)
        axis.set_xlim(0, longest * 1.02)
    else:
        parts = [part for bar in panel.bars for part in bar.parts]
        longest = max((part.value.value or 0.0) / scales[part.value.unit] for part in parts)
        for row, bar in enumerate(panel.bars):
            _draw_separate_bars(axis, panel, bar, row, scales, longest)
        axis.set_xlim(0, longest * 1.22)

    axis.set_ylim(len(panel.bars) - 0.5, -0.5)
    axis.set_yticks(range(len(panel.bars)), [_subject(bar) for bar in panel.bars])
    for text, bar in zip(axis.get_yticklabels(), panel.bars, strict=True):
        text.set_color(style.colour(bar.role))
        text.set_parse_math(False)
    _set_x_ticks(axis, panel, longest)
    axis.tick_params(labelsize=style.TICK)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    own = " (each to its own scale)" if len(scales) > 1 else ""
    layout.name_panel(axis, f"{title_of(panel.kind)}{own}", pad=key.height * 72 + 9)
    legends.above(axis, _handles(panel), key.columns, 3 / 72 / height)


def _scales(panel: BreakdownPanel) -> dict[str, float]:
    """By unit, the value of a bar of length 1. With several units it is the largest value of each."""
    values = [part.value for bar in panel.bars for part in bar.parts]
    found = {value.unit: max(v.value or 0.0 for v in values if v.unit == value.unit) for value in values}
    return found if len(found) > 1 else dict.fromkeys(found, 1.0)


def _subject(bar: Bar) -> str:
    return shortened(clean(bar.subject), 16)


def _set_x_ticks(axis: Axes, panel: BreakdownPanel, longest: float) -> None:
    """Numbers at the x axis, unless units differ: then they stand at the bars."""
    if len(_scales(panel)) > 1:
        axis.set_xticks([])
        return
    unit = panel.bars[0].parts[0].value.unit
    scale, name = unit_for("" if unit == "1" else unit, longest)
    steps = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(0, longest / scale)
    # A number beyond the longest bar would be off the paper.
    axis.xaxis.set_major_locator(FixedLocator([at * scale for at in steps if at * scale <= longest]))
    axis.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{tick(x / scale)} {name}".strip() if x else "0")
    )


def _draw_stacked_bar(axis: Axes, panel: BreakdownPanel, bar: Bar, row: int, longest: float) -> None:
    """One bar of all parts, with their shares where there is room."""
    at = 0.0
    for name, colour in [*panel.colours.items(), (REST, style.PARTS["other"])]:
        parts = [p for p in bar.parts if (p.part if p.part in panel.colours else REST) == name]
        width = sum(p.value.value or 0.0 for p in parts)
        if not parts:
            continue
        axis.barh(row, width, 0.72, at, color=colour, edgecolor="white", linewidth=0.5, zorder=2)
        share = units.share(parts[0].share) if len(parts) == 1 else ""
        if width > 0.09 * longest and parts[0].share.value is not None:
            _write(axis, at + width / 2, row, share, "center", style.ink_on(colour))
        at += width


def _draw_separate_bars(
    axis: Axes, panel: BreakdownPanel, bar: Bar, row: int, scales: dict[str, float], longest: float
) -> None:
    """A bar for each part, one below the other, with their values."""
    parts = [p for name in panel.colours for p in bar.parts if p.part == name]
    height = 0.78 / len(parts)
    for order, part in enumerate(parts):
        up = row - 0.39 + (order + 0.5) * height
        width = (part.value.value or 0.0) / scales[part.value.unit]
        visible = max(width, UNSEEN * longest)  # a sliver of colour shows which part the number belongs to
        axis.barh(up, visible, height * 0.9, color=panel.colours[part.part], linewidth=0, zorder=2)
        _write(axis, visible + 0.01 * longest, up, _value_text(part), "left", style.DIM)


def _value_text(part: BreakdownPart) -> str:
    value = part.value
    if value.unit != "1" or value.value is None:
        return units.show(value)
    scale, prefix = unit_for("", value.value)
    counted = "accesses" if "access" in part.part else ""
    return " ".join(word for word in (f"{value.value / scale:.4g}", prefix, counted) if word)


def _write(axis: Axes, x: float, y: float, text: str, side: str, ink: str) -> None:
    looks: dict[str, Any] = {"ha": side, "va": "center_baseline", "color": ink, "parse_math": False}
    axis.text(x, y, text, fontsize=style.SMALL - 0.5, zorder=3, **looks)


def _handles(panel: BreakdownPanel) -> list[Artist]:
    handles: list[Artist] = []
    for part, colour in panel.colours.items():
        name = {"minimum": "tensor bytes"}.get(part, part)
        # matplotlib leaves entries out that begin with an underscore.
        name = shortened(clean(name).replace("_", " ").strip() or "unnamed", 34)
        handles.append(Patch(facecolor=colour, label=name))
    rests = [sum(p.value.value or 0.0 for p in b.parts if p.part not in panel.colours) for b in panel.bars]
    if max(rests) >= UNSEEN * max(map(length, panel.bars)):
        handles.append(Patch(facecolor=style.PARTS["other"], label=REST))
    return handles
