"""Colours of kernels, by name, so that a kernel has the same colour in every job.

A family of kernels (convolutions, matrix products, ...) has a hue, and its directions are shades of it:
forward is lighter, the gradient of the weights darker than that of the data. An unknown name gets a colour
by its checksum. If two names of a plot would share a colour, the alphabetically later one gets its next
choice.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator

# The first match in a name counts. Names are those of oneDNN, MKL, cuDNN, cuBLAS and PyTorch.
FAMILIES = (
    (r"conv|dgrad|wgrad|winograd", "#77AADD"),
    (r"flash|attention|fmha", "#CC99BB"),
    (r"gemm|gemv|matmul|inner_product|cutlass", "#44BB99"),
    (r"rnn|lstm|gru", "#EE8866"),
    (r"reorder|copy|transpose|concat|permute|nchw|memset|memcpy", "#BBBBAA"),
    (r"pool", "#FFAABB"),
    (r"norm|bn_|lrn", "#BBCC33"),
    (r"softmax", "#CC8855"),
    (r"eltwise|elementwise|binary|sum|prelu", "#EEDD88"),
    (r"reduc", "#AA88CC"),
)
UNKNOWN = ("#99DDFF", "#AAAA00", "#D9B3A6", "#88AA77", "#C9A0DC", "#9FB0C0")
_LIGHTER, _DARKER = re.compile(r"forward|fwd|fprop"), re.compile(r"weights|wgrad|_bw_w")
_SHADES = (0.0, 0.4, -0.25, 0.2, -0.4, 0.6)  # towards white, below zero towards black


def of_kernels(names: Iterable[str]) -> dict[str, str]:
    """A colour for each name. They are all different as long as there are enough colours."""
    given: dict[str, str] = {}
    for name in sorted(set(names)):
        free = (colour for colour in _choices(name) if colour not in given.values())
        given[name] = next(free, next(_choices(name)))
    return given


def _choices(name: str) -> Iterator[str]:
    """Colours for a name, the best first."""
    lower = name.casefold()
    hue = next((colour for words, colour in FAMILIES if re.search(words, lower)), "")
    turn = zlib.crc32(name.encode()) % len(UNKNOWN)
    hues = [*UNKNOWN[turn:], *UNKNOWN[:turn]]
    if hue:
        first = 0.0
        if _LIGHTER.search(lower):
            first = 0.4
        elif _DARKER.search(lower):
            first = -0.25
        for shade in (first, *(other for other in _SHADES if other != first)):
            yield shaded(hue, shade)
        hues.insert(0, hue)
    for shade in _SHADES:
        for other in hues:
            yield shaded(other, shade)


def shaded(colour: str, towards: float) -> str:
    """A colour made lighter (to 1, white) or darker (to -1, black)."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    mixed = (part + (255 - part) * towards if towards > 0 else part * (1 + towards) for part in parts)
    return "#" + "".join(f"{round(part):02X}" for part in mixed)
