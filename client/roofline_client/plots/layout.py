"""Lays a figure out in inches: title, panels, legend and caption. The figure is as high as they need."""

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
TITLE_LINE = style.TITLE * LINE / 72  # inches


class Box(NamedTuple):
    """The place of axes, inches from the upper left corner of the figure."""

    left: float
    top: float
    width: float
    height: float


@contextmanager
def settings() -> Iterator[None]:
    """The settings under which figures are drawn and written. A letter the font lacks is no error: a box
    stands for it."""
    with matplotlib.rc_context(style.SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


class Picture(Figure):
    """A figure that applies our settings when it is written, whoever writes it."""

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        with settings():
            super().savefig(*args, **kwargs)


# Without dates, the same figure always gives the same file.
_UNDATED: dict[str, dict[str, None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}


def write(figure: Figure, path: Path) -> None:
    """Write the file atomically. Raises ClientError when it cannot be written."""
    ending = path.suffix.lower().removeprefix(".")
    with placed(path) as file:
        figure.savefig(file, format=ending, dpi=200, metadata=_UNDATED.get(ending))


def rows(count: int, columns: int, width: float, height: float, titled: bool = True) -> list[Box]:
    """Panels of one size in rows, with room for one y axis label per row."""
    extra = 0.18 if titled else 0.0
    columns = min(count, columns)
    across = [LEFT + k * (width + GAP) for k in range(columns)]
    down = [TOP + extra + k * (height + BELOW + extra) for k in range(math.ceil(count / columns))]
    return [Box(left, top, width, height) for top in down for left in across][:count]


def blank(boxes: Sequence[Box]) -> tuple[Figure, list[Axes]]:
    """Axes of their final size, so that what is drawn can be fitted to it."""
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
    caption: Caption,
    below: float = BELOW,
) -> None:
    """Place title, panels, legend and caption, and give the figure its size.

    title: its lines, as of `title_lines`; below: inches from the lowest axes to the legend.
    """
    width = _right(boxes)
    bottom = max(box.top + box.height for box in boxes) + below
    left = min(min(box.left for box in boxes), LEFT) - 0.5
    room = width - left - RIGHT
    legend = legends.under(figure, handles, room)
    legend_height = legends.inches(legend, figure)[1] if legend else 0.0
    lines = _caption_lines(figure, _abbreviate_labels(figure, axes, caption), room)
    line_height = style.CAPTION * LINE / 72
    height = bottom + legend_height + 0.08 + len(lines) * line_height + 0.06
    _place(figure, axes, boxes, width, height)
    for axis, box in zip(axes, boxes, strict=True):
        _fit(figure, axis.xaxis.label, box.width + 0.6 * GAP)
        _fit(figure, axis.yaxis.label, box.height + 0.2)
    if legend:
        legend.set_bbox_to_anchor((left / width, 1 - bottom / height), figure.transFigure)

    looks: dict[str, Any] = {"parse_math": False, "va": "top", "ha": "left"}
    titles = title.split("\n")
    widest = max(_width(figure, line, style.TITLE) for line in titles)
    size = max(7.0, style.TITLE * room / max(room, widest))
    for number, line in enumerate(titles):
        y = 1 - (0.09 + number * TITLE_LINE) / height
        figure.text(left / width, y, clean(line), fontsize=size, **looks)
    top = bottom + legend_height + 0.08
    for number, line in enumerate(lines):
        y = 1 - (top + number * line_height) / height
        figure.text(left / width, y, line, fontsize=style.CAPTION, color=style.DIM, **looks)


def _right(boxes: Sequence[Box]) -> float:
    return max(box.left + box.width + RIGHT for box in boxes)


def _place(figure: Figure, axes: Sequence[Axes], boxes: Sequence[Box], width: float, height: float) -> None:
    figure.set_size_inches(width, height)
    for axis, box in zip(axes, boxes, strict=True):
        up = height - box.top - box.height
        axis.set_position((box.left / width, up / height, box.width / width, box.height / height))


def _abbreviate_labels(figure: Figure, axes: Sequence[Axes], caption: Caption) -> Caption:
    """Replace labels for which there is no room by letters. Returns the caption with the key to these."""
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    letters = map(_letters, count())
    key: list[str] = []
    without_room: list[str] = []
    for axis in axes:
        axis.apply_aspect()
        for labels in axis.artists:
            if isinstance(labels, Labels):
                abbreviated, hidden = labels.abbreviate(renderer, letters)
                key += abbreviated
                without_room += hidden
    keys, notes = caption.key, caption.notes
    if key:
        keys = [*keys, f"{'; '.join(key)}."]
    if without_room:
        notes = [f"No room in the picture for {', '.join(dict.fromkeys(without_room))}.", *notes]
    return caption._replace(key=keys, notes=notes)


def _letters(number: int) -> str:
    """ "a" to "z", then "aa" and so on."""
    front = _letters(number // 26 - 1) if number >= 26 else ""
    return front + chr(ord("a") + number % 26)


def _caption_lines(figure: Figure, caption: Caption, room: float) -> list[str]:
    """All lines on the job and of the key, and as many notes as there is room for."""
    about = [line for text in caption.about for line in wrapped(figure, text, room)]
    key = [line for text in caption.key for line in wrapped(figure, text, room)]
    notes = [wrapped(figure, text, room) for text in caption.notes]
    most = max(2, MOST_LINES - len(about))
    shown: list[str] = []
    for number, lines in enumerate(notes):
        others = len(notes) - number - 1
        if len(shown) + len(lines) + (1 if others else 0) > most:
            return [*about, *key, *shown, *wrapped(figure, more(others + 1, caption.command), room)]
        shown += lines
    return [*about, *key, *shown]


def share_sides(axes: Sequence[Axes], columns: int) -> None:
    """Leave the y axis label and its numbers to the first panel of each row."""
    for at, axis in enumerate(axes):
        if at % columns:
            axis.set_ylabel("")
            axis.tick_params(labelleft=False)


def only_title(axes: Sequence[Axes]) -> str:
    """Move the name of a single panel to the title of the figure: returns it, or "" if there are several."""
    if len(axes) > 1:
        return ""
    name = axes[0].get_title(loc="left")
    axes[0].set_title("", loc="left")
    return name


def _fit(figure: Figure, text: Text, room: float) -> None:
    """Shrink the label of an axis to this many inches."""
    size = style.LABEL * min(1.0, room / max(room, _width(figure, text.get_text(), style.LABEL)))
    text.set_fontsize(size)


def axes_list(axes: Any, count: int, what: str) -> list[Axes]:
    """The caller's axes as a list: from Axes, a list of them, or an array as `subplots` makes it.

    Raises ClientError when they are something else, or not `count`: one for `what`.
    """
    if isinstance(axes, Axes):
        all_axes = [axes]
    elif isinstance(axes, (list, tuple)):
        all_axes = list(axes)
    else:
        all_axes = list(getattr(axes, "flat", [axes]))
    wanted = f"{count} Axes (one for {what})"
    for one in all_axes:
        if not isinstance(one, Axes):
            given = f"{type(one).__name__} {clean(repr(one))[:40]}"
            raise ClientError(f"no place to draw: {given} is no matplotlib Axes; give {wanted}")
    if len(all_axes) != count:
        raise ClientError(
            f"this picture needs {wanted}, not {len(all_axes)}; give as many, or none to have a figure made"
        )
    return all_axes


def ratio(axis: Axes) -> float:
    """Height over width of axes."""
    box = axis.get_window_extent()
    return box.height / box.width


def legend_over(axis: Axes, handles: Sequence[Artist], name: str, colour: str) -> None:
    """Put a legend above the caller's axes, and the name of the panel above the legend."""
    width, height = size(axis)
    key = legends.measured(handles, width)
    if handles:
        legends.above(axis, handles, key.columns, 3 / 72 / height)
        name_panel(axis, name, key.height * 72 + 9, colour)


def name_panel(axis: Axes, text: str, pad: float = 4.0, colour: str = style.INK) -> None:
    looks: dict[str, Any] = {"fontsize": style.LABEL, "color": colour, "parse_math": False}
    axis.set_title(shortened(clean(text), 60), loc="left", pad=pad, **looks)


def title_lines(text: str, room: float) -> list[str]:
    """A long title in lines of at most `room` inches, as it would be too small in one."""
    scratch = Figure()
    FigureCanvasAgg(scratch)
    return wrapped(scratch, clean(text), room, style.TITLE)


def wrapped(figure: Figure, text: str, room: float, size: float = style.CAPTION) -> list[str]:
    """A text in lines of at most `room` inches; size: of its letters, those of a caption unless given."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        # No line begins with the dot that separates two things.
        if lines and (word == "·" or _width(figure, longer, size) <= room):
            lines[-1] = longer
            continue
        # A word wider than a line is split.
        most = max(1, int(len(word) * room / max(_width(figure, word, size) * 1.05, 1e-9)))
        lines += [word[at : at + most] for at in range(0, len(word), most)]
    return lines


def width_of(text: str, size: float, weight: str = "normal") -> float:
    """Inches."""
    scratch = Figure()
    FigureCanvasAgg(scratch)
    return _width(scratch, text, size, weight)


def _width(figure: Figure, text: str, size: float, weight: str = "normal") -> float:
    renderer: Any = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    font = FontProperties(family=style.SETTINGS["font.family"], size=size, weight=weight)
    width, _, _ = renderer.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / figure.dpi
