"""Colours of kinds of kernels: by name, so that a kind has the same colour in every job.

A family of kernels (convolutions, matrix products, ...) has a hue, its directions have shades of that:
forward is lighter, the gradient of the weights darker than that of the data. Of a name of no known family the
name itself tells the colour. Only where two names of one picture would share a colour the later one by the
alphabet has its next.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain

# The first that is found in a name, as oneDNN, MKL, cuDNN, cuBLAS and PyTorch call their kernels.
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
    """By name its colour; no two have the same as long as there are colours."""
    given: dict[str, str] = {}
    for name in sorted(set(names)):
        free = (colour for colour in _choices(name) if colour not in given.values())
        given[name] = next(free, next(_choices(name)))
    return given


def _choices(name: str) -> Iterator[str]:
    """Colours from the name's own on."""
    lower = name.casefold()
    hue = next((colour for words, colour in FAMILIES if re.search(words, lower)), "")
    turn = zlib.crc32(name.encode()) % len(UNKNOWN)
    hues = [*([hue] if hue else []), *UNKNOWN[turn:], *UNKNOWN[:turn]]
    first = 0.4 if _LIGHTER.search(lower) else -0.25 if _DARKER.search(lower) else 0.0
    shades = [first, *(shade for shade in _SHADES if shade != first)]
    own = (shaded(hues[0], shade) for shade in shades) if hue else ()
    return chain(own, (shaded(other, shade) for shade in _SHADES for other in hues))


def shaded(colour: str, towards: float) -> str:
    """A colour made lighter (to 1, white) or darker (to -1, black)."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    mixed = (part + (255 - part) * towards if towards > 0 else part * (1 + towards) for part in parts)
    return "#" + "".join(f"{round(part):02X}" for part in mixed)
