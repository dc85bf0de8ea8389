"""What this agent does about network benchmarks: one at a time, each end in a child, ceilings kept."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from roofline_agent.calibrate.records import Ceiling

from .child import Child
from .records import Measure, Said, Serve

log = logging.getLogger(__name__)

Say = Callable[[Said], None]


class NetBench:
    """Starts and ends children; a thread of each child tells what it says. Safe to call from any thread."""

    def __init__(
        self,
        keep: Callable[[Sequence[Ceiling]], None],
        start: Callable[[Serve | Measure, Say], Child] = Child,
    ) -> None:
        """`keep` is handed the ceilings of a run that was measured here, before the last thing is said."""
        self._keep = keep
        self._start = start
        self._lock = threading.Lock()
        self._running: dict[str, Child] = {}  # by role
        self._key = ""

    def begin(self, order: Serve | Measure, say: Say) -> None:
        """Start an end of a benchmark, or say why not. An agent may be both ends of the same one."""
        role = "serving" if isinstance(order, Serve) else "measuring"
        with self._lock:
            if self._running and (self._key != order.key or role in self._running):
                say(Said(error=f"busy with another network benchmark ({', '.join(self._running)})"))
                return
            log.info("network benchmark: %s", role)
            try:
                self._running[role] = self._start(order, lambda said: self._pass_on(role, said, say))
            except OSError as error:
                say(Said(error=f"the measuring process cannot be started: {error.strerror or error}"))
                return
            self._key = order.key

    def stop(self, key: str = "") -> None:
        """End what was begun with this key; without one whatever runs. Returns when it has ended."""
        with self._lock:
            children = list(self._running.values()) if key in ("", self._key) else []
        for child in children:
            child.stop()
        for child in children:
            child.join(5)

    def _pass_on(self, role: str, said: Said, say: Say) -> None:
        if said.done and said.ceilings:
            said = self._kept(said)
        if said.done or said.error:
            # First: whoever hears that it has ended may begin the next.
            with self._lock:
                self._running.pop(role, None)
            log.info("network benchmark: %s has ended%s", role, f" ({said.error})" if said.error else "")
        say(said)

    def _kept(self, said: Said) -> Said:
        try:
            self._keep(said.ceilings)
        except Exception as error:
            log.exception("the network ceilings could not be kept")
            return Said(error=f"measured, but the ceilings could not be kept: {error}")
        return said
