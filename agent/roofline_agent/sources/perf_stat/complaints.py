"""Reports each thing that went wrong once, by raising it between two calls, and loses no row over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

Row = TypeVar("Row")
_DIFFERENT = 32


class Complaints(Generic[Row]):
    """What one source complains of. Raising OSError costs the rows of that call: they come with the next."""

    def __init__(self) -> None:
        self._reported: set[str] = set()
        self._kept: list[Row] = []

    def give(self, rows: Sequence[Row], complaint: str) -> list[Row]:
        """The rows to hand out. Raises OSError with a complaint that is new."""
        given = [*self._kept, *rows]
        self._kept = []
        if complaint and complaint not in self._reported and len(self._reported) < _DIFFERENT:
            self._reported.add(complaint)
            self._kept = given
            raise OSError(complaint)
        return given
