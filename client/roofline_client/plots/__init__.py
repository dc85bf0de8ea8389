"""Plots of all models, ready for a paper.

    draw(kind, record, path)      write a file: PNG, SVG or PDF by its ending
    figure(kind, record)          the matplotlib Figure of it, with legend and caption
    draw_on(axes, kind, record)   the same lines and points on your own axes, without caption

Kinds and their records (of `roofline.answers`, as `roofline_client.Client` returns them):

    roofline, hierarchical, network    Roofline of Client.roofline(kind="classic", "hierarchical", "network")
    time                               TimeRoofline of Client.time_roofline
    trajectory                         Trajectory of Client.trajectory
    breakdown, layers                  Breakdown of Client.breakdown
    steps                              plots.Steps(job, chunks of Client.steps, about or None)

All raise ClientError, which says what is missing, when there is nothing to draw. If only a part is missing,
the caption says so. `axes` is one Axes, or a list with one for each panel of the figure (ClientError says how
many). matplotlib is imported by these functions, not with this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from roofline.answers.about import About
from roofline.answers.report import Report
from roofline.answers.tables import TableChunk

from ..errors import ClientError
from ..tables.names import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
# Kind of plot -> what it shows. Each is a module of this package with `figure(record)` and
# `draw_on(axes, record)`.
KINDS = {
    "account": "where the steady steps of each rank go",
    "roofline": "roles, ranks, steps, phases, kernels or layers under all measured ceilings",
    "hierarchical": "the same over the traffic of every level of memory",
    "time": "complexity and time of kernels or steps in one plane",
    "trajectory": "each role over the jobs of an experiment",
    "breakdown": "what work, traffic and time are made of",
    "layers": "where the traced steps of each rank go by layer of the model",
    "network": "FLOPs per byte communicated under the network's ceiling",
    "steps": "the time of every step and its phases",
}


class AccountOf(NamedTuple):
    """The record for the plot of accounts. Without `about` the caption names only the job."""

    report: Report
    about: About | None = None


class Steps(NamedTuple):
    """The record for the plot of steps. Without `about` the caption names only the job."""

    job: str
    chunks: Iterable[TableChunk]
    about: About | None = None


def check(kind: str, path: Path) -> None:
    """Raises ClientError for an unknown kind or file ending. Quick: call it before asking the server."""
    _check_kind(kind)
    if path.suffix.lower() not in FORMATS:
        raise ClientError(f"{path}: the name of a picture must end in {', '.join(FORMATS)}")


def draw(kind: str, record: Any, path: Path, with_caption: bool = True) -> None:
    """Write a plot as PNG, SVG or PDF, by the file's ending. with_caption: else only what is in the picture.

    Raises ClientError when there is nothing to draw, or the file cannot be written.
    """
    check(kind, path)
    from .layout import write

    write(figure(kind, record, with_caption), path)


def figure(kind: str, record: Any, with_caption: bool = True) -> Figure:
    """The plot as a figure. Raises ClientError when there is nothing to draw."""
    module = _module(kind)
    from . import caption, style

    with caption.wanted(with_caption), style.picture(style.roles_in(record)):
        made: Figure = module.figure(record)
    return made


def draw_on(axes: Axes | Sequence[Axes], kind: str, record: Any) -> None:
    """Draw on these axes. Raises ClientError when there is nothing to draw, or not as many axes as panels."""
    module = _module(kind)
    from . import style

    with style.picture(style.roles_in(record)):
        module.draw_on(axes, record)


def _module(kind: str) -> Any:
    _check_kind(kind)
    return import_module(f".{kind}", __name__)


def _check_kind(kind: str) -> None:
    if kind not in KINDS:
        raise ClientError(f"no picture of the kind {clean(kind)!r}; there are {', '.join(KINDS)}")
