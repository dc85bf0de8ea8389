"""Which file a descriptor stands for: the training may close one of ours, and open its own in its place."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from ._signals import raise_again

File = Tuple[int, int]


def file_of(descriptor: int) -> Optional[File]:
    """None: it is closed."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        raise_again()
        return None
    return found.st_dev, found.st_ino
