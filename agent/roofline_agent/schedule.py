"""When the agent's regular work is due. Waking costs more than work, so what is nearly due is done too."""

from __future__ import annotations

SLACK_NS = 60_000_000
SLACK_SHARE = 4  # of its period, for what is done often


class Task:
    """Something due every `period_ns`, evenly spaced: a late round is skipped, not made up for."""

    def __init__(self, period_ns: int, first_ns: int) -> None:
        self.period_ns = period_ns
        self._next_ns = first_ns

    @property
    def next_ns(self) -> int:
        return self._next_ns

    def due(self, now_ns: int) -> bool:
        """Whether it is to be done now; if so the next time is set."""
        early = now_ns + min(SLACK_NS, self.period_ns // SLACK_SHARE)
        if early < self._next_ns:
            return False
        self._next_ns += self.period_ns * (1 + max(0, now_ns - self._next_ns) // self.period_ns)
        return True
