"""`roofline-agent run -- CMD`: starts one rank and stays out of its way.

The command keeps its stdin, stderr, terminal, process group and exit status; signals reach it (launch.py).
Its stdout goes through a filter that takes out the verbose lines this wrapper asked for, byte-exact otherwise
(output.py, pump.py). Nothing here may ever hold the training up: without an agent, or with a slow one, kernel
records are dropped and the time they cover is not claimed (link.py).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from roofline_step._sender import Span, socket_paths

from ..ranks import tags
from ..verbose import VerboseFilter
from . import launch, step_log
from .agent_link import AgentLink
from .border_notes import Notes
from .output import Output, same_file
from .output_loop import TURN_S, pump
from .rank_environment import Naming, kept, rank_environment, records_everything
from .step_log import StepLog

if TYPE_CHECKING:
    from ..ncu.session import Session


REPLAYED = "ncu.steps"  # fact of a rank


class Watcher(Protocol):
    """Looks at what the command leaves behind for it while it runs."""

    environ: Mapping[str, str]  # variables for the command

    def look(self) -> Sequence[Span]:
        """What is new since the last look: (name, begin_ns, end_ns, bytes, count). Must not block."""
        ...

    def close(self) -> None:
        """The command has ended, and the last look is over."""
        ...


def run(
    command: Sequence[str],
    naming: Naming,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    kernels: bool = True,
    steps: bool = True,
    profiled: tuple[tuple[int, int], ...] = (),
    watchers: Sequence[Watcher] = (),
    step_pattern: re.Pattern[str] | None = None,
) -> int:
    """Run the command as one rank; its exit status, negative when a signal ended it.

    say: tells the user.
    profiled: ranges of steps whose GPU kernels ncu counts; where it cannot, that is said and the command runs
    without. step_pattern: steps are read from what the command prints (step_log.py); its stderr then comes
    through here too. Raises StartError when it cannot be started.
    """
    say = _harmless(say)
    session = _profiler(command, profiled, environ, say) if profiled else None
    log = StepLog(step_pattern, say) if step_pattern else None
    running = _Running(command, naming, environ, watchers, log, say)
    running.start(kernels, steps, session)
    forward = (running.send_signal, running.resize, running.told_to_end.set)
    threading.Thread(target=launch.forward_signals, args=forward, daemon=True).start()
    if not running.link.connected:
        say("roofline-agent: no agent runs on this node, nothing is recorded until one is started")
    status = running.wait()
    if session is not None and session.started:
        status = _profiled(running, session, say)
    elif session is not None and running.told_to_end.is_set():
        session.close()  # what ended ncu was meant for the command
    elif session is not None:
        say("roofline-agent: ncu ended before it started the command, which now runs without it")
        session.close()
        running.start(kernels, steps, None)
        status = running.wait()
    running.close()
    return status


def _harmless(say: Callable[[str], None]) -> Callable[[str], None]:
    """Whoever reads what is said may have gone; the command has not."""

    def try_to(text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            say(text)

    return try_to


def _profiler(
    command: Sequence[str],
    profiled: tuple[tuple[int, int], ...],
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> Session | None:
    """A session of ncu; None when it cannot be had, and that is said."""
    from ..ncu.session import Session, Unusable, check

    if shutil.which(command[0], path=environ.get("PATH")) is None:
        return None  # starting it says so better
    try:
        ncu, metrics = check(environ)
        return Session(ncu, metrics, profiled, say)
    except Unusable as error:
        say(f"roofline-agent: the command runs without ncu: {error}")
    except OSError as error:
        say(f"roofline-agent: the command runs without ncu: {error.strerror or error}")
    return None


def _profiled(running: _Running, session: Session, say: Callable[[str], None]) -> int:
    """Hand over the kernels of a command that has ended under ncu; the command's own exit status."""
    status = session.wait(running.child.wait())
    tell_replayed(running.link, session)
    taken = [
        running.link.send_all(calls, window.begin_ns, window.end_ns, window.closed)
        for window, calls in session.profiled()
    ]
    if not all(taken):
        say("roofline-agent: no agent took these kernels: they are not recorded")
    session.close()
    return status


def tell_replayed(link: AgentLink, session: Session) -> None:
    """The steps under ncu, once there are any: how long they take says nothing of the training."""
    if steps := session.replayed:
        link.send_fact(REPLAYED, steps)


class _Running:
    """The command that runs now, the way of its output, and what else hears of it."""

    def __init__(
        self,
        command: Sequence[str],
        naming: Naming,
        environ: Mapping[str, str],
        watchers: Sequence[Watcher],
        log: StepLog | None,
        say: Callable[[str], None],
    ) -> None:
        self._command, self._naming, self._environ, self._say = command, naming, environ, say
        self._watchers = list(watchers)
        self._log = log
        self._mask = launch.hold_signals()
        self._session: Session | None = None
        self._recording = False
        self._notes = Notes()
        self._outputs: list[Output] = []
        self._troubles: set[str] = set()  # that were said
        self.told_to_end = threading.Event()  # by a key or a signal

    def start(self, kernels: bool, steps: bool, session: Session | None) -> None:
        """Raises StartError."""
        stdout, stderr = self._make_outputs()
        hooks = Path(__file__).parents[1] / "hooks" / "inject"
        # Kernels of the libraries and of the GPU would each be claimed to be all there were of a step.
        kernels = kernels and session is None
        env = rank_environment(self._environ, self._naming, hooks, stdout.identity, kernels, steps)
        if self._log is not None:
            # Lines that wait in a buffer of the command's would all seem to be written at one moment.
            env.update({"PYTHONUNBUFFERED": "1", **env, **step_log.ENVIRON})
        env.update(self._notes.environ)
        for watcher in self._watchers:
            env.update(watcher.environ)
        words = self._command
        if session is not None:
            env.update(session.environ)
            words = session.command(self._command)
        self._session = session
        self._recording = kernels and records_everything(env)
        self.child = launch.start(words, env, stdout.child_end, stderr, self._mask)
        for output in self._outputs:
            os.close(output.child_end)
        self.link = AgentLink(self.child.pid, socket_paths(self._environ))
        for name, value in tags.said_by(self._environ).tags.items():
            self.link.send_fact(f"{tags.FACT}{name}", value)

    def _make_outputs(self) -> tuple[Output, int | None]:
        """The way of stdout, and what becomes the command's stderr: ours, unless its lines are looked at."""
        keep_onednn, keep_mkl = kept(self._environ)
        self._stdout = VerboseFilter(keep_onednn=keep_onednn, keep_mkl=keep_mkl)
        log = self._log
        stdout = Output(1, self._stdout, log.stream() if log else None)
        self._outputs = [stdout]
        if log is None:
            return stdout, None
        if same_file(1, 2):
            return stdout, stdout.child_end
        stderr = Output(2, None, log.stream())
        self._outputs.append(stderr)
        return stdout, stderr.child_end

    def wait(self) -> int:
        """Move output until there is no more and the command has ended; its exit status."""
        pump(self.child, self._outputs, self._turn)
        while True:  # its output may have ended long before
            try:
                return self.child.wait(TURN_S)
            except subprocess.TimeoutExpired:
                self._safely(self._look_after)

    def _turn(self) -> None:
        self._safely(self._hand_over, self._tell_steps, self._look_after)

    def _safely(self, *tasks: Callable[[], None]) -> None:
        """Nothing of this may end the wrapper, for that would end the command."""
        for task in tasks:
            try:
                task()
            except Exception as error:
                trouble = f"{type(error).__name__} in {task.__name__.strip('_')}"
                if trouble not in self._troubles:
                    self._troubles.add(trouble)
                    self._say(
                        f"roofline-agent: the command goes on, a part is not recorded: {trouble}: {error}"
                    )

    def _tell_steps(self) -> None:
        if self._log is not None and (borders := self._log.take()):
            self.link.send_fact("steps.from", self._log.described)
            self.link.send_borders(borders)

    def _hand_over(self) -> None:
        """Send the kernels seen so far: all that ended before now, unless some were not understood."""
        stdout = self._outputs[0]
        calls, missed = self._stdout.take(), stdout.missed()
        if self._recording:
            self.link.send_calls(calls, time.monotonic_ns() if stdout.ended else stdout.through_ns)
            if missed:
                self.link.give_up_until(time.monotonic_ns())
        if not self._notes.want(self._stdout.notes_alone):
            self._stdout.forget_time()

    def _look_after(self) -> None:
        """Keep an eye on ncu and on what the watchers watch, and the agent informed."""
        if self._session is not None:
            self._session.look(self.child)
            if self._session.is_due():
                self.link.introduce()
                tell_replayed(self.link, self._session)
        self._look_at_watchers()

    def _look_at_watchers(self) -> None:
        for watcher in list(self._watchers):
            try:
                self.link.send_spans(watcher.look())
            except Exception as error:
                # The training goes on, whatever becomes of what is watched.
                self._watchers.remove(watcher)
                self._say(f"roofline-agent: {type(watcher).__name__} failed and is given up: {error}")

    def close(self) -> None:
        """A last look, for the command has ended."""
        if self._log is not None:
            self._safely(self._log.finish, self._tell_steps)
        self._safely(
            self._look_at_watchers, *(watcher.close for watcher in self._watchers), self._notes.close
        )

    def resize(self) -> None:
        for output in self._outputs:
            output.resize()

    def send_signal(self, number: int) -> None:
        """Signal the command; under ncu the command itself, for ncu keeps some signals to itself."""
        if self._session is None or not self._session.send_signal(number):
            with contextlib.suppress(OSError):
                self.child.send_signal(number)
