"""Has the framework's profiler record steps of the wrapped rank, and sends what it recorded to the agent.

The hooks start and stop the profiler (hooks/tracing.py) and write the trace into a private folder, which is
removed when it has been read. Another process (`traced`) reads it and a thread waits for that, so that the
rank's output is forwarded meanwhile. If anything fails, only the trace is lost, and the reason is reported.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..hooks.tracing import JAX, UNNUMBERED
from ..traces.orders import ASKED, FAILED, READING, RECORDED, REFUSED
from .agent_link import AgentLink
from .rank_page import RankPage

if TYPE_CHECKING:
    from ..traces.handing import Done
    from ..traces.steps import TracedSteps

MOST_BYTES = 1 << 30  # of a trace
READ_S, CLOSE_S = 120.0, 60.0  # for reading one, and for all that is left when the command has ended
INTRODUCE_S = 5.0  # the agent must find the rank while it is alive
UNSTARTED_S = 600.0  # for the next steps to begin, where it was not said which steps
PAUSE_S = 0.25  # between two steps' kernels: an agent takes some 100,000 a second
BESIDE_KERNELS = (
    "oneDNN's and MKL's kernels of all steps are recorded, beside which operators would count twice; start "
    "the rank with --no-kernels"
)
NO_HOOKS = "no hooks mark its steps (--no-steps, --step-regex, --ncu), or they cannot be asked (no /proc)"


class RankTraces:
    """The traces of one command. At most one at a time."""

    def __init__(
        self,
        page: RankPage,
        connect: Callable[[], AgentLink],
        says: Callable[[str, bool], None],
        sends_operators: Callable[[], bool],
    ) -> None:
        """connect: a link of its own to the agent, for the command. says: is given each state, and whether
        it is the last, in the thread that looks. sends_operators: False where the kernels of all steps are
        recorded anyway."""
        self._page, self._connect, self._says, self._sends_operators = page, connect, says, sends_operators
        self.has_hooks = True  # that mark steps in the command
        self._folder: Path | None = None
        self._steps = ""
        self._link: AgentLink | None = None
        self._introduced = self._asked = 0.0
        self._reading: threading.Thread | None = None
        self._result = ""

    def ask(self, steps: str, step_us: int = 0) -> str:
        """Have these steps recorded ("100-102", or "+3" for the next three); why not, "" if so. step_us: how
        long one usually lasts, for a process that has no borders of its own."""
        if self._folder is not None:
            return f"a trace of {_named(self._steps)} is not finished"
        import tempfile  # loads what a wrapper needs for nothing else

        try:
            folder = Path(tempfile.mkdtemp(prefix="roofline-trace-"))
        except OSError as error:
            return f"no folder can be made for the trace: {error.strerror or error}"
        if not self.has_hooks or not self._page.ask_for_trace(f"{steps}@{step_us} {folder}"):
            shutil.rmtree(folder, ignore_errors=True)
            return NO_HOOKS
        self._folder, self._steps, self._result = folder, steps, ""
        self._asked, self._introduced = time.monotonic(), 0.0
        self._says(f"{ASKED} {_named(steps)}", False)
        return ""

    def ask_for_next(self, count: int, step_us: int = 0) -> None:
        """The agent asks for the next steps, and reads in the state what becomes of it."""
        if why := self.ask(f"+{count}", step_us):
            self._says(f"{REFUSED} {why}", True)

    @property
    def is_under_way(self) -> bool:
        return self._folder is not None

    def look(self) -> None:
        """In each turn: whether there is something to read, or was read. Does not block."""
        if self._folder is None:
            return
        if self._reading is not None:
            if not self._reading.is_alive():
                self._finish(self._result)
            return
        now = time.monotonic()
        if now - self._introduced > INTRODUCE_S:
            self._introduced = now
            if self._link is None:
                self._link = self._connect()
            self._link.introduce()
        failed, done = (next(iter(self._folder.glob(f"*.{what}")), None) for what in ("failed", "done"))
        if done is not None:
            self._page.withdraw_trace()
            self._says(f"{READING} {_named(self._steps)}", False)
            self._reading = threading.Thread(target=self._read, args=(done,), daemon=True)
            self._reading.start()
        elif failed is not None:
            self._finish(_not_recorded(self._steps, _reason_in(failed)))
        elif self._steps.startswith("+") and now - self._asked > UNSTARTED_S:
            self._finish(_not_recorded(self._steps, f"no step ended within {UNSTARTED_S:.0f} s"))

    def close(self) -> None:
        """The command has ended: read what it left."""
        until = time.monotonic() + CLOSE_S
        self.look()
        while self._reading is not None and time.monotonic() < until:
            self._reading.join(0.1)
            self.look()
        if self._folder is not None:
            self._finish(_not_recorded(self._steps, "the command ended before these steps did"))

    def _finish(self, state: str) -> None:
        folder, self._folder, self._reading = self._folder, None, None
        self._page.withdraw_trace()
        if self._link is not None:
            self._link.close()
            self._link = None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        self._says(state, True)

    def _read(self, path: Path) -> None:
        """In a thread of its own."""
        try:
            self._result = self._read_and_send(path)
        except Exception as error:
            self._result = _not_recorded(self._steps, f"{type(error).__name__}: {error}")

    def _read_and_send(self, path: Path) -> str:
        """What to say of it."""
        # One wrapper runs per rank: what only a trace needs is loaded with the first one.
        from ..child_process import ChildProcess, bare_environment
        from ..traces.handing import load, parse_done

        done, out = parse_done(path), path.with_suffix(".read")
        steps = _named_of(done)
        size = done.trace.stat().st_size
        if size > MOST_BYTES:
            return _not_recorded(
                steps, f"the trace is larger than {MOST_BYTES >> 20} MiB: ask for fewer steps"
            )
        command = [sys.executable, "-m", "roofline_agent.traces", str(path), str(out)]
        with ChildProcess(command, bare_environment("PYTHON")) as child:
            try:
                for _ in child.lines(total_s=READ_S):
                    pass
            except TimeoutError:
                return _not_recorded(
                    steps, f"the trace was not read within {READ_S:.0f} s: ask for fewer steps"
                )
            if child.returncode:
                return _not_recorded(steps, f"the trace cannot be read: {child.exit.reason}")
        found = load(out)
        what = f"{size / 1e6:.1f} MB, written in {done.stop_ns / 1e9:.2f} s"
        # What oneDNN does for XLA is not recorded (hooks/jax/calls.py).
        if not found.on_gpu and done.framework != JAX and not self._sends_operators():
            return _not_recorded(steps, BESIDE_KERNELS)
        if not found.steps:
            return _not_recorded(steps, "each has more calls than are taken")
        return f"{RECORDED} {steps}, {self._send(found, done.unix_minus_node_ns)} ({what})"

    def _send(self, found: TracedSteps, unix_minus_node_ns: int) -> str:
        """Send it, step by step; what was sent, and what was not. unix_minus_node_ns: as it was traced."""
        link = self._link
        assert link is not None
        calls = collectives = untaken = 0
        for step in found.steps:
            # They are taken for UNIX time as it is now, and the clock may have been set since.
            ahead_ns = time.time_ns() - time.monotonic_ns() - unix_minus_node_ns
            moved = [call._replace(start_ns=call.start_ns + ahead_ns) for call in step.calls]
            if not link.send_all(moved, step.begin_ns, step.end_ns, True):
                untaken += 1
                continue
            link.send_spans(step.collectives)
            calls += len(step.calls)
            collectives += len(step.collectives)
            time.sleep(PAUSE_S)
        kind = "kernels" if found.on_gpu else "operators"
        words = [f"{calls:,} {kind}"]
        words += [f"{collectives:,} collectives"] if collectives else []
        words += (
            [f"without steps {', '.join(map(str, found.omitted))}: too many calls"] if found.omitted else []
        )
        words += [f"of {untaken} steps no agent took them"] if untaken else []
        return ", ".join(words)


def _named(steps: str) -> str:
    if steps.startswith(("steps ", "step ")):
        return steps
    if steps.startswith("+"):
        return "the next step" if steps == "+1" else f"the next {steps[1:]} steps"
    first, _, last = steps.partition("-")
    return f"step {first}" if last in ("", first) else f"steps {first}-{last}"


def _named_of(done: Done) -> str:
    """What was recorded: the steps, or of a process without borders of its own the time."""
    if done.steps[0][0] == UNNUMBERED:
        (_, begin_ns, end_ns), *_ = done.steps
        return f"{(end_ns - begin_ns) / 1e9:.2f} s"
    return _named(f"{done.steps[0][0]}-{done.steps[-1][0]}")


def _not_recorded(steps: str, why: str) -> str:
    return f"{FAILED} {_named(steps)}: {why}"


def _reason_in(path: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        return str(json.loads(path.read_text()))
    return "the hooks did not say why"
