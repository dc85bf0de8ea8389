"""Says each thing that went wrong once, by raising it between two calls, and loses no row over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

Row = TypeVar("Row")
_DIFFERENT = 32


class Complaints(Generic[Row]):
    """What a source has to say. Raising OSError costs the rows of that call: they come with the next."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._kept: list[Row] = []

    def give(self, rows: Sequence[Row], complaint: str) -> list[Row]:
        """The rows to hand out. Raises OSError with a complaint that nobody has heard yet."""
        given = [*self._kept, *rows]
        self._kept = []
        if complaint and complaint not in self._said and len(self._said) < _DIFFERENT:
            self._said.add(complaint)
            self._kept = given
            raise OSError(complaint)
        return given
