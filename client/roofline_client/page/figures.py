"""The pictures of the page, as plotly reads them: data and layout, numbers and words. No I/O.

Colours of roles and parts are those of `roofline-client plot`. A picture has at most MOST_POINTS in a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from roofline.answers.roofline import Roof, Roofline, RoofPoint
from roofline.answers.values import Value
from roofline.answers.verdict import RankAccount

from ..plots import style
from ..tables import units, wording

MOST_POINTS = 2000
MOST_RANKS = 64  # bars; beyond these the worst are shown
TRAIL_S = (10.0, 60.0, 600.0)  # where a role was so long ago
MOST_LINES = 12  # ranks with a line of their own
LATE_COLOURS = [[0, "#5E3C99"], [0.5, "#F7F7F7"], [1, "#E66101"]]
FAINT = 0.45
USUAL, LEAST_MS = 0.98, 0.1  # of the colours of lateness
DASHES = ("solid", "dash", "dot", "dashdot")  # of ranks of one role
ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
Figure = dict[str, Any]
Ints = NDArray[np.int64]


class RankSteps(NamedTuple):
    """Steps of a rank. own: of their time what it did not wait for others; ns."""

    number: Ints
    duration: Ints
    own: Ints


def plain(text: str) -> str:
    """plotly takes some HTML in texts: names from a training are none."""
    return escape(text, quote=False)


def _literal(text: str) -> str:
    """In a template of plotly's, where %{...} stands for values."""
    return plain(text).replace("%{", "% {")


def accounts(found: Sequence[RankAccount]) -> Figure:
    """A bar a rank, worst first: where its steady steps go."""
    shown = [one for one in found if one.parts][:MOST_RANKS]
    longest = max((one.step.value or 0.0 for one in shown), default=0.0)
    scale, unit = (1e3, "ms") if longest < 1 else (1.0, "s")
    names = [plain(one.rank) for one in shown]
    data = []
    for part in dict.fromkeys(part.part for one in shown for part in one.parts):
        parts = [next((p for p in one.parts if p.part == part), None) for one in shown]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": wording.part(part),
                "y": names,
                "x": [scale * (one.time.value or 0.0) if one else 0.0 for one in parts],
                "customdata": [_hover(one.time, one.share) if one else "" for one in parts],
                "hovertemplate": "%{y}, %{fullData.name}: %{customdata}<extra></extra>",
                "marker": {"color": style.account_colour(part)},
            }
        )
    layout = {
        "barmode": "stack",
        "height": 130 + 26 * max(1, len(shown)),
        "xaxis": {"title": {"text": f"mean of a steady step ({unit})"}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "legend": {**ABOVE, "traceorder": "normal"},
    }
    return {"data": data, "layout": layout}


def _hover(time: Value, share: Value) -> str:
    parts = [f"{units.show(time)} a step", units.percent(share.value), str(time.provenance), time.reason]
    return plain(", ".join(part for part in parts if part))


def step_times(lines: Mapping[str, RankSteps], roles: Mapping[str, str]) -> Figure:
    """How long each step took: a line a rank; of many ranks by role the median rank, and the shortest and the
    longest step."""
    if len(lines) > MOST_LINES:
        lines, data = {}, [line for role, group in _by_role(lines, roles) for line in _band(role, group)]
    else:
        seen: Counter[str] = Counter()
        data = []
        for rank in sorted(lines):
            role = roles.get(rank, "")
            dash = DASHES[seen[role] % len(DASHES)]
            data.append(_line(rank, style.colour(role), *lines[rank][:2], dash))
            seen[role] += 1
    layout = {
        "height": 260,
        "xaxis": {"title": {"text": "step"}},
        "yaxis": {"title": {"text": "step time (ms)"}, "rangemode": "tozero"},
        "legend": ABOVE,
    }
    return {"data": data, "layout": layout}


def _line(
    name: str, colour: str, numbers: Ints, duration: Ints, dash: str = "solid", opacity: float = 1.0
) -> Figure:
    number, shown = decimated(numbers, duration)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(name),
        "x": number.tolist(),
        "y": (shown / 1e6).round(3).tolist(),
        "line": {"color": colour, "width": 1.2, "dash": dash},
        "hovertemplate": "%{fullData.name}, step %{x}: %{y:.3g} ms<extra></extra>",
        "opacity": opacity,
    }


def _by_role(lines: Mapping[str, RankSteps], roles: Mapping[str, str]) -> list[tuple[str, list[RankSteps]]]:
    groups: dict[str, list[RankSteps]] = {}
    for rank, line in lines.items():
        groups.setdefault(roles.get(rank, ""), []).append(line)
    return sorted(groups.items())


def _band(role: str, group: Sequence[RankSteps]) -> Iterator[Figure]:
    numbers = np.concatenate([line.number for line in group])
    durations = np.concatenate([line.duration for line in group])
    order = np.lexsort((durations, numbers))
    step, first, count = np.unique(numbers[order], return_index=True, return_counts=True)
    sorted_durations, colour = durations[order], style.colour(role)
    yield _line(f"{role}, longest", colour, step, sorted_durations[first + count - 1], opacity=FAINT)
    yield _line(f"{role}, median rank", colour, step, sorted_durations[first + count // 2])
    yield _line(f"{role}, shortest", colour, step, sorted_durations[first], opacity=FAINT)


def decimated(x: Ints, y: Ints, most: int = MOST_POINTS) -> tuple[Ints, Ints]:
    """At most so many points, of each stretch the lowest and the highest: no spike is lost."""
    if len(x) <= most:
        return x, y
    edges = np.linspace(0, len(y), most // 2 + 1).astype(int)
    kept = np.unique(
        [
            at
            for begin, end in pairwise(edges)
            for at in (begin + np.argmin(y[begin:end]), begin + np.argmax(y[begin:end]))
        ]
    )
    return x[kept], y[kept]


def roofline(found: Roofline, trails: Mapping[str, Sequence[tuple[float, float, float]]]) -> Figure:
    """Roles under the roofs of their nodes. trails: of each point's label, oldest first, how long ago (s),
    and intensity and FLOP/s then."""
    points = [point for point in found.points if _has_place(point)]
    data: list[Any] = []
    for roof in _of_points(found.roofs, points):
        data += [_roof_line(roof.host, line) for line in roof.lines if line.binding]
    for point in points:
        trail = trails.get(point.label, ())
        if trail:
            data.append(_trail(point, trail))
        data.append(_point(point))
    log = {"type": "log", "exponentformat": "SI", "dtick": 1}
    layout: Figure = {
        "height": 380,
        "xaxis": {**log, "title": {"text": "arithmetic intensity (FLOP/byte)"}},
        "yaxis": {**log, "title": {"text": "FLOP/s"}},
        "legend": ABOVE,
    }
    if not points:
        layout["annotations"] = [_instead(next(iter(found.notes), "no FLOPs and bytes are known yet"))]
    return {"data": data, "layout": layout}


def _instead(words: str) -> Figure:
    """What stands where nothing can be drawn."""
    middle = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    return {**middle, "text": "<br>".join(wrap(escape(words), 60)), "showarrow": False}


def _has_place(point: RoofPoint) -> bool:
    return bool(point.intensity.value and point.flops_per_second.value)


def _of_points(roofs: Iterable[Roof], points: Sequence[RoofPoint]) -> list[Roof]:
    """The roofs that something is under, one of each shape."""
    used = {(point.host, point.device) for point in points}
    shapes = {
        tuple((line.name, *line.flops) for line in roof.lines if line.binding): roof
        for roof in roofs
        if not points or (roof.host, roof.device) in used or not any(host for host, _ in used)
    }
    return list(shapes.values())


def _roof_line(host: str, line: Any) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(line.label),
        "x": line.intensity,
        "y": line.flops,
        "line": {"color": style.FAINT, "width": 1.5},
        "hovertemplate": "%{fullData.name} of " + _literal(host) + f" ({line.provenance})<extra></extra>",
        "showlegend": False,
    }


def _point(point: RoofPoint) -> Figure:
    intensity, flops = point.intensity, point.flops_per_second
    words = [
        f"{units.show(flops)} ({flops.provenance}), {units.show(intensity)} ({intensity.provenance})",
        point.words,
        point.incomplete,
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(point.label),
        "x": [intensity.value],
        "y": [flops.value],
        "marker": {"color": style.colour(point.role), "size": 12, "line": {"color": "white", "width": 1}},
        "customdata": ["<br>".join(plain(word) for word in words if word)],
        "hovertemplate": "<b>%{fullData.name}</b><br>%{customdata}<extra></extra>",
    }


def _trail(point: RoofPoint, trail: Sequence[tuple[float, float, float]]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"{plain(point.label)}, before",
        "x": [intensity for _, intensity, _ in trail] + [point.intensity.value],
        "y": [flops for _, _, flops in trail] + [point.flops_per_second.value],
        "customdata": [f"{units.number(ago, 's')} ago" for ago, _, _ in trail] + ["now"],
        "hovertemplate": "%{fullData.name}: %{customdata}<extra></extra>",
        "line": {"color": style.colour(point.role), "width": 1},
        "marker": {"color": style.colour(point.role), "size": 5, "opacity": 0.5},
        "opacity": 0.6,
        "showlegend": False,
    }


def lateness(lines: Mapping[str, RankSteps], most: int = MOST_POINTS // 4) -> Figure:
    """Rank by step: by how much longer than the median rank each one worked before it waited for the others.
    A late rank is a stripe, a late moment a column, a length that varies scatter."""
    ranks = sorted(lines)
    numbers = np.unique(np.concatenate([lines[rank].number for rank in ranks])) if ranks else np.zeros(0, int)
    table = np.full((len(ranks), len(numbers)), np.nan)
    for row, rank in enumerate(ranks):
        table[row, np.searchsorted(numbers, lines[rank].number)] = lines[rank].own / 1e6
    if len(numbers):
        table -= np.nanmedian(table, axis=0)
    shown, firsts = _pooled(table, most)
    late = np.abs(shown[np.isfinite(shown)])
    most_ms = float(np.quantile(late, USUAL)) if len(late) else 0.0  # what is later has the last colour, too
    data = {
        "type": "heatmap",
        "x": numbers[firsts].tolist(),
        "y": [plain(rank) for rank in ranks],
        "z": [[None if np.isnan(cell) else round(float(cell), 3) for cell in row] for row in shown],
        "colorscale": LATE_COLOURS,
        "zmin": -max(most_ms, LEAST_MS),
        "zmax": max(most_ms, LEAST_MS),
        "colorbar": {"title": {"text": "ms late"}, "thickness": 10},
        "hovertemplate": "%{y}, step %{x}: %{z:.3g} ms later than the median rank<extra></extra>",
    }
    layout = {
        "height": 90 + min(600, max(120, 14 * len(ranks))),
        "xaxis": {"title": {"text": "step"}},
        "yaxis": {"autorange": "reversed", "automargin": True},
    }
    return {"data": [data], "layout": layout}


def _pooled(table: NDArray[np.float64], most: int) -> tuple[NDArray[np.float64], Ints]:
    """At most so many columns, of each stretch what is furthest from zero; and where each begins."""
    columns = table.shape[1]
    if columns <= most:
        return table, np.arange(columns)
    firsts = np.linspace(0, columns, most + 1).astype(int)[:-1]
    highest = np.fmax.reduceat(table, firsts, axis=1)
    lowest = np.fmin.reduceat(table, firsts, axis=1)
    return np.where(np.abs(lowest) > np.abs(highest), lowest, highest), firsts
