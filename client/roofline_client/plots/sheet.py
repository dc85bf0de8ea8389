"""A figure laid out in inches: title, panels, legend and caption; it is as high as they need."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.text import Text

from ..errors import ClientError
from ..files import placed
from ..tables.names import clean
from . import legends, style
from .caption import Caption, more
from .label_placement import Labels, shortened
from .scales import size

LEFT, RIGHT, TOP, BELOW, GAP = 0.68, 0.24, 0.34, 0.52, 0.36  # inches; BELOW: ticks and name of an axis
MOST_LINES = 6  # of a caption, without the key to numbers
LINE = 1.32  # height of a line of the caption, in sizes of its text


class Box(NamedTuple):
    """Where axes stand, inches from the upper left corner of the figure."""

    left: float
    top: float
    width: float
    height: float


@contextmanager
def settings() -> Iterator[None]:
    """While a picture is made and while it is written. A letter the font lacks is a box, not an error."""
    with matplotlib.rc_context(style.SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


class Picture(Figure):
    """A figure that keeps its settings when it is written, whoever writes it."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        with settings():
            super().savefig(*args, **kwargs)


# The same picture is the same file, whenever it is written.
_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def write(figure: Figure, path: Path) -> None:
    """The file has its name when it is whole. Raises ClientError when it cannot be written."""
    ending = path.suffix.lower().removeprefix(".")
    with placed(path) as file:
        figure.savefig(file, format=ending, dpi=200, metadata=_UNDATED.get(ending))


def rows(count: int, columns: int, width: float, height: float, titled: bool = True) -> list[Box]:
    """Panels of one size in rows; y axes are named once a row."""
    extra = 0.18 if titled else 0.0
    columns = min(count, columns)
    across = [LEFT + k * (width + GAP) for k in range(columns)]
    down = [TOP + extra + k * (height + BELOW + extra) for k in range(math.ceil(count / columns))]
    return [Box(left, top, width, height) for top in down for left in across][:count]


def blank(boxes: Sequence[Box]) -> tuple[Figure, list[Axes]]:
    """Axes of the size they will have, so that what is drawn can be fitted to it."""
    figure = Picture(figsize=(6, 4))
    FigureCanvasAgg(figure)
    axes = [figure.add_axes((0.1, 0.1, 0.8, 0.8), label=str(at)) for at, _ in enumerate(boxes)]
    _place(figure, axes, boxes, _right(boxes), max(box.top + box.height for box in boxes) + BELOW)
    return figure, axes


def finish(
    figure: Figure,
    axes: Sequence[Axes],
    boxes: Sequence[Box],
    title: str,
    handles: Sequence[Artist],
    under: Caption,
    below: float = BELOW,
) -> None:
    """Put everything in its place and give the figure its size."""
    width = _right(boxes)
    bottom = max(box.top + box.height for box in boxes) + below
    left = min(min(box.left for box in boxes), LEFT) - 0.5
    room = width - left - RIGHT
    legend = legends.under(figure, handles, room)
    legend_height = legends.inches(legend, figure)[1] if legend else 0.0
    lines = _lines(figure, _with_signs(figure, axes, under), room)
    line_height = style.CAPTION * LINE / 72
    height = bottom + legend_height + 0.08 + len(lines) * line_height + 0.06
    _place(figure, axes, boxes, width, height)
    for axis, box in zip(axes, boxes, strict=True):
        _fit(figure, axis.xaxis.label, box.width + 0.6 * GAP)
        _fit(figure, axis.yaxis.label, box.height + 0.2)
    if legend:
        legend.set_bbox_to_anchor((left / width, 1 - bottom / height), figure.transFigure)
    told: dict[str, Any] = {"parse_math": False, "va": "top", "ha": "left"}
    size = min(style.TITLE, style.TITLE * room / max(room, _width(figure, title, style.TITLE)))
    figure.text(left / width, 1 - 0.09 / height, clean(title), fontsize=max(7.0, size), **told)
    at = bottom + legend_height + 0.08
    for number, line in enumerate(lines):
        y = 1 - (at + number * line_height) / height
        figure.text(left / width, y, line, fontsize=style.CAPTION, color=style.DIM, **told)


def _right(boxes: Sequence[Box]) -> float:
    return max(box.left + box.width + RIGHT for box in boxes)


def _place(figure: Figure, axes: Sequence[Axes], boxes: Sequence[Box], width: float, height: float) -> None:
    figure.set_size_inches(width, height)
    for axis, box in zip(axes, boxes, strict=True):
        up = height - box.top - box.height
        axis.set_position((box.left / width, up / height, box.width / width, box.height / height))


def _with_signs(figure: Figure, axes: Sequence[Axes], under: Caption) -> Caption:
    """What the caption says of labels for which the picture has no room."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    signs = map(_sign, count())
    key: list[str] = []
    lost: list[str] = []
    for axis in axes:
        axis.apply_aspect()
        for labels in (artist for artist in axis.artists if isinstance(artist, Labels)):
            signed, unseen = labels.abbreviate(renderer, signs)
            key, lost = key + signed, lost + unseen
    keys = [*under.key, *([f"{'; '.join(key)}."] if key else [])]
    unsaid = [f"No room in the picture for {', '.join(dict.fromkeys(lost))}."] if lost else []
    return under._replace(key=keys, notes=[*unsaid, *under.notes])


def _sign(number: int) -> str:
    """ "a" to "z", then "aa" and on."""
    return (_sign(number // 26 - 1) if number >= 26 else "") + chr(ord("a") + number % 26)


def _lines(figure: Figure, under: Caption, room: float) -> list[str]:
    """All of what the picture is about and of its key, of notes as many as there is room for."""
    about = [line for text in under.about for line in wrapped(figure, text, room)]
    key = [line for text in under.key for line in wrapped(figure, text, room)]
    notes = [wrapped(figure, text, room) for text in under.notes]
    left = max(2, MOST_LINES - len(about))
    shown: list[str] = []
    for at, lines in enumerate(notes):
        others = len(notes) - at - 1
        if len(shown) + len(lines) + (1 if others else 0) > left:
            return [*about, *key, *shown, *wrapped(figure, more(others + 1, under.command), room)]
        shown += lines
    return [*about, *key, *shown]


def share_sides(axes: Sequence[Axes], columns: int) -> None:
    """What the y axis is stands once a row."""
    for at, axis in enumerate(axes):
        if at % columns:
            axis.set_ylabel("")
            axis.tick_params(labelleft=False)


def only_title(axes: Sequence[Axes]) -> str:
    """The name of the only panel, which the title of the picture takes; "" of several."""
    if len(axes) > 1:
        return ""
    name = axes[0].get_title(loc="left")
    axes[0].set_title("", loc="left")
    return name


def _fit(figure: Figure, text: Text, room: float) -> None:
    """The name of an axis no longer than so many inches."""
    size = style.LABEL * min(1.0, room / max(room, _width(figure, text.get_text(), style.LABEL)))
    text.set_fontsize(size)


def given(axes: Any, count: int, what: str) -> list[Axes]:
    """The axes of somebody else as a list: Axes, a list of them, or an array as `subplots` makes it.

    Raises ClientError when they are something else, or not `count`: one for `what`.
    """
    found = [axes] if isinstance(axes, Axes) else list(getattr(axes, "flat", _each(axes)))
    wanted = f"{count} Axes (one for {what})"
    wrong = [one for one in found if not isinstance(one, Axes)]
    if wrong:
        raise ClientError(f"no place to draw: {_kind(wrong[0])} is no matplotlib Axes; give {wanted}")
    if len(found) != count:
        raise ClientError(
            f"this picture needs {wanted}, not {len(found)}; give as many, or none to have a figure made"
        )
    return found


def _each(axes: Any) -> list[Any]:
    return list(axes) if isinstance(axes, (list, tuple)) else [axes]


def _kind(something: Any) -> str:
    return f"{type(something).__name__} {clean(repr(something))[:40]}"


def ratio(axis: Axes) -> float:
    """Height over width of axes."""
    box = axis.get_window_extent()
    return box.height / box.width


def legend_over(axis: Axes, handles: Sequence[Artist], name: str, colour: str) -> None:
    """The legend of axes in a figure of somebody else, above them, and their name above it."""
    width, height = size(axis)
    key = legends.measured(handles, width)
    if handles:
        legends.above(axis, handles, key.columns, 3 / 72 / height)
        name_panel(axis, name, key.height * 72 + 9, colour)


def name_panel(axis: Axes, text: str, pad: float = 4.0, colour: str = style.INK) -> None:
    looks: dict[str, Any] = {"fontsize": style.LABEL, "color": colour, "parse_math": False}
    axis.set_title(shortened(clean(text), 60), loc="left", pad=pad, **looks)


def wrapped(figure: Figure, text: str, room: float) -> list[str]:
    """The lines of a text so wide, inches."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        # A dot between two things is no beginning of a line.
        if lines and (word == "·" or _width(figure, longer, style.CAPTION) <= room):
            lines[-1] = longer
        else:
            lines += _pieces(figure, word, room)
    return lines


def _pieces(figure: Figure, word: str, room: float) -> list[str]:
    """A word too wide for a line in several."""
    most = max(1, int(len(word) * room / max(_width(figure, word, style.CAPTION) * 1.05, 1e-9)))
    return [word[at : at + most] for at in range(0, len(word), most)]


def width_of(text: str, size: float) -> float:
    """Inches."""
    scratch = Figure()
    FigureCanvasAgg(scratch)
    return _width(scratch, text, size)


def _width(figure: Figure, text: str, size: float) -> float:
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    font = FontProperties(family=style.SETTINGS["font.family"], size=size)
    width, _, _ = renderer.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / figure.dpi
