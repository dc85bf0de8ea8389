"""Logarithmic planes with decades of the same length on both axes, and the numbers at axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import Formatter, FuncFormatter, LogLocator, NullFormatter
from roofline.texts import BINARY_PREFIXES, PREFIXES

from . import style

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_DECIMAL = (*PREFIXES, (1.0, ""))
_MULTIPLES = {
    "s": ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")),
    "byte": (*BINARY_PREFIXES, (1.0, "")),
}
PLAIN = 1e-3, 1e3  # an axis within these limits has plain numbers, any other has powers of ten
PREFIXED = 0.44  # inches per number with a prefix
LEAST_DECADES = 2.0  # on a narrower axis small differences look large


class Frame(NamedTuple):
    """Limits of a plane, in the units of its axes."""

    left: float
    right: float
    bottom: float
    top: float

    @property
    def decades(self) -> tuple[float, float]:
        return math.log10(self.right / self.left), math.log10(self.top / self.bottom)

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.bottom <= y <= self.top


def is_drawable(*numbers: float | None) -> bool:
    """Whether all have a place on a logarithmic axis, unlike zero, infinity and None."""
    return all(number is not None and 0 < number < math.inf for number in numbers)


def around(frames: Iterable[Frame]) -> Frame:
    """The smallest frame that contains all of these."""
    lefts, rights, bottoms, tops = zip(*frames, strict=True)
    return Frame(min(lefts), max(rights), min(bottoms), max(tops))


def shaped(frame: Frame, flattest: float, steepest: float) -> tuple[Frame, float]:
    """Widen the frame to at least LEAST_DECADES and to a ratio of height to width between the two given.

    Returns it with its ratio, decades over decades.
    """
    frame = _widened(frame, LEAST_DECADES, LEAST_DECADES)
    across, up = frame.decades
    frame = _widened(frame, up / steepest, across * flattest)
    across, up = frame.decades
    return frame, up / across


def _widened(frame: Frame, across: float, up: float) -> Frame:
    """Widened to at least this many decades, mostly to the right, where ceilings are named, and below."""
    has_across, has_up = frame.decades
    more, below = max(0.0, across - has_across), max(0.0, up - has_up)
    return Frame(
        frame.left / 10 ** (0.4 * more),
        frame.right * 10 ** (0.6 * more),
        frame.bottom / 10 ** (0.7 * below),
        frame.top * 10 ** (0.3 * below),
    )


def set_plane(
    axis: Axes, frame: Frame, across: str, up: str, unit_up: float = 1e9, prefixed: bool = False
) -> None:
    """Log-log with equal decades. across, up: labels of the axes.

    unit_up: the y axis shows multiples of it. prefixed: numbers of both axes have prefixes, "10 k", "1 M".
    """
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(frame.left, frame.right)
    axis.set_ylim(frame.bottom, frame.top)
    axis.set_aspect("equal", adjustable="box")
    # Numbers with prefixes are wide.
    most = max(2, int(size(axis)[0] / PREFIXED)) if prefixed else 12
    # A number at every decade; also between them where few decades are shown.
    for side, decades, unit in ((axis.xaxis, frame.decades[0], 1.0), (axis.yaxis, frame.decades[1], unit_up)):
        subs = (1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)
        side.set_major_locator(LogLocator(10, subs, numticks=most if side is axis.xaxis else 12))
        side.set_minor_locator(LogLocator(10, tuple(range(2, 10)), numticks=12))
        side.set_minor_formatter(NullFormatter())
        side.set_major_formatter(FuncFormatter(_with_prefix) if prefixed else DecadeFormatter(unit))
    set_looks(axis, across, up)
    axis.grid(True, which="major", linewidth=0.5, color=style.GRID)


def size(axis: Axes) -> tuple[float, float]:
    """Width and height of axes, inches."""
    box = axis.get_window_extent()
    dpi = axis.get_figure(root=True).dpi  # type: ignore[union-attr]
    return box.width / dpi, box.height / dpi


def set_looks(axis: Axes, across: str, up: str) -> None:
    axis.set_xlabel(across, fontsize=style.LABEL)
    axis.set_ylabel(up, fontsize=style.LABEL)
    for label in (axis.xaxis.label, axis.yaxis.label):
        label.set_parse_math(False)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=style.TICK)
    axis.tick_params(which="minor", length=2, width=0.5)
    axis.spines[["top", "right"]].set_visible(False)


def unit_for(unit: str, largest: float) -> tuple[float, str]:
    """The multiple of a unit that suits numbers up to the largest: (1e-3, "ms")."""
    multiples = _MULTIPLES.get(unit, _DECIMAL)
    symbol = "B" if unit == "byte" else unit
    for scale, prefix in multiples:
        if largest >= scale:
            return scale, prefix + symbol
    scale, prefix = multiples[-1]
    return scale, prefix + symbol


class DecadeFormatter(Formatter):
    """Numbers at a logarithmic axis, all plain or all powers of ten."""

    def __init__(self, unit: float = 1.0) -> None:
        self._unit = unit

    def __call__(self, number: float, pos: int | None = None) -> str:
        return self.format_ticks([number])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        axis: Any = self.axis
        low, high = sorted(axis.get_view_interval()) if axis is not None else (0.0, math.inf)
        # matplotlib also asks for ticks just beyond the axis, which are not visible.
        visible = [number / self._unit for number in values if low * 0.999 <= number <= high * 1.001]
        plain = all(PLAIN[0] * 0.999 <= number <= PLAIN[1] * 1.001 for number in visible)
        return [f"{n / self._unit:.6g}" if plain else power(n / self._unit) for n in values]


def _with_prefix(number: float, _: int | None = None) -> str:
    """ "100 k", "20 G"; below a thousand without a prefix."""
    for scale, prefix in _DECIMAL:
        if number >= scale * 0.999:
            return f"{tick(number / scale)} {prefix}".strip()
    return tick(number)


def performance(highest: float) -> tuple[float, str]:
    """The unit of an axis with FLOP/s up to the highest."""
    return (1e12, "TFLOP/s") if highest > 1e13 else (1e9, "GFLOP/s")


def tick(number: float) -> str:
    """A number without a unit: "0.01", "500", "10⁻⁷"."""
    return f"{number:.6g}" if number == 0 or 1e-4 < abs(number) < 1e5 else power(number)


def power(number: float) -> str:
    """ "10⁻⁷", "2·10⁸"."""
    factor, exponent = f"{number:.6e}".split("e")
    power_of_ten = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    factor = factor.rstrip("0").rstrip(".")
    return power_of_ten if factor == "1" else f"{factor}·{power_of_ten}"
