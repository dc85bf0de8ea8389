"""Numbers as other tools print them."""

from __future__ import annotations

import math


def finite(text: str) -> float | None:
    """None for "-", "nan" and whatever else is no finite number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None
