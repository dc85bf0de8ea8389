"""Numbers as DCGM writes them, with its codes for values that it does not have."""

from __future__ import annotations

import re

_BLANKS = ("blank", "not found", "not supported", "no permission")  # dcgm_fields.h, in this order
_BLANK_BASES = (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 140737488355328)  # INT32, INT64, FP64


def blank(text: str) -> str:
    """Why DCGM has no value here, "" where the text is none of its codes for that."""
    value = int(text) if re.fullmatch(r"\d{1,20}", text) else number(text)
    if value is None:
        return ""
    if isinstance(value, float) and value == 2.0**63:
        return "no value"  # of the four codes, which one is lost in the rounding
    for base in _BLANK_BASES:
        if 0 <= value - base <= 3 and value == int(value):
            return _BLANKS[int(value - base)]
    return ""


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def number(text: str) -> float | None:
    if not is_number(text):
        return None
    value = float(text)
    return value if abs(value) < float("inf") else None
