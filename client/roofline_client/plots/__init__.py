"""Pictures of all models, as a paper would print them.

    draw(kind, record, path)      write a file: PNG, SVG or PDF by its ending
    figure(kind, record)          the matplotlib Figure of it, with legend and caption
    draw_on(axes, kind, record)   the same lines and points on axes of somebody else, without caption

Kinds and their records (of `roofline.answers`, as `roofline_client.Client` answers them):

    roofline, hierarchical, network    Roofline of Client.roofline(kind="classic", "hierarchical", "network")
    time                               TimeRoofline of Client.time_roofline
    trajectory                         Trajectory of Client.trajectory
    breakdown                          Breakdown of Client.breakdown
    steps                              plots.Steps(job, chunks of Client.steps, about or None)

All raise ClientError, which says what is missing, when there is nothing to draw, and draw what there is
otherwise: what is missing then stands in the caption. `axes` is one Axes, or a list of as many as the figure
would have panels (ClientError says how many). matplotlib is loaded by these functions, not with this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.answers.about import About
from roofline.answers.tables import TableChunk

from ..errors import ClientError
from ..tables.names import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
# A kind of picture -> what it shows. Each is a module of this package with `figure(record)` and
# `draw_on(axes, record)`.
KINDS = {
    "roofline": "roles, ranks, steps, phases or kernels under all measured ceilings",
    "hierarchical": "the same over the traffic of every level of memory",
    "time": "complexity and time of kernels or steps in one plane",
    "trajectory": "each role over the jobs of an experiment",
    "breakdown": "what work, traffic and time are made of",
    "network": "FLOPs per byte communicated under the network's ceiling",
    "steps": "the time of every step and its phases",
}


class Steps(NamedTuple):
    """What the picture of steps is drawn from; about None: the caption tells the job alone."""

    job: str
    chunks: Iterable[TableChunk]
    about: About | None = None


def check(kind: str, path: Path) -> None:
    """Raises ClientError for a kind or an ending that is none; quick, so ask before the server is asked."""
    if kind not in KINDS:
        raise ClientError(f"no picture of the kind {clean(kind)!r}; there are {', '.join(KINDS)}")
    if path.suffix.lower() not in FORMATS:
        raise ClientError(f"{path}: the name of a picture must end in {', '.join(FORMATS)}")


def draw(kind: str, record: Any, path: Path) -> None:
    """Write a picture as PNG, SVG or PDF, by the file's ending.

    Raises ClientError when there is nothing to draw, or the file cannot be written.
    """
    check(kind, path)
    from .sheet import write

    write(figure(kind, record), path)


def figure(kind: str, record: Any) -> Figure:
    """The picture. Raises ClientError when there is nothing to draw."""
    made: Figure = _module(kind).figure(record)
    return made


def draw_on(axes: Axes | Sequence[Axes], kind: str, record: Any) -> None:
    """Draw on these axes. Raises ClientError when there is nothing to draw, or axes of another number."""
    _module(kind).draw_on(axes, record)


def _module(kind: str) -> Any:
    if kind not in KINDS:
        raise ClientError(f"no picture of the kind {clean(kind)!r}; there are {', '.join(KINDS)}")
    return import_module(f".{kind}", __name__)
