"""The process of one end of a benchmark: an order comes in, lines of JSON go out (see `child`)."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from .errors import NetBenchError
from .messages import BenchReport, MeasureOrder, ServeOrder, to_json
from .sender import measure
from .serving import serve
from .workers import be_worker


def main() -> None:
    # Ctrl-C in the agent's terminal is for the agent, at whose end this ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lines = _lines()
    order = json.loads(next(lines))
    role = order.pop("role")
    status = 0
    try:
        if role == "serve":
            serve(ServeOrder(**order), _report)
        elif role == "measure":
            order["addresses"] = tuple(order["addresses"])
            measure(MeasureOrder(**order), _report)
        else:
            be_worker(order, lines, _write)
    except NetBenchError as error:
        status = 1
        _report(BenchReport(error=str(error)))
    # At once: gRPC's threads may be in the middle of a call to somebody who has gone.
    os._exit(status)


def _lines() -> Iterator[str]:
    """What the parent writes; when it has gone, this process ends, whatever it is at."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            waiting.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield waiting.get()


def _report(report: BenchReport) -> None:
    _write(to_json(report))


def _write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
