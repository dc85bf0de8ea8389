"""The account of the page: where the steady steps of each rank go, as a picture and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.values import Value
from roofline.answers.verdict import RankAccount

from ..plots import style
from ..tables import units, wording
from ..tables.columns import Column, Columns
from .plotly_parts import ABOVE, MOST_RANKS, Figure, add_left_out, origin, plain

FORMULA = "time of the part / steps; the parts of a rank add up to its step"


def accounts(found: Sequence[RankAccount]) -> Figure:
    """A bar a rank, worst first: where its steady steps go."""
    known = [one for one in found if one.parts]
    shown = known[:MOST_RANKS]
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
                "name": plain(wording.part(part)),
                "y": names,
                "x": [scale * (one.time.value or 0.0) if one else 0.0 for one in parts],
                "customdata": [_hover(one.time, one.share) if one else "" for one in parts],
                "hovertemplate": "%{y}, %{fullData.name}: %{customdata}<extra></extra>",
                "marker": {"color": style.account_colour(part)},
            }
        )
    title = f"mean of a steady step ({unit})"
    if len(known) > len(shown):
        title += f"; the worst {len(shown)} of {len(known):,} ranks"
    layout = {
        "barmode": "stack",
        "height": max(380, 130 + 26 * len(shown)),  # that of the roofline next to it
        "bargap": 0.2 if len(shown) > 5 else 0.5,
        "xaxis": {"title": {"text": title}, "rangemode": "tozero"},
        "yaxis": {"autorange": "reversed", "automargin": True},
        "legend": {**ABOVE, "traceorder": "normal"},
    }
    return {"data": data, "layout": layout}


def _hover(time: Value, share: Value) -> str:
    parts = [f"{units.show(time)} a step", units.percent(share.value), origin(time), time.reason]
    return f"{plain(', '.join(part for part in parts if part))}<br>{FORMULA}"


def accounts_table(found: Sequence[RankAccount]) -> Columns:
    """A row a rank: the parts of its steady step."""
    known = [one for one in found if one.parts]
    shown = known[:MOST_RANKS]
    parts = list(dict.fromkeys(part.part for one in shown for part in one.parts))
    heads = [Column("rank"), Column("step", right=True)]
    table = Columns("", [*heads, *(Column(wording.part(part), right=True) for part in parts)])
    for one in shown:
        times = {part.part: part.time for part in one.parts}
        table.add(one.rank, units.show(one.step), *(units.show(times.get(part)) for part in parts))
    add_left_out(table, len(known))
    return table
