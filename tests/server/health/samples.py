"""What a page of Prometheus metrics says."""

from __future__ import annotations

import re

SAMPLE = re.compile(r'([a-z_]+)(\{[a-z]+="[^"\n]*"(?:,[a-z]+="[^"\n]*")*\})? (-?[0-9.e+-]+)')


def samples(found: str) -> dict[str, float]:
    """Name with labels -> value; fails for a line that is neither a comment nor a sample."""
    made = {}
    for line in found.splitlines():
        if not line.startswith("# "):
            matched = SAMPLE.fullmatch(line)
            assert matched, line
            made[matched[1] + (matched[2] or "")] = float(matched[3])
    return made
