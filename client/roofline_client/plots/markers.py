"""Points of a roofline: markers by role, hollow for incomplete counts, bars of spread, legend entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Spread, Value

from ..tables.names import clean
from . import style
from .scales import is_drawable

MANY = 40  # of more points each is drawn small
KINDS = {"rank": "ranks", "step": "steps", "kernel": "kernels", "phase": "phases", "layer": "layers"}


def place(point: RoofPoint) -> tuple[float, float]:
    """(FLOP/byte, FLOP/s); of a point that can be drawn."""
    return point.intensity.value or 0.0, point.flops_per_second.value or 0.0


def can_be_drawn(point: RoofPoint) -> bool:
    return is_drawable(point.intensity.value, point.flops_per_second.value)


def extent(point: RoofPoint) -> list[tuple[float, float]]:
    """The point and the ends of its bars."""
    x, y = place(point)
    across = [(v, y) for v in _bar_ends(point.intensity_spread)]
    return [(x, y), *across, *((x, v) for v in _bar_ends(point.flops_spread))]


def _bar_ends(spread: Spread | None) -> list[float]:
    return [] if spread is None else [v for v in (spread.p5, spread.p95) if is_drawable(v)]


def marker_size(point: RoofPoint, count: int, size: float = 1.0) -> float:
    """In points. count: of all points; size: of the marker if they are few, in usual marker sizes."""
    if count > MANY and point.kind == "step":
        return 3.0
    return style.MARKER * (0.75 if count > MANY else size)


def draw_points(
    axis: Axes, points: Sequence[RoofPoint], marker: Callable[[RoofPoint], str], size: float = 1.0
) -> None:
    many = len(points) > MANY
    draw_bars(axis, [point for point in points if point.kind != "step"], 0.35 if many else 0.6)
    for point in points:
        axis.add_line(_marker(point, marker(point), many, marker_size(point, len(points), size)))


def _marker(point: RoofPoint, shape: str, many: bool, size: float) -> Line2D:
    colour, hollow = style.colour(point.role), bool(point.incomplete)
    small = point.kind == "step" and many
    return Line2D(
        [point.intensity.value or 0.0],
        [point.flops_per_second.value or 0.0],
        linestyle="",
        marker=shape,
        markersize=size,
        markerfacecolor="white" if hollow else colour,
        markeredgecolor=colour if hollow else "none" if small else "white",
        markeredgewidth=(0.6 if small else min(1.3, 0.2 * size)) if hollow else 0.7,
        alpha=0.45 if small else 1.0,
        zorder=5,
    )


def draw_marker(axis: Axes, point: RoofPoint, size: float) -> None:
    """Draw one point with the marker of its role, of a size in points."""
    axis.add_line(_marker(point, style.marker(point.role), False, size))


def draw_bars(axis: Axes, points: Sequence[RoofPoint], alpha: float) -> None:
    """Thin from 5 to 95 %, thick from 25 to 75 %."""
    for point in points:
        x, y = place(point)
        looks: dict[str, Any] = {"color": style.colour(point.role), "alpha": alpha, "zorder": 4}
        looks["solid_capstyle"] = "butt"
        for spread, is_level in ((point.intensity_spread, True), (point.flops_spread, False)):
            if spread is None:
                continue
            for low, high, width in ((spread.p5, spread.p95, 0.9), (spread.p25, spread.p75, 2.6)):
                if is_drawable(low, high) and high > low:
                    across, up = ((low, high), (y, y)) if is_level else ((x, x), (low, high))
                    axis.plot(across, up, linewidth=width, **looks)


def legend_entries(
    points: Sequence[RoofPoint], has_arrows: bool, level_markers: bool = False
) -> list[Line2D]:
    """Roles with their provenance, hollow markers, bars, arrows."""
    entries = [_role_entry(role, points, level_markers) for role in dict.fromkeys(p.role for p in points)]
    grey: dict[str, Any] = {"color": style.DIM, "linestyle": ""}
    if level_markers:
        order = {level: at for at, level in enumerate(style.LEVEL_MARKERS)}
        for level in sorted({p.level for p in points}, key=lambda level: order.get(level, len(order))):
            shape = style.level_marker(level)
            entries.append(Line2D([], [], marker=shape, label=f"over {level_name(level)}", **grey))
    if any(p.incomplete for p in points):
        hollow = Line2D([], [], marker="o", markerfacecolor="white", label="incomplete counts", **grey)
        entries.append(hollow)
    if any(_bar_ends(s) for p in points if p.kind != "step" for s in (p.intensity_spread, p.flops_spread)):
        what = "calls" if all(p.kind == "kernel" for p in points) else "steps"
        bar = Line2D([], [], color=style.DIM, linewidth=0.9, label=f"5 to 95 % of {what} (thick: 25 to 75 %)")
        entries.append(bar)
    if has_arrows:
        entries.append(Line2D([], [], marker=r"$\uparrow$", label="headroom to the roof", **grey))
    return entries


def _role_entry(role: str, points: Sequence[RoofPoint], level_markers: bool) -> Line2D:
    own = [p for p in points if p.role == role]
    kind = KINDS.get(own[0].kind, "")
    count = len({p.label for p in own})
    # matplotlib leaves entries out that begin with an underscore.
    name = (clean(role) or "no role").replace("_", "-")
    if kind and count > 1:
        name += f" ({count} {kind})"
    return Line2D(
        [],
        [],
        color=style.colour(role),
        linestyle="-" if level_markers else "",
        linewidth=3.0,
        marker="" if level_markers else style.marker(role),
        markersize=style.MARKER - 1,
        label=f"{name}: {provenance(own)}",
    )


def provenance(points: Sequence[RoofPoint]) -> str:
    """ "FLOP/s measured, FLOP/byte analytic"; one word where they agree."""
    flops = _provenances(p.flops_per_second for p in points)
    intensity = _provenances(p.intensity for p in points)
    return flops if flops == intensity else f"FLOP/s {flops}, FLOP/byte {intensity}"


def _provenances(values: Iterable[Value]) -> str:
    return " and ".join(dict.fromkeys(clean(v.provenance) or "unknown" for v in values))


def level_name(level: str) -> str:
    names = {"minimum": "tensor bytes", "network": "the network"}
    return names.get(level, f"{clean(level).upper()} traffic")
