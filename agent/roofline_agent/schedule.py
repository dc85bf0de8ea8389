"""When the agent's regular work is due. Waking costs more than work, so what is nearly due is done too."""

from __future__ import annotations

SLACK_NS = 60_000_000
SLACK_SHARE = 4  # of its period, for what is done often


class Task:
    """Something due every `period_ns`, evenly spaced: a late round is skipped, not made up for."""

    def __init__(self, period_ns: int, first_ns: int) -> None:
        self._period_ns = period_ns
        self._next_ns = first_ns

    @property
    def period_ns(self) -> int:
        return self._period_ns

    def change(self, period_ns: int, now_ns: int) -> None:
        """Another period from now on; a shorter one does not wait for the old one's end."""
        self._period_ns = period_ns
        self._next_ns = min(self._next_ns, now_ns + period_ns)

    @property
    def next_ns(self) -> int:
        return self._next_ns

    def due(self, now_ns: int) -> bool:
        """Whether it is to be done now; if so the next time is set."""
        early = now_ns + min(SLACK_NS, self._period_ns // SLACK_SHARE)
        if early < self._next_ns:
            return False
        self._next_ns += self._period_ns * (1 + max(0, now_ns - self._next_ns) // self._period_ns)
        return True
