"""How fast a source is asked: perf's interval follows when somebody changes the agent's rate. Pure."""

from __future__ import annotations

from collections import deque

MIN_INTERVAL_NS = 10_000_000  # perf's own lower bound
_GAPS = 5  # that agree before they are believed: one late round is no new rate
_ALIKE = 1.25


class Pace:
    """The interval that perf is to print at."""

    def __init__(self, interval_ns: int) -> None:
        self.interval_ns = max(MIN_INTERVAL_NS, interval_ns)
        self._last_ns: int | None = None
        self._gaps: deque[int] = deque(maxlen=_GAPS)

    @property
    def interval_ms(self) -> int:
        return self.interval_ns // 1_000_000

    def asked(self, now_ns: int) -> bool:
        """Note that the source is asked now; True where it has another pace from here on."""
        last, self._last_ns = self._last_ns, now_ns
        if last is None:
            return False
        self._gaps.append(now_ns - last)
        shortest = min(self._gaps)
        # Faster than perf can print is nobody's rate.
        if len(self._gaps) < _GAPS or shortest < MIN_INTERVAL_NS or max(self._gaps) > _ALIKE * shortest:
            return False
        gap = sum(self._gaps) // _GAPS
        if self.interval_ns / _ALIKE < gap < self.interval_ns * _ALIKE:
            return False
        # Two digits: the agent's rate is a round number, its rounds are not.
        digits = 10 ** max(0, len(str(gap)) - 2)
        self.interval_ns = max(MIN_INTERVAL_NS, round(gap / digits) * digits)
        return True
