"""The time of every step: its phases stacked, a row for each rank; of many ranks their spread, by role.

A step nobody saw leaves its place empty. Of thousands of steps neighbours share a place, and the caption says
how many.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ..errors import ClientError
from ..names import clean
from ..records import TableChunk
from . import Steps, caption, sheet, style
from .marks import names_of
from .scales import unit_for

MOST_RANKS = 6  # with more, roles are drawn as bands
MOST_PLACES = 240  # steps drawn side by side
WIDTH, HEIGHT, BAND = 6.3, 1.15, 1.9  # inches
PHASES = ("input", "forward", "backward", "communicate", "optimizer")


class Step(NamedTuple):
    """One step of a rank, seconds; phases: those that were seen."""

    time: float
    phases: dict[str, float]


class Panel(NamedTuple):
    """What is drawn in a row: a rank with its steps, or a role with those of its ranks."""

    name: str
    role: str
    ranks: dict[str, dict[int, Step]]


def figure(record: Steps) -> Figure:
    """A row for each rank, or of many ranks for each role. Raises ClientError when there is no step."""
    panels, notes = _panels(record)
    height = HEIGHT if _is_single(panels) else BAND
    boxes = [
        sheet.Box(sheet.LEFT, sheet.TOP + 0.18 + k * (height + 0.28), WIDTH, height)
        for k in range(len(panels))
    ]
    with sheet.settings():
        made, axes = sheet.blank(boxes)
        handles, said = _draw(axes, panels)
        job = caption.title("Steps", record.about) if record.about else f"Steps of job {clean(record.job)}"
        sheet.finish(made, boxes, job, handles, caption.of(record.about, said, notes))
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Steps) -> None:
    """Draw on these axes, one for each rank or role. Errors as of `figure`."""
    panels, _ = _panels(record)
    given = sheet.given(axes, len(panels), "ranks or roles")
    with sheet.settings():
        handles, _ = _draw(given, panels)
        sheet.legend_on(given[0], handles)


def _is_single(panels: Sequence[Panel]) -> bool:
    return all(len(panel.ranks) == 1 for panel in panels)


# -- reading ------------------------------------------------------------------------------------------


def _panels(record: Steps) -> tuple[list[Panel], list[str]]:
    ranks, notes = _read(record.chunks)
    if not ranks:
        why = " ".join(notes[:3]) or "no step was marked or seen"
        raise ClientError(f"nothing to draw: job {clean(record.job)} has no steps: {clean(why)}")
    if len(ranks) <= MOST_RANKS:
        return [Panel(r, _role(r), {r: ranks[r]}) for r in sorted(ranks, key=_order)], notes
    roles: dict[str, dict[str, dict[int, Step]]] = {}
    for rank, steps in ((r, ranks[r]) for r in sorted(ranks, key=_order)):
        roles.setdefault(_role(rank), {})[rank] = steps
    return [Panel(names_of(list(own)), role, own) for role, own in roles.items()], notes


def _role(rank: str) -> str:
    return rank.rpartition(":")[0] or rank


def _order(rank: str) -> tuple[str, int, str]:
    role, _, index = rank.rpartition(":")
    return role, int(index) if index.isdecimal() else 0, index


def _read(chunks: Iterable[TableChunk]) -> tuple[dict[str, dict[int, Step]], list[str]]:
    """Rank -> step number -> step. Of a step done again (after a restart) the last counts."""
    ranks: dict[str, dict[int, Step]] = {}
    notes: list[str] = []
    again = 0
    for chunk in chunks:
        notes += chunk.notes
        for row in chunk.records():
            rank, number, took = row.get("rank"), row.get("step"), row.get("duration_ns")
            if not rank or not isinstance(number, int) or not isinstance(took, (int, float)) or took <= 0:
                continue
            steps = ranks.setdefault(str(rank), {})
            again += number in steps
            steps[number] = Step(took / 1e9, _phases(row))
    if again:
        notes.append(
            f"{again:,} steps were done again, or are windows of several workers: the last is drawn."
        )
    return ranks, notes


def _phases(row: dict[str, Any]) -> dict[str, float]:
    found = {name: row.get(f"{name}_time") for name in PHASES}
    return {name: float(v) for name, v in found.items() if isinstance(v, (int, float)) and 0 < v < math.inf}


# -- drawing ------------------------------------------------------------------------------------------


def _draw(axes: Sequence[Axes], panels: Sequence[Panel]) -> tuple[list[Artist], list[str]]:
    numbers = [number for panel in panels for steps in panel.ranks.values() for number in steps]
    first, last = min(numbers), max(numbers)
    width = max(1, math.ceil((last - first + 1) / MOST_PLACES))
    longest = max(step.time for p in panels for steps in p.ranks.values() for step in steps.values())
    unit, name = unit_for("s", longest)
    phases: dict[str, None] = {}
    for at, (axis, panel) in enumerate(zip(axes, panels, strict=True)):
        if _is_single(panels):
            phases.update(dict.fromkeys(_stack(axis, panel, first, width, unit)))
        else:
            _band(axis, panel, first, width, unit)
        _dress(axis, (first, last + 1), name, at == len(panels) - 1)
        sheet.name_panel(axis, panel.name, colour=style.colour(panel.role))
    if _is_single(panels):
        # Ranks are compared with one another.
        for axis in axes:
            axis.set_ylim(0, longest / unit * 1.05)
    how = "the mean of its steps, the line the longest" if _is_single(panels) else "all its steps"
    said = [f"A place holds {width} steps: shown is {how}."] if width > 1 else []
    return _handles(panels, list(phases), width), [*said, *_gaps(panels, first, last)]


def _binned(steps: dict[int, Step], first: int, width: int) -> dict[int, list[Step]]:
    """First number of a place -> the steps that fall there."""
    places: dict[int, list[Step]] = {}
    for number, step in steps.items():
        places.setdefault(first + (number - first) // width * width, []).append(step)
    return places


def _stack(axis: Axes, panel: Panel, first: int, width: int, unit: float) -> list[str]:
    """Bars of phases for one rank; the phases there are."""
    (steps,) = panel.ranks.values()
    places = _binned(steps, first, width)
    found = _phases_of(panel)
    begins = sorted(places)
    floor = [0.0] * len(begins)
    bar: dict[str, Any] = {"width": width, "align": "edge", "linewidth": 0, "antialiased": False}
    for name in found:
        heights = [statistics.fmean(s.phases.get(name, 0.0) for s in places[b]) / unit for b in begins]
        axis.bar(begins, heights, bottom=floor, color=style.PARTS[name], **bar)
        floor = [low + more for low, more in zip(floor, heights, strict=True)]
    means = [statistics.fmean(s.time for s in places[b]) / unit for b in begins]
    rest = [max(0.0, mean - low) for mean, low in zip(means, floor, strict=True)]
    whole = {"color": style.PARTS["other"]} if found else {"color": style.colour(panel.role), "alpha": 0.4}
    axis.bar(begins, rest, bottom=floor, **whole, **bar)
    if width > 1:
        tops = [max(s.time for s in places[b]) / unit for b in begins]
        _steps_line(axis, begins, tops, width, style.DIM, 0.6)
    return found


def _phases_of(panel: Panel) -> list[str]:
    seen = {name for steps in panel.ranks.values() for step in steps.values() for name in step.phases}
    return [name for name in PHASES if name in seen]


def _steps_line(
    axis: Axes, begins: Sequence[int], heights: Sequence[float], width: int, colour: str, thick: float
) -> None:
    """A line of level pieces with holes where there are no steps."""
    across: list[float] = []
    up: list[float] = []
    for begin, height in zip(begins, heights, strict=True):
        if across and begin > across[-1]:
            across.append(math.nan)
            up.append(math.nan)
        across += [begin, begin + width]
        up += [height, height]
    axis.plot(across, up, color=colour, linewidth=thick, zorder=3, solid_joinstyle="miter")


def _band(axis: Axes, panel: Panel, first: int, width: int, unit: float) -> None:
    """Of a role's ranks the median, the half in the middle, and all from the fastest to the slowest."""
    places: dict[int, list[float]] = {}
    for steps in panel.ranks.values():
        for begin, some in _binned(steps, first, width).items():
            places.setdefault(begin, []).extend(step.time / unit for step in some)
    begins = sorted(places)
    colour = style.colour(panel.role)
    quarters = [_quartiles(places[b]) for b in begins]
    bar: dict[str, Any] = {"width": width, "align": "edge", "linewidth": 0, "color": colour}
    lows, highs = [min(places[b]) for b in begins], [max(places[b]) for b in begins]
    axis.bar(begins, [h - low for h, low in zip(highs, lows, strict=True)], bottom=lows, alpha=0.18, **bar)
    axis.bar(begins, [q[2] - q[0] for q in quarters], bottom=[q[0] for q in quarters], alpha=0.35, **bar)
    _steps_line(axis, begins, [q[1] for q in quarters], width, colour, 1.2)


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _dress(axis: Axes, across: tuple[int, int], unit: str, last: bool) -> None:
    axis.set_xlim(*across)
    axis.set_ylim(bottom=0, top=axis.dataLim.y1 * 1.06)
    axis.set_ylabel(f"Step time ({unit})", fontsize=style.LABEL)
    axis.set_axisbelow(True)
    axis.grid(True, axis="y", linewidth=0.5, color=style.GRID)
    axis.tick_params(labelsize=style.TICK, labelbottom=last)
    axis.spines[["top", "right"]].set_visible(False)
    axis.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))
    axis.yaxis.set_major_locator(MaxNLocator(4))
    if last:
        axis.set_xlabel("Step", fontsize=style.LABEL)


def _gaps(panels: Sequence[Panel], first: int, last: int) -> list[str]:
    """How many steps nobody saw."""
    total = last - first + 1
    told = []
    for panel in panels:
        for rank, steps in panel.ranks.items():
            if len(steps) < total:
                told.append(f"{clean(rank)} lacks {total - len(steps):,} of {total:,} steps")
    more = f"; {len(told) - 3} more ranks lack some" if len(told) > 3 else ""
    return [f"Empty places: {'; '.join(told[:3])}{more}."] if told else []


def _handles(panels: Sequence[Panel], phases: Sequence[str], width: int) -> list[Artist]:
    if not _is_single(panels):
        handles: list[Artist] = []
        for panel in panels:
            colour = style.colour(panel.role)
            count = len(panel.ranks)
            what = f"median of {count} ranks" if count > 1 else "step"
            told = f"{clean(panel.role)}: {what}".replace("_", "-")
            handles.append(Line2D([], [], color=colour, linewidth=1.2, label=told))
        grey = Patch(facecolor=style.DIM, alpha=0.4, label="25 to 75 %")
        return [*handles, grey, Patch(facecolor=style.DIM, alpha=0.18, label="all")]
    named: list[Artist] = [Patch(facecolor=style.PARTS[name], label=name) for name in phases]
    if phases:
        named.append(Patch(facecolor=style.PARTS["other"], label="none of these"))
    for role in dict.fromkeys(p.role for p in panels if not _phases_of(p)):
        told = f"{clean(role)}: step, phases not seen".replace("_", "-")
        named.append(Patch(facecolor=style.colour(role), alpha=0.4, label=told))
    if width > 1:
        named.append(Line2D([], [], color=style.DIM, linewidth=0.6, label="longest"))
    return named
