"""Numbers as trainings pass them: of numpy, in tensors, as 256 / 2."""

from __future__ import annotations

import operator
from typing import Any, Optional

from ._signals import raise_again

LEAST, MOST = 1 - 2**63, 2**63 - 1  # that a mark can carry


def whole(value: Any, rounded: bool = False) -> Optional[int]:
    """This number as an int, `rounded` if it may be; None if it is no number, no whole one, or too large."""
    try:
        found = operator.index(value)
    except Exception:
        raise_again()
        try:
            found = round(float(value))
            if not rounded and found != float(value):
                return None
        except Exception:  # no number, infinite or not a number
            raise_again()
            return None
    return found if LEAST <= found <= MOST else None
