"""TensorFlow: which of several things that are trained makes the steps.

Pure logic. Of several that take turns, as in a GAN, the first does; once it is not called for long, the next.
"""

from __future__ import annotations

import weakref
from typing import Any

PATIENCE = 8  # calls of others after which the first thing trained counts as no longer trained


class Leader:
    """What the steps are of: a model, a function or a variable, which is not kept alive."""

    __slots__ = ("_key", "_others")

    def __init__(self) -> None:
        self._key: Any = lambda: None
        self._others = 0  # calls since its last one

    def is_now(self, key: Any) -> bool:
        return self._key() is key

    def becomes(self, key: Any) -> None:
        self._key, self._others = weakref.ref(key), 0

    def makes_steps(self, key: Any) -> bool:
        """A call that trains `key` ended: whether that leads, or does from now on."""
        leader = self._key()
        if leader is key:
            self._others = 0
        elif leader is not None and self._others < PATIENCE:
            self._others += 1
            return False
        else:
            self.becomes(key)
        return True

    def goes_on(self) -> bool:
        """An update was made for what leads, by a call of its own: whether anything leads."""
        self._others = 0
        return self._key() is not None
