"""What a signal's handler raises is meant for the training: what our hooks swallow must not be that."""

from __future__ import annotations

import sys
from typing import Any


def raise_again() -> None:
    """For an `except` that swallows errors: raise the exception again if a signal's handler raised it."""
    step: Any = sys.modules.get("roofline_step")
    again = getattr(step, "raise_again", None)  # the training may have an older one of its own
    if again is not None:
        again()
