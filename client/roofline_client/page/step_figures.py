"""The pictures of steps, as plotly reads them: how long they took, and which ranks were late. No I/O.

The server sends few numbers, however large the job is: by stretches of steps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from roofline.answers.step_overview import LatenessRow, StepLine, StepOverview

from ..plots import style
from ..tables import units
from ..tables.columns import Column, Columns
from .plotly_parts import ABOVE, Figure, instead, plain

LATE_COLOURS = [[0, "#5E3C99"], [0.5, "#F7F7F7"], [1, "#E66101"]]
BAND = 0.18  # opacity of what lies between the shortest and the longest step
USUAL, LEAST_MS = 0.98, 0.1  # of the colours of lateness
DASHES = ("solid", "dash", "dot", "dashdot")  # of ranks of one role
GREY = "rgba(128, 128, 128, 0.25)"
SHOWN = 20  # rows of a table
STEPS_FORMULA = "end of the step - its begin, by the rank's own clock"
LATE_FORMULA = "step - communicate, less the median rank's of the same step"


@style.one_picture
def step_times(found: StepOverview) -> Figure:
    """Of few ranks a line each; of many, by role, the median rank between the shortest and the longest step.
    Steps that are not steady are on grey."""
    seen: Counter[str] = Counter()
    data: list[Figure] = []
    for line in found.lines:
        if line.ranks > 1:
            data += _band(line, found)
        else:
            dash = DASHES[seen[line.role] % len(DASHES)]
            data.append(_line(line.name, line.role, *_spikes(line, found), dash=dash))
        seen[line.role] += 1
    layout = {
        "height": 280,
        "xaxis": {"title": {"text": "step"}},
        "yaxis": {"title": {"text": "step time (ms)"}, "rangemode": "tozero", "fixedrange": True},
        "legend": ABOVE,
        "shapes": list(_left_out(found)),
        "dragmode": "zoom",
    }
    if not data:
        layout["annotations"] = [instead(next(iter(found.notes), "no steps are known yet"))]
    return {"data": data, "layout": layout}


def _spikes(line: StepLine, found: StepOverview) -> tuple[list[int], list[float | None]]:
    """Where a stretch has several steps its shortest and its longest: no spike is lost."""
    x: list[int] = []
    y: list[float | None] = []
    for first, last, low, high in zip(found.firsts, found.lasts, line.shortest, line.longest, strict=True):
        x += [first] if first == last else [first, last]
        y += [_ms(high)] if first == last else [_ms(low), _ms(high)]
    return x, y


def _band(line: StepLine, found: StepOverview) -> Iterator[Figure]:
    fill = {"fill": "tonexty", "fillcolor": _faint(style.colour(line.role))}
    for name, seconds, more in (
        ("longest", line.longest, {}),
        ("shortest", line.shortest, fill),
        ("median rank", line.middle, {}),
    ):
        made = _line(f"{line.name}, {name}", line.role, found.firsts, [_ms(one) for one in seconds])
        if name != "median rank":
            made["line"]["width"] = 0.4
            made["showlegend"] = False
        yield {**made, **more}


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {BAND})"


def _line(name: str, role: str, x: Sequence[int], y: Sequence[float | None], dash: str = "solid") -> Figure:
    hover = "%{fullData.name}, step %{x}: %{y:.4g} ms<br>measured, of every step<br>" + STEPS_FORMULA
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": list(x),
        "y": list(y),
        "line": {"color": style.colour(role), "width": 1.4, "dash": dash},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def _left_out(found: StepOverview) -> Iterator[Figure]:
    """Grey behind neighbouring stretches that are left out."""
    begin: int | None = None
    ends = [*zip(found.firsts, found.lasts, found.left_out, strict=True), (0, 0, False)]
    before = 0
    for first, last, left in ends:
        if left and begin is None:
            begin = first
        elif not left and begin is not None:
            place = {"xref": "x", "yref": "paper", "x0": begin - 0.5, "x1": before + 0.5, "y0": 0, "y1": 1}
            yield {"type": "rect", **place, "fillcolor": GREY, "line": {"width": 0}, "layer": "below"}
            begin = None
        before = last


def lateness(found: StepOverview) -> Figure:
    """Rank by step: by how much longer than the median rank each one worked before it waited for the others.
    A late rank is a stripe, a late moment a column, a length that varies scatter."""
    known = sorted(abs(1e3 * one) for row in found.lateness for one in row.late if math.isfinite(one))
    most_ms = known[int(USUAL * (len(known) - 1))] if known else 0.0  # what is later has the last colour, too
    data = {
        "type": "heatmap",
        "x": found.firsts,
        "y": [plain(row.name) for row in found.lateness],
        "z": [[_ms(one) for one in row.late] for row in found.lateness],
        "customdata": [[row.first_rank, row.last_rank] for row in found.lateness],
        "colorscale": LATE_COLOURS,
        "zmin": -max(most_ms, LEAST_MS),
        "zmax": max(most_ms, LEAST_MS),
        "colorbar": {"title": {"text": "ms late"}, "thickness": 10},
        "hovertemplate": "%{y}, step %{x}: %{z:.3g} ms later than the median rank<br>measured, "
        f"{_at_most(found)}<br>{LATE_FORMULA}<extra></extra>",
    }
    layout = {
        "height": 90 + min(700, max(120, 14 * len(found.lateness))),
        "xaxis": {"title": {"text": "step"}},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
    }
    return {"data": [data], "layout": layout}


def _at_most(found: StepOverview) -> str:
    each = max((last - first + 1 for first, last in zip(found.firsts, found.lasts, strict=True)), default=1)
    ranks = max((row.last_rank - row.first_rank + 1 for row in found.lateness), default=1)
    of = [f"{each:,} steps"] * (each > 1) + [f"{ranks} ranks"] * (ranks > 1)
    return f"the furthest of {' and '.join(of)}" if of else "of this step"


def steps_table(found: StepOverview) -> Columns:
    """The extremes of each line of the steps, as text."""
    heads = [Column("step time"), *(Column(name, right=True) for name in ("shortest", "usual", "longest"))]
    table = Columns("", heads)
    for line in found.lines[:SHOWN]:
        middle = sorted(one for one in line.middle if math.isfinite(one))
        table.add(
            line.name,
            _seconds(min(filter(math.isfinite, line.shortest), default=None)),
            _seconds(middle[len(middle) // 2] if middle else None),
            _seconds(max(filter(math.isfinite, line.longest), default=None)),
        )
    return table


def lateness_table(found: StepOverview) -> Columns:
    """The latest ranks or groups first."""
    heads = [
        Column("rank"),
        Column("later than the median rank, mean", right=True),
        Column("latest of these"),
    ]
    table = Columns("", heads)
    order = sorted(found.lateness, key=_mean, reverse=True)
    for row in order[:SHOWN]:
        several = row.latest if row.first_rank != row.last_rank else ""
        table.add(row.name, _seconds(row.mean if math.isfinite(row.mean) else None), several)
    if len(order) > SHOWN:
        table.add(f"and {len(order) - SHOWN} more", "", "")
    return table


def _mean(row: LatenessRow) -> float:
    return row.mean if math.isfinite(row.mean) else -math.inf


def _seconds(number: float | None) -> str:
    return "-" if number is None else units.number(number, "s")


def _ms(seconds: float) -> float | None:
    """To six digits: steps may take microseconds. None: absent, which JSON can hold."""
    return float(f"{1e3 * seconds:.6g}") if math.isfinite(seconds) else None


def numbers(found: StepOverview) -> dict[str, Any]:
    """The overview with absent numbers as None, for JSON."""

    def known(thing: Any) -> Any:
        if hasattr(thing, "_asdict"):
            return {name: known(value) for name, value in thing._asdict().items()}
        if isinstance(thing, list):
            return [known(one) for one in thing]
        return None if isinstance(thing, float) and not math.isfinite(thing) else thing

    whole: dict[str, Any] = known(found)
    return whole
