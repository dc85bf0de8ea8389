"""Starts, follows and ends the process that measures, so that nothing it does can take the agent down.

The order goes to its standard input as a line of JSON: a command line can be read by everybody on the node,
and the order holds the key. The pipe stays open: when it closes, as it does however the agent ends, the child
ends. It answers with lines of JSON (`messages`).
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from ..child_process import ChildProcess, Exit
from .messages import BenchReport, MeasureOrder, ServeOrder, from_json

COMMAND = (sys.executable, "-m", "roofline_agent.netbench")
# With -m, Python looks for modules in the working directory first: the child runs this very package.
FOLDER = Path(__file__).resolve().parents[2]
END_S = 1.0


class BenchmarkProcess:
    """One end of a benchmark, in a process and followed by a thread of its own."""

    def __init__(self, order: ServeOrder | MeasureOrder, report: Callable[[BenchReport], None]) -> None:
        """`report` gets all that it reports, from the thread; the last one has `done` or `error`."""
        self._order = order
        self._report = report
        self._stopped = False
        self._process = ChildProcess(COMMAND, directory=FOLDER, takes_input=True)
        self._thread = threading.Thread(target=self._follow, name="netbench", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        """End it; the last report is then an error."""
        self._stopped = True
        self._process.close_input()
        self._process.stop(None, END_S)

    def kill(self) -> None:
        self._process.kill()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _follow(self) -> None:
        last = BenchReport(error="")
        with self._process:
            try:
                role = "serve" if isinstance(self._order, ServeOrder) else "measure"
                with contextlib.suppress(OSError):  # it has ended; its exit status says why
                    self._process.write_line(json.dumps({"role": role, **self._order._asdict()}))
                for line in self._process.lines():
                    last = from_json(json.loads(line))
                    if not (last.done or last.error):
                        self._report(last)
            except (ValueError, TypeError, KeyError) as error:
                last = BenchReport(error=f"the measuring process wrote what it should not: {error}")
            self._process.close_input()
            self._process.stop(None, END_S)
            ended = self._process.exit
        if self._stopped:
            last = BenchReport(error="it was stopped")
        elif not (last.done or last.error):
            last = BenchReport(error=explain_exit(ended))
        self._report(last)


def explain_exit(ended: Exit) -> str:
    """Why it ended before its last report."""
    if ended.signal:
        hint = "; perhaps for memory: look at the kernel's log" if ended.signal == "SIGKILL" else ""
        return f"the measuring process was killed by {ended.signal}{hint}"
    return f"the measuring process ended with status {ended.status}: {ended.reason}"
