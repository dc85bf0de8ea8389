"""Legends: below a figure, above axes, or inside the caller's axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from . import style

MOST_COLUMNS = 8
MOST_HIDDEN = 0.3  # share of the caller's axes that a legend may hide


def on(axis: Axes, handles: Sequence[Artist]) -> None:
    """A legend inside the caller's axes; none if they are so small that it would hide their content."""
    if not handles:
        return
    legend = axis.legend(handles=list(handles), loc="best", **_looks(True))
    _disable_math(legend)
    own, whole = legend.get_window_extent(), axis.get_window_extent()
    if own.width * own.height > MOST_HIDDEN * whole.width * whole.height or own.width > whole.width:
        legend.remove()


class Size(NamedTuple):
    columns: int
    height: float  # inches


def measured(handles: Sequence[Artist], room: float) -> Size:
    """The size of a legend that is no wider than `room`, inches."""
    scratch = Figure(figsize=(6, 4))
    FigureCanvasAgg(scratch)
    legend = under(scratch, handles, room)
    return Size(legend._ncols, inches(legend, scratch)[1]) if legend else Size(1, 0.0)  # type: ignore[attr-defined]


def above(axis: Axes, handles: Sequence[Artist], columns: int, gap: float) -> None:
    """Draw a legend between the axes and their title. gap: in heights of the axes."""
    legend = axis.legend(
        handles=_by_row(handles, columns),
        loc="lower left",
        bbox_to_anchor=(0, 1 + gap),
        ncols=columns,
        **_looks(False),
    )
    _disable_math(legend)


def under(figure: Figure, handles: Sequence[Artist], room: float) -> Legend | None:
    """Draw a legend with as many columns as there is room for, inches."""
    if not handles:
        return None
    for columns in range(min(len(handles), MOST_COLUMNS), 0, -1):
        ordered = _by_row(handles, columns)
        legend = figure.legend(handles=ordered, loc="upper left", ncols=columns, **_looks(False))
        _disable_math(legend)
        if columns == 1 or inches(legend, figure)[0] <= room + 0.1:
            return legend
        legend.remove()
    return None


def _by_row(handles: Sequence[Artist], columns: int) -> list[Artist]:
    """In the order that lets matplotlib, which fills columns first, fill rows first."""
    return [handle for column in range(columns) for handle in handles[column::columns]]


def _looks(framed: bool) -> dict[str, Any]:
    return {
        "fontsize": style.SMALL,
        "frameon": framed,
        "framealpha": 0.9,
        "edgecolor": "#CCCCCC",
        "fancybox": False,
        "borderpad": 0.4 if framed else 0.1,
        "borderaxespad": 0.4 if framed else 0.0,
        "columnspacing": 1.2,
        "handlelength": 1.6,
        "labelspacing": 0.35,
    }


def _disable_math(legend: Legend) -> None:
    for text in legend.get_texts():
        text.set_parse_math(False)


def inches(legend: Legend, figure: Figure) -> tuple[float, float]:
    box = legend.get_window_extent(figure.canvas.get_renderer())  # type: ignore[attr-defined]
    return box.width / figure.dpi, box.height / figure.dpi
