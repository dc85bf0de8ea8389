"""Where the traced steps of each rank go by layer of the model: of a breakdown that panel alone."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from roofline.answers.breakdown import Breakdown
from roofline.phrases import OF_LAYERS

from ..errors import NothingToDraw
from . import breakdown

KIND = "layers_by_time"
NO_LAYERS = (
    "no step was traced whose layers are known (`roofline-client trace`, `roofline-agent run --trace`)"
)


def figure(record: Breakdown) -> Figure:
    """Raises NothingToDraw where no step was traced whose layers are known."""
    return breakdown.figure(_layers_of(record), "Layers")


def draw_on(axes: Axes | Sequence[Axes], record: Breakdown) -> None:
    """Errors as of `figure`."""
    breakdown.draw_on(axes, _layers_of(record))


def _layers_of(record: Breakdown) -> Breakdown:
    parts = [part for part in record.parts if part.kind == KIND]
    if not parts:
        raise NothingToDraw(f"nothing to draw: {NO_LAYERS}")  # whatever else is known of other kernels
    return record._replace(parts=parts, notes=[note for note in record.notes if note.startswith(OF_LAYERS)])
