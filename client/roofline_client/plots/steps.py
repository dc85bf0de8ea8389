"""The time of every step: a row for each rank with its phases, or for each role with the spread of its ranks.

A step that was not recorded leaves its place empty. Of thousands of steps several share a place, and the
caption says how many.
"""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator
from roofline.texts import many

from ..tables import units
from ..tables.names import clean
from . import Steps, bar_breaks, caption, layout, style
from .scales import unit_for
from .step_panels import PHASES, Step, StepPanel, name_of, panels_of

MOST_PLACES = 240  # steps drawn side by side
LONG = 3.0  # steps this many times longer than nearly all others are cut, so that the others stay readable
FEW = 8  # steps
UNSEEN = 1 / 160  # of the height, half a point: not visible
OTHER: dict[str, Any] = {"facecolor": style.PARTS["other"]}
Looks = Mapping[str, dict[str, Any]]  # by phase
WIDTH, HEIGHT, BAND = 6.3, 1.15, 1.9  # inches


def figure(record: Steps) -> Figure:
    """A row for each rank, or of many ranks for each role. Raises ClientError when there is no step."""
    panels, notes = panels_of(record)
    height = HEIGHT if _is_single(panels) else BAND
    boxes = [
        layout.Box(layout.LEFT, layout.TOP + 0.18 + k * (height + 0.28), WIDTH, height)
        for k in range(len(panels))
    ]
    with layout.settings():
        made, axes = layout.blank(boxes)
        handles, remarks = _draw(axes, panels)
        job = caption.title("Steps", record.about) if record.about else f"Steps of job {clean(record.job)}"
        command = f"roofline-client steps --job {shlex.quote(clean(record.job))}"
        under = caption.of(record.about, remarks, notes, command=command)
        layout.finish(made, axes, boxes, job, handles, under)
    return made


def draw_on(axes: Axes | Sequence[Axes], record: Steps) -> None:
    """Draw on these axes, one for each rank or role. Errors as of `figure`."""
    panels, _ = panels_of(record)
    given = layout.axes_list(axes, len(panels), "each rank or role")
    with layout.settings():
        handles, _ = _draw(given, panels)
        layout.legend_over(given[0], handles, panels[0].name, style.colour(panels[0].role))


def _is_single(panels: Sequence[StepPanel]) -> bool:
    return all(len(panel.ranks) == 1 for panel in panels)


# -- drawing ------------------------------------------------------------------------------------------


def _draw(axes: Sequence[Axes], panels: Sequence[StepPanel]) -> tuple[list[Artist], list[str]]:
    style.reserve(panel.role for panel in panels)
    numbers = sorted({number for panel in panels for steps in panel.ranks.values() for number in steps})
    first, last = numbers[0], numbers[-1]
    # A training numbers its steps as it likes: 0, 10, 20, ... lack none.
    apart = math.gcd(*(after - before for before, after in pairwise(numbers))) or 1
    every = range(first, last + 1, apart)
    shared = math.ceil(len(every) / MOST_PLACES)
    places = every[::shared]
    single = _is_single(panels)
    whole = _top(panels)
    looks = {name: _phase_look(name, at) for at, name in enumerate(_phases_of(panels))}
    phases: dict[str, float] = {}
    for at, (axis, panel) in enumerate(zip(axes, panels, strict=True)):
        # Ranks share a scale so that they can be compared; each role has its own.
        longest = whole if single else _top([panel])
        unit, name = unit_for("s", longest)
        if single:
            for phase, high in _draw_phases(axis, panel, places, unit, looks).items():
                phases[phase] = max(high, phases.get(phase, 0.0))
        else:
            _draw_band(axis, panel, places, unit)
        all_steps = _steps_of_all_ranks(panel, places)
        bar_breaks.draw(axis, places, _each(all_steps, lambda some: max(s.time for s in some)), longest, unit)
        _set_axes(axis, every, name, at == len(panels) - 1)
        layout.name_panel(axis, panel.name, colour=style.colour(panel.role))
        axis.set_ylim(0, longest / unit * 1.05)

    visible = [name for name in (*looks, "other") if phases.get(name, 0.0) >= UNSEEN * whole]
    short = {name: high for name, high in phases.items() if name not in visible and name != "other"}
    remarks = []
    if shared > 1:
        shown = "the mean of its steps, the line the longest" if single else "all its steps"
        remarks.append(f"A place holds {shared} steps: shown is {shown}.")
    remarks += _cut_steps(panels, single)
    if short:
        names = ", ".join(f"{name_of(n)} (at most {units.number(high, 's')})" for n, high in short.items())
        remarks.append(f"Too short to be seen: {names}.")
    remarks += _missing_steps(panels, len(every))
    return _handles(panels, {name: looks.get(name, OTHER) for name in visible}, shared), remarks


def _top(panels: Sequence[StepPanel]) -> float:
    """The end of the y axis, s: the longest step, or above nearly all steps if few are far longer."""
    times = sorted(step.time for panel in panels for steps in panel.ranks.values() for step in steps.values())
    usual = times[int(0.95 * (len(times) - 1))]
    if times[-1] <= LONG * usual:
        return times[-1]
    # Steps that are not cut stay below the breaks of those that are.
    return max(LONG / 2 * usual, 1.2 * max(time for time in times if time <= LONG * usual))


def _cut_steps(panels: Sequence[StepPanel], single: bool) -> list[str]:
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


def _draw_phases(axis: Axes, panel: StepPanel, places: range, unit: float, looks: Looks) -> dict[str, float]:
    """Stack the phases of one rank. Returns the longest mean of each phase, s."""
    by_place = _steps_of_all_ranks(panel, places)
    found: dict[str, float] = {}
    floor = _each(by_place, lambda _: 0.0)
    for name in _phases_of([panel]):
        means = [_mean_phase(name, some) for some in by_place]
        top = [low + mean / unit for low, mean in zip(floor, means, strict=True)]
        _fill(axis, places, floor, top, **looks[name])
        found[name] = max(mean for mean in means if not math.isnan(mean))
        floor = top

    means = _each(by_place, lambda some: statistics.fmean(step.time for step in some))
    rest = {"color": style.PARTS["other"]} if found else {"color": style.colour(panel.role), "alpha": 0.4}
    # Phases can be a little longer than their step, by the error of clocks.
    top = [max(low, mean / unit) for low, mean in zip(floor, means, strict=True)]
    _fill(axis, places, floor, top, **rest)
    if found:
        gaps = [high - low for low, high in zip(floor, top, strict=True)]
        found["other"] = unit * max(gap for gap in gaps if not math.isnan(gap))
    if any(len(some) > 1 for some in by_place):
        longest = _each(by_place, lambda some: max(step.time for step in some) / unit)
        _line(axis, places, longest, color=style.DIM, linewidth=0.6)
    return found


def _draw_band(axis: Axes, panel: StepPanel, places: range, unit: float) -> None:
    """Median, quartiles and range of a role's ranks."""
    lows, firsts, medians, thirds, highs = [], [], [], [], []
    for some in _steps_of_all_ranks(panel, places):
        times = [step.time / unit for step in some] or [math.nan]
        first = median = third = times[0]
        if len(times) > 1:
            first, median, third = statistics.quantiles(times, n=4, method="inclusive")
        lows.append(min(times))
        firsts.append(first)
        medians.append(median)
        thirds.append(third)
        highs.append(max(times))
    colour = style.colour(panel.role)
    _fill(axis, places, lows, highs, color=colour, alpha=0.18)
    _fill(axis, places, firsts, thirds, color=colour, alpha=0.35)
    _line(axis, places, medians, color=colour, linewidth=1.2)


def _phase_look(phase: str, at: int) -> dict[str, Any]:
    """Communication and waiting are one phase here, so it has the colours of both."""
    look: dict[str, Any] = {"facecolor": style.part_colour(phase, at)}
    if phase == "communicate":
        look |= {"hatch": "////", "edgecolor": style.PARTS["wait"]}
    return look


def _steps_of_all_ranks(panel: StepPanel, places: range) -> list[list[Step]]:
    """The steps that share each place."""
    by_place: list[list[Step]] = [[] for _ in places]
    for steps in panel.ranks.values():
        for number, step in steps.items():
            by_place[(number - places.start) // places.step].append(step)
    return by_place


def _each(by_place: Sequence[list[Step]], value: Callable[[list[Step]], float]) -> list[float]:
    """A value for each place; NaN, which leaves a hole, where there are no steps."""
    return [value(some) if some else math.nan for some in by_place]


def _mean_phase(phase: str, steps: Sequence[Step]) -> float:
    return statistics.fmean(step.phases.get(phase, 0.0) for step in steps) if steps else math.nan


def _fill(axis: Axes, places: range, low: Sequence[float], high: Sequence[float], **looks: Any) -> None:
    edges = [*places, places[-1] + places.step]
    axis.stairs(high, edges, baseline=low, fill=True, linewidth=0, **looks)


def _line(axis: Axes, places: range, heights: Sequence[float], **looks: Any) -> None:
    edges = [*places, places[-1] + places.step]
    axis.stairs(heights, edges, baseline=None, zorder=3, **looks)


def _phases_of(panels: Sequence[StepPanel]) -> list[str]:
    """In the order of a step; then those of the training's own."""
    ranks = (steps for panel in panels for steps in panel.ranks.values())
    seen = {name for steps in ranks for step in steps.values() for name in step.phases}
    return [name for name in PHASES if name in seen] + sorted(seen - set(PHASES))


def _set_axes(axis: Axes, every: range, unit: str, last: bool) -> None:
    few, single = len(every) <= FEW, len(every) == 1
    # A single step is in the middle.
    axis.set_xlim(every[0] - single, every[-1] + every.step + single)
    axis.set_ylabel(f"Step time ({unit})", fontsize=style.LABEL)
    axis.set_axisbelow(True)
    axis.grid(True, axis="y", linewidth=0.5, color=style.GRID)
    axis.tick_params(labelsize=style.TICK, labelbottom=last)
    axis.spines[["top", "right"]].set_visible(False)
    # The number is below the middle of a step if steps are wide, else below its begin.
    middles = FixedLocator([number + every.step / 2 for number in every])
    axis.xaxis.set_major_locator(middles if few else MaxNLocator(8, integer=True, prune="upper"))
    before = (every.step - 1) / 2 if few else 0.0
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{math.floor(x - before)}"))
    axis.yaxis.set_major_locator(MaxNLocator(4))
    if last:
        axis.set_xlabel("Step", fontsize=style.LABEL)


def _missing_steps(panels: Sequence[StepPanel], total: int) -> list[str]:
    """total: the steps from the first to the last of any rank."""
    missing = []
    for panel in panels:
        for rank, steps in panel.ranks.items():
            if len(steps) < total:
                missing.append(f"{clean(rank)} lacks {total - len(steps):,} of {total:,} steps")
    others = len(missing) - 3
    more = f"; {many(others, 'more rank')} lack{'s' if others == 1 else ''} some" if others > 0 else ""
    return [f"Empty places: {'; '.join(missing[:3])}{more}."] if missing else []


def _handles(panels: Sequence[StepPanel], phases: Looks, shared: int) -> list[Artist]:
    if not _is_single(panels):
        handles: list[Artist] = []
        for panel in panels:
            colour = style.colour(panel.role)
            count = len(panel.ranks)
            what = f"median of {count} ranks" if count > 1 else "step"
            label = f"{clean(panel.role)}: {what}".replace("_", "-")
            handles.append(Line2D([], [], color=colour, linewidth=1.2, label=label))
        grey = Patch(facecolor=style.DIM, alpha=0.4, label="25 to 75 %")
        return [*handles, grey, Patch(facecolor=style.DIM, alpha=0.18, label="all")]
    named: list[Artist] = [Patch(label=name_of(name), linewidth=0, **look) for name, look in phases.items()]
    for role in dict.fromkeys(p.role for p in panels if not _phases_of([p])):
        label = f"{clean(role)}: step, phases not seen".replace("_", "-")
        named.append(Patch(facecolor=style.colour(role), alpha=0.4, label=label))
    if shared > 1:
        named.append(Line2D([], [], color=style.DIM, linewidth=0.6, label="longest"))
    return named
