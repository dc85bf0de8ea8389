"""Waits for what another thread does, so that Ctrl-C always gets through: in the middle of gRPC a
KeyboardInterrupt may be dropped by a callback, or leave a lock held that gRPC then waits for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any


class OtherThread:
    """Runs functions one after the other in a thread of its own. Use as a context manager."""

    def __init__(self) -> None:
        # These are in C: a signal interrupts their get() at once, and leaves no lock held.
        self._asked: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def __enter__(self) -> OtherThread:
        threading.Thread(target=self._work, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._asked.put(None)

    def run(self, function: Callable[[], Any], timeout: float | None = None) -> Any:
        """What `function` returns there; raises what it raises, and queue.Empty when it takes longer than
        `timeout` (s)."""
        self._asked.put(function)
        found, error = self._done.get(timeout=timeout)
        if error is not None:
            raise error
        return found

    def _work(self) -> None:
        while (function := self._asked.get()) is not None:
            try:
                self._done.put((function(), None))
            except Exception as error:
                self._done.put((None, error))
