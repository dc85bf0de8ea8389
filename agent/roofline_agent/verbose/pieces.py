"""Separates verbose lines that run together in one, as happens where threads print at once."""

from __future__ import annotations

import re
from itertools import pairwise

TOKEN = re.compile(r"(?:onednn|dnnl|mkldnn)_verbose,|MKL_VERBOSE ")


def pieces(line: str) -> list[str]:
    """The line itself, with whatever comes before its token, or one piece from each token to the next."""
    if line.count("_verbose,") + line.count("_VERBOSE ") == 1:
        return [line]
    starts = [match.start() for match in TOKEN.finditer(line)]
    return [line[start:end] for start, end in pairwise([*starts, len(line)])]
