"""The time of every step: its phases stacked, a row for each rank; of many ranks their spread, by role.

A step nobody saw leaves its place empty. Of thousands of steps neighbours share a place, and the caption says
how many.
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from ..tables import units
from ..tables.names import clean
from . import Steps, caption, cuts, sheet, style
from .scales import unit_for
from .step_rows import PHASES, Panel, Step, name_of, panels_of

MOST_PLACES = 240  # steps drawn side by side
LONG = 3.0  # steps that many times as long as nearly all others would press those to the ground: they are cut
FEW = 8  # steps
UNSEEN = 1 / 160  # of the height: half a point
WIDTH, HEIGHT, BAND = 6.3, 1.15, 1.9  # inches


def figure(record: Steps) -> Figure:
    """A row for each rank, or of many ranks for each role. Raises ClientError when there is no step."""
    panels, notes = panels_of(record)
    height = HEIGHT if _is_single(panels) else BAND
    boxes = [
        sheet.Box(sheet.LEFT, sheet.TOP + 0.18 + k * (height + 0.28), WIDTH, height)
        for k in range(len(panels))
    ]
    with sheet.settings():
        made, axes = sheet.blank(boxes)
        handles, said = _draw(axes, panels)
        job = caption.title("Steps", record.about) if record.about else f"Steps of job {clean(record.job)}"
        command = f"roofline-client steps --job {shlex.quote(clean(record.job))}"
        under = caption.of(record.about, said, notes, command=command)
        sheet.finish(made, axes, boxes, job, handles, under)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Steps) -> None:
    """Draw on these axes, one for each rank or role. Errors as of `figure`."""
    panels, _ = panels_of(record)
    given = sheet.given(axes, len(panels), "each rank or role")
    with sheet.settings():
        handles, _ = _draw(given, panels)
        sheet.legend_over(given[0], handles, panels[0].name, style.colour(panels[0].role))


def _is_single(panels: Sequence[Panel]) -> bool:
    return all(len(panel.ranks) == 1 for panel in panels)


# -- drawing ------------------------------------------------------------------------------------------


def _draw(axes: Sequence[Axes], panels: Sequence[Panel]) -> tuple[list[Artist], list[str]]:
    numbers = [number for panel in panels for steps in panel.ranks.values() for number in steps]
    first, last = min(numbers), max(numbers)
    width = max(1, math.ceil((last - first + 1) / MOST_PLACES))
    places = range(first, last + 1, width)
    single = _is_single(panels)
    whole = _top(panels)
    phases: dict[str, float] = {}
    for at, (axis, panel) in enumerate(zip(axes, panels, strict=True)):
        # Ranks are compared with one another, roles are not.
        longest = whole if single else _top([panel])
        unit, name = unit_for("s", longest)
        if single:
            for phase, high in _stack(axis, panel, places, unit).items():
                phases[phase] = max(high, phases.get(phase, 0.0))
        else:
            _band(axis, panel, places, unit)
        cuts.mark(axis, places, _longest(panel, places), longest, unit)
        _dress(axis, (first, last + 1), name, at == len(panels) - 1)
        sheet.name_panel(axis, panel.name, colour=style.colour(panel.role))
        axis.set_ylim(0, longest / unit * 1.05)
    how = "the mean of its steps, the line the longest" if single else "all its steps"
    said = [f"A place holds {width} steps: shown is {how}."] if width > 1 else []
    seen = [name for name in (*PHASES, "other") if phases.get(name, 0.0) >= UNSEEN * whole]
    short = {name: high for name, high in phases.items() if name not in seen and name != "other"}
    said += [*_cut(panels, single), *_unseen(short), *_gaps(panels, first, last)]
    return _handles(panels, seen, width), said


def _top(panels: Sequence[Panel]) -> float:
    """Where the y axis ends, s: at the longest step, or above nearly all where few are far longer."""
    times = sorted(step.time for panel in panels for steps in panel.ranks.values() for step in steps.values())
    usual = times[int(0.95 * (len(times) - 1))]
    if times[-1] <= LONG * usual:
        return times[-1]
    # Below the breaks of what is cut there is room for what is not.
    return max(LONG / 2 * usual, 1.2 * max(time for time in times if time <= LONG * usual))


def _cut(panels: Sequence[Panel], single: bool) -> list[str]:
    """Steps that go on beyond the top."""
    found = []
    for panel in panels:
        top = _top(panels if single else [panel])
        for rank, steps in panel.ranks.items():
            found += [(step.time, rank, number) for number, step in steps.items() if step.time > top]
    if not found:
        return []
    shown = [
        f"step {n} of {clean(r)} ({units.number(t, 's')})" for t, r, n in sorted(found, reverse=True)[:4]
    ]
    more = f" and {len(found) - 4:,} more" if len(found) > 4 else ""
    return [f"Cut at the top: {', '.join(shown)}{more}."]


def _unseen(phases: dict[str, float]) -> list[str]:
    told = ", ".join(f"{name_of(name)} (at most {units.number(high, 's')})" for name, high in phases.items())
    return [f"Too short to be seen: {told}."] if told else []


def _longest(panel: Panel, places: range) -> list[float]:
    """The longest step in each place, s."""
    held = zip(*(_held(steps, places) for steps in panel.ranks.values()), strict=True)
    return _each([[s for own in some for s in own] for some in held], lambda some: max(s.time for s in some))


def _stack(axis: Axes, panel: Panel, places: range, unit: float) -> dict[str, float]:
    """The phases of one rank, one on the other; the phases there are, and the highest of each, s."""
    (steps,) = panel.ranks.values()
    held = _held(steps, places)
    found: dict[str, float] = {}
    floor = _each(held, lambda _: 0.0)
    for name in _phases_of(panel):
        heights = [_mean_of(name, some) for some in held]
        top = [low + height / unit for low, height in zip(floor, heights, strict=True)]
        _fill(axis, places, floor, top, **_looks(name))
        found[name] = max(height for height in heights if not math.isnan(height))
        floor = top
    means = [mean / unit for mean in _each(held, lambda some: _mean(step.time for step in some))]
    rest = {"color": style.PARTS["other"]} if found else {"color": style.colour(panel.role), "alpha": 0.4}
    # Phases can be a little longer than their step, by the error of clocks.
    top = [max(low, mean) for low, mean in zip(floor, means, strict=True)]
    _fill(axis, places, floor, top, **rest)
    if found:
        gaps = [high - low for low, high in zip(floor, top, strict=True)]
        found["other"] = unit * max(gap for gap in gaps if not math.isnan(gap))
    if places.step > 1:
        longest = _each(held, lambda some: max(step.time for step in some) / unit)
        _line(axis, places, longest, color=style.DIM, linewidth=0.6)
    return found


def _band(axis: Axes, panel: Panel, places: range, unit: float) -> None:
    """Of a role's ranks the median, the half in the middle, and all from the fastest to the slowest."""
    held = [[s for steps in some for s in steps] for some in zip(*_by_rank(panel, places), strict=True)]
    times = [sorted(step.time / unit for step in some) for some in held]
    quarters = [_quartiles(some) for some in times]
    colour = style.colour(panel.role)
    lows, highs = [_end(some, 0) for some in times], [_end(some, -1) for some in times]
    _fill(axis, places, lows, highs, color=colour, alpha=0.18)
    _fill(axis, places, [q[0] for q in quarters], [q[2] for q in quarters], color=colour, alpha=0.35)
    _line(axis, places, [q[1] for q in quarters], color=colour, linewidth=1.2)


def _looks(phase: str) -> dict[str, Any]:
    """What is communication and wait together has both colours."""
    looks: dict[str, Any] = {"facecolor": style.PARTS[phase]}
    if phase == "communicate":
        looks |= {"hatch": "////", "edgecolor": style.PARTS["wait"]}
    return looks


def _by_rank(panel: Panel, places: range) -> list[list[list[Step]]]:
    return [_held(steps, places) for steps in panel.ranks.values()]


def _held(steps: dict[int, Step], places: range) -> list[list[Step]]:
    """The steps that fall in each place."""
    held: list[list[Step]] = [[] for _ in places]
    for number, step in steps.items():
        held[(number - places.start) // places.step].append(step)
    return held


def _each(held: Sequence[list[Step]], of: Callable[[list[Step]], float]) -> list[float]:
    """A number for each place; where there are no steps none, which leaves a hole."""
    return [of(some) if some else math.nan for some in held]


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def _mean_of(phase: str, steps: Sequence[Step]) -> float:
    return _mean(step.phases.get(phase, 0.0) for step in steps) if steps else math.nan


def _end(values: Sequence[float], at: int) -> float:
    return values[at] if values else math.nan


def _fill(axis: Axes, places: range, low: Sequence[float], high: Sequence[float], **looks: Any) -> None:
    edges = [*places, places[-1] + places.step]
    axis.stairs(high, edges, baseline=low, fill=True, linewidth=0, **looks)


def _line(axis: Axes, places: range, heights: Sequence[float], **looks: Any) -> None:
    edges = [*places, places[-1] + places.step]
    axis.stairs(heights, edges, baseline=None, zorder=3, **looks)


def _phases_of(panel: Panel) -> list[str]:
    seen = {name for steps in panel.ranks.values() for step in steps.values() for name in step.phases}
    return [name for name in PHASES if name in seen]


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) < 2:
        return (_end(values, 0),) * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _dress(axis: Axes, across: tuple[int, int], unit: str, last: bool) -> None:
    first, end = across
    few = end - first <= FEW
    # A single step has its place in the middle.
    axis.set_xlim(first - (end - first == 1), end + (end - first == 1))
    axis.set_ylabel(f"Step time ({unit})", fontsize=style.LABEL)
    axis.set_axisbelow(True)
    axis.grid(True, axis="y", linewidth=0.5, color=style.GRID)
    axis.tick_params(labelsize=style.TICK, labelbottom=last)
    axis.spines[["top", "right"]].set_visible(False)
    # The number of a step stands under its middle where steps are wide, else where it begins.
    middles = FixedLocator([number + 0.5 for number in range(first, end)])
    axis.xaxis.set_major_locator(middles if few else MaxNLocator(8, integer=True, prune="upper"))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{math.floor(x)}"))
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
    named: list[Artist] = [Patch(label=name_of(name), linewidth=0, **_looks(name)) for name in phases]
    for role in dict.fromkeys(p.role for p in panels if not _phases_of(p)):
        told = f"{clean(role)}: step, phases not seen".replace("_", "-")
        named.append(Patch(facecolor=style.colour(role), alpha=0.4, label=told))
    if width > 1:
        named.append(Line2D([], [], color=style.DIM, linewidth=0.6, label="longest"))
    return named
