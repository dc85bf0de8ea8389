"""The pictures of answers, as plotly reads them: jobs side by side, an experiment, who sends to whom. No
I/O."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.comparison import Change, Comparison
from roofline.answers.report import PartReport
from roofline.answers.roofline import Roofline
from roofline.answers.trajectory import Path, Stop, Trajectory

from ..plots import style
from ..tables import units, wording
from ..tables.trajectories import node_or_gpu
from .plotly_parts import ABOVE, Figure, plain
from .roofline_figure import has_place, placed_roofs, plane, point_trace, roof_line

MOST_ENDS = 64  # ranks and peers of the matrix
SENT = "tcp_sent_bytes"
FLOW = [[0, "#F7FBFF"], [0.5, "#6BAED6"], [1, "#08306B"]]


def parts_compared(found: Comparison) -> Figure | None:
    """Where a step goes in both jobs, with the interval of the change at the second; None: unknown."""
    parts = [one for one in found.changes if one.kind == "part"]
    if not parts:
        return None
    names = [plain(wording.part(one.subject)) for one in parts]
    first = {
        "name": plain(f"job {found.first}"),
        "y": [1e3 * (one.first.value or 0.0) for one in parts],
        "marker": {"color": "#9DB7DD"},
    }
    second = {
        "name": plain(f"job {found.second}"),
        "y": [1e3 * (one.second.value or 0.0) for one in parts],
        "marker": {"color": "#42659A"},
        "error_y": {
            "type": "data",
            "color": "#808080",
            "symmetric": False,
            "array": [1e3 * _beyond(one.high, one) for one in parts],
            "arrayminus": [-1e3 * _beyond(one.low, one) for one in parts],
        },
    }
    hover = "%{x}, %{fullData.name}: %{y:.4g} ms a step<extra></extra>"
    data = [{"type": "bar", "x": names, "hovertemplate": hover, **job} for job in (first, second)]
    layout = {
        "height": 400,  # that of the roofline next to it
        "barmode": "group",
        "yaxis": {"title": {"text": "ms a step (95 % interval)"}, "rangemode": "tozero"},
        "legend": ABOVE,
    }
    return {"data": data, "layout": layout}


def _beyond(end: float | None, one: Change) -> float:
    """How far the end of the interval is from the change itself; 0 where there is none."""
    return 0.0 if end is None or one.change.value is None else end - one.change.value


@style.one_picture
def rooflines_compared(found: Sequence[Roofline], jobs: Sequence[str]) -> Figure:
    """The roles of several jobs under one set of roofs: circles, squares, ..., in the order of the jobs."""
    symbols = ("circle", "square", "diamond", "cross", "x", "triangle-up")
    data: list[Figure] = []
    for at, (one, job) in enumerate(zip(found, jobs, strict=True)):
        data += [] if at else placed_roofs(one)
        for point in one.points:
            if has_place(point):
                trace = point_trace(point)
                trace["name"] = f"{trace['name']}, job {plain(job)}"
                trace["marker"] = {**trace["marker"], "symbol": symbols[at % len(symbols)]}
                data.append(trace)
    return {"data": data, "layout": plane(data, 400)}


@style.one_picture
def trajectory(found: Trajectory) -> Figure:
    """A path a role, its stops in order of the parameter."""
    data: list[Figure] = []
    for path in found.paths:
        stops = [one for one in path.stops if has_place(one.point)]
        if stops:
            data.append(_path(found.over, path, stops))
    data += [roof_line(roof.host, line) for roof in found.roofs[:1] for line in roof.lines if line.binding]
    return {"data": data, "layout": plane(data, 400)}


def _path(over: str, path: Path, stops: Sequence[Stop]) -> Figure:
    speed = [f"{units.show(one.throughput)} {one.throughput.unit}, {', '.join(one.jobs)}" for one in stops]
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": plain(path.role),
        "x": [one.point.intensity.value for one in stops],
        "y": [one.point.flops_per_second.value for one in stops],
        "text": [plain(one.at) for one in stops],
        "textposition": "top center",
        "customdata": [plain(words) for words in speed],
        "hovertemplate": "%{fullData.name} at %{text}: %{y:.3s}FLOP/s a "
        + node_or_gpu(one.point for one in stops)
        + "<br>%{customdata}<extra>"
        + plain(over).replace("%{", "% {")
        + "</extra>",
        "line": {"color": style.colour(path.role)},
        "marker": {"color": style.colour(path.role), "size": 9},
    }


def traffic(parts: Sequence[PartReport]) -> Figure | None:
    """Who sends how much to whom, byte/s over the job; None where that was not counted."""
    rates = {
        (one.rank, one.instance): one.values[f"{SENT}.per_second"].value
        for one in parts
        if one.rank and one.instance and f"{SENT}.per_second" in one.values
    }
    known = {ends: rate for ends, rate in rates.items() if rate}
    if not known:
        return None
    senders = list(dict.fromkeys(sender for sender, _ in known))[:MOST_ENDS]
    takers = list(dict.fromkeys(taker for _, taker in sorted(known, key=lambda ends: ends[1])))[:MOST_ENDS]
    data = {
        "type": "heatmap",
        "x": [plain(name) for name in takers],
        "y": [plain(name) for name in senders],
        "z": [[known.get((sender, taker)) for taker in takers] for sender in senders],
        "colorscale": FLOW,
        "zmin": 0,  # else two that are all but the same look as far apart as can be
        "colorbar": {"title": {"text": "byte/s"}, "thickness": 10, "exponentformat": "SI"},
        "hovertemplate": "%{y} sends %{z:.3s}B/s to %{x}<br>measured, mean over the job<extra></extra>",
    }
    layout = {
        "height": 110 + max(120, 22 * len(senders)),
        "xaxis": {"title": {"text": "to"}, "type": "category"},
        "yaxis": {"title": {"text": "from"}, "autorange": "reversed", "type": "category"},
    }
    return {"data": [data], "layout": layout}
