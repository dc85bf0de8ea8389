"""Adds up the activities of a trace by name."""

from __future__ import annotations

from ..collector import MAX_PHASES, Collector


class Activities:
    """Adds up phases by name; a phase has bytes only where every one of its events has them."""

    def __init__(self) -> None:
        self._sums: dict[str, list[float]] = {}  # name -> count, seconds, bytes, events with bytes

    @property
    def names(self) -> list[str]:
        return list(self._sums)

    def add(self, name: str, time_s: float, moved: float | None = None) -> None:
        if name not in self._sums and len(self._sums) >= MAX_PHASES:
            name = "(other activities)"
        one = self._sums.setdefault(name, [0, 0.0, 0.0, 0])
        one[0] += 1
        one[1] += time_s
        if moved is not None:
            one[2] += moved
            one[3] += 1

    def finish(self, found: Collector) -> None:
        for name, (count, time_s, moved, known) in self._sums.items():
            if 0 < known < count:
                found.warn(
                    f"only {known:.0f} of {count:.0f} events of {name} have bytes: their sum is left out"
                )
            found.phase(name, time_s, int(count), moved if known == count else None)
