"""How long streams rest after large batches, while others send small ones: what comes in the middle of a
large commit waits for its end. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)

# Of the time, that large batches of one stream may take: some 7 MB/s.
SHARE = 0.02
LONGEST_S = 1.0  # of a rest: a disk that hung is not what the stream took
LATELY_S = 1.0  # so long after small batches their senders are taken to send more


class LargeBatches(Generic[S]):
    """Which streams rest. Times are of any one clock, s."""

    def __init__(self) -> None:
        self._until: dict[S, float] = {}
        self._small_at: float | None = None

    def committed(self, streams: Collection[S], is_large: bool, begin: float, end: float) -> None:
        """A group of large or of small batches of these streams was."""
        if not is_large:
            self._small_at = end
            return
        rest_s = min(LONGEST_S, (end - begin) / max(1, len(streams)) * (1 / SHARE - 1))
        self._until = {stream: until for stream, until in self._until.items() if until > end}
        for stream in streams:
            self._until[stream] = end + rest_s

    def rests(self, stream: S, now: float) -> bool:
        return self._has_others(now) and now < self._until.get(stream, now)

    def wait_s(self, now: float) -> float:
        """How long it is until a stream that rests has rested; 0: none rests."""
        left = [until - now for until in self._until.values() if until > now]
        return min(left, default=0.0) if self._has_others(now) else 0.0

    def _has_others(self, now: float) -> bool:
        return self._small_at is not None and now - self._small_at < LATELY_S
