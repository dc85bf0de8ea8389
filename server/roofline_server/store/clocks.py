"""What is known of every node's clock: exchanges, durable in the catalog, and arrivals of batches.

An exchange bounds a node's offset from both sides. A batch that arrives bounds it from one: it cannot have
been sent before its end. The least of those offsets stands in for a node that never answered a ping.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..clock import NodeClock
from ..ingest.decode import MAX_TIME_NS
from ..records import Knot
from .catalog import Catalog
from .numbers import Numbers


class Clocks(dict[int, NodeClock]):
    """The clock of each node, made when it is first asked for."""

    def __init__(self, make: Callable[[int], NodeClock]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, node: int) -> NodeClock:
        clock = self[node] = self._make(node)
        return clock


class ClockBook:
    """Collects what bounds the nodes' offsets and makes clocks of it. Thread-safe."""

    def __init__(self, catalog: Catalog, numbers: Numbers) -> None:
        self._catalog, self._numbers = catalog, numbers
        self._lock = threading.Lock()
        self._knots = catalog.knots()
        self._new_knots: list[tuple[int, Knot]] = []
        self._arrival: dict[int, int] = {}

    def add_knot(self, node: int, knot: Knot) -> None:
        """Take an exchange of a node; it becomes durable with the next `save`.

        One whose times cannot be is ignored: it would spoil every report.
        """
        if not (abs(knot.offset_ns) < MAX_TIME_NS and 0 <= knot.rtt_ns < MAX_TIME_NS):
            return
        with self._lock:
            self._knots.setdefault(node, []).append(knot)
            self._new_knots.append((node, knot))

    def arrived(self, node: int, end_ns: int, received_ns: int) -> None:
        """A batch that ended at end_ns of the node's time arrived at received_ns of the server's."""
        offset = received_ns - end_ns
        self._arrival[node] = min(offset, self._arrival.get(node, offset))

    def save(self) -> None:
        with self._lock:
            new, self._new_knots = self._new_knots, []
        if new:
            self._catalog.add_knots(new)

    def clocks(self) -> Clocks:
        """The clocks of all nodes, as they are known now."""
        return Clocks(self._clock)

    def _clock(self, node: int) -> NodeClock:
        if node in self._numbers.recordings:
            # Whoever sends it says nothing of the clock that it was recorded by: its times stand as they are.
            return NodeClock((Knot(0, 0, 0),))
        with self._lock:
            return NodeClock(self._knots.get(node, ()), self._arrival.get(node))
