"""Starts, follows and ends the process that measures, so that nothing it does can take the agent down.

The order goes to its standard input as a line of JSON: a command line can be read by everybody on the node,
and the order holds the key. The pipe stays open: when it closes, as it does however the agent ends, the child
ends. It answers with lines of JSON (`records`).
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from .records import Measure, Said, Serve, from_json

COMMAND = (sys.executable, "-m", "roofline_agent.netbench")
# With -m, Python looks for modules in the working directory first: the child runs this very package.
FOLDER = Path(__file__).resolve().parents[2]
END_S = 1.0


class Child:
    """One end of a benchmark, in a process and followed by a thread of its own."""

    def __init__(self, order: Serve | Measure, say: Callable[[Said], None]) -> None:
        """`say` hears everything, from the thread; the last thing has `done` or `error`."""
        self._order = order
        self._say = say
        self._stopped = False
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # a pipe could fill up
        self._process = subprocess.Popen(
            COMMAND,
            cwd=FOLDER,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self._thread = threading.Thread(target=self._follow, name="netbench", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it; `say` then hears an error."""
        self._stopped = True
        self._close()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _close(self) -> None:
        """Its pipe, at which it ends by itself; else by force."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _follow(self) -> None:
        last = Said(error="")
        try:
            self._give_order()
            for last in self._heard():
                if not (last.done or last.error):
                    self._say(last)
        except (ValueError, TypeError, KeyError) as error:
            last = Said(error=f"the measuring process wrote what it should not: {error}")
        finally:
            self._close()
            status = self._process.wait()
            if self._stopped:
                last = Said(error="it was stopped")
            elif not (last.done or last.error):
                last = Said(error=explain(status, self._complained()))
            self._complaints.close()
            assert self._process.stdout
            self._process.stdout.close()
            self._say(last)

    def _give_order(self) -> None:
        role = "serve" if isinstance(self._order, Serve) else "measure"
        assert self._process.stdin
        with contextlib.suppress(OSError):  # it has ended; its exit status says why
            self._process.stdin.write(json.dumps({"role": role, **self._order._asdict()}) + "\n")
            self._process.stdin.flush()

    def _heard(self) -> Any:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.endswith("\n"):  # else it died while it wrote this
                yield from_json(json.loads(line))

    def _complained(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode("utf-8", "replace").strip()


def explain(status: int, said: str) -> str:
    """Why it ended before its last word: from the exit status, as subprocess gives it, and standard error."""
    if status < 0:
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        hint = "; perhaps for memory: look at the kernel's log" if name == "SIGKILL" else ""
        return f"the measuring process was killed by {name}{hint}"
    last = said.splitlines()[-1] if said else "it gave no reason"
    return f"the measuring process ended with status {status}: {last}"
