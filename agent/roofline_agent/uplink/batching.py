"""When a batch is closed: about once a second, and less often if the server asks for that, because a batch
costs it about the same regardless of its contents. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable

from ..schedule import Task

BATCH_NS = 1_000_000_000
# Each batch takes a millisecond of CPU time, most of it gRPC's, from a training that uses all CPUs: fewer are
# made when no rank has come or gone for a while.
CALM_BATCH_NS, CALM_AFTER_NS = 1_500_000_000, 30_000_000_000
MOST_HELD_NS = 10_000_000_000  # whatever a server asks for
MOST_HELD_BYTES = 256 << 10  # more is not gathered because of a server: it takes small batches together


class Batching:
    """Times are node time. `hold_ns` may be set by any thread, all else is called from one."""

    def __init__(self, now_ns: int, chance: Callable[[], float] = random.random) -> None:
        """chance: from 0 to 1; agents that start, or are asked, at the same time do not send at the same."""
        self.hold_ns = 0  # so long the server asks to gather; 0: it does not
        self._chance = chance
        self._task = Task(BATCH_NS, now_ns)
        self._task.begin_anew(BATCH_NS, now_ns, chance())
        self._followed_ns = 0  # of hold_ns
        self._closed_ns = self._changed_ns = now_ns
        self._own_ns = BATCH_NS
        self._bytes_per_s = 0.0  # of the last batch

    @property
    def next_ns(self) -> int:
        return self._task.next_ns

    @property
    def held_ns(self) -> int:
        """What the server asks for, where it makes batches longer; 0: it does not."""
        return self._followed_ns if self._task.period_ns > self._own_ns else 0

    def due(self, now_ns: int) -> bool:
        """Whether a batch is to be closed; `closed` follows."""
        if self.hold_ns != self._followed_ns:
            self._followed_ns = self.hold_ns
            self._task.begin_anew(self._period_ns(), now_ns, self._chance())
            self._task.bring_forward(self._closed_ns + MOST_HELD_NS)
        return self._task.due(now_ns)

    def _period_ns(self) -> int:
        return held_period_ns(self._own_ns, self._followed_ns, self._bytes_per_s)

    def ranks_changed(self, now_ns: int) -> None:
        """Some came or went: the server knows it within a second."""
        self._changed_ns = now_ns
        if self._task.next_ns - now_ns > BATCH_NS:
            self._task.bring_forward(now_ns + int(self._chance() * BATCH_NS))

    def half_full(self) -> None:
        """What waits fills half of a batch: it is closed as early as without a server's wish."""
        self._task.bring_forward(self._closed_ns + BATCH_NS)

    def closed(self, now_ns: int, sampled_every_ns: int, size: int) -> None:
        """A batch of so many bytes was."""
        self._bytes_per_s = 1e9 * size / max(1, now_ns - self._closed_ns)
        self._own_ns = own_period_ns(now_ns - self._changed_ns, sampled_every_ns)
        self._task.change(self._period_ns(), now_ns)
        self._closed_ns = now_ns


def own_period_ns(unchanged_ns: int, sampled_every_ns: int) -> int:
    """How long a batch is that no server wants longer. unchanged_ns: since a rank came or went."""
    is_calm = unchanged_ns > CALM_AFTER_NS and sampled_every_ns >= BATCH_NS
    return CALM_BATCH_NS if is_calm else BATCH_NS


def held_period_ns(own_ns: int, asked_ns: int, bytes_per_s: float) -> int:
    """How long a batch is where the server asks for asked_ns (0: for nothing) of an agent that has so much to
    send."""
    filled_ns = int(1e9 * MOST_HELD_BYTES / max(1.0, bytes_per_s))
    return max(own_ns, min(asked_ns, MOST_HELD_NS, filled_ns))
