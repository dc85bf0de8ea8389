"""The command that a wrapper runs: how it is started, what is sent of it while it runs and when it has ended.

Its output goes through here (output.py, output_loop.py), signals reach it (launch.py, witness.py), and what
is read of its kernels and steps goes to the agent (agent_link.py). What fails here costs its own part of the
record, never the command.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from roofline.facts import STEPS_FROM, TRACE_STATE
from roofline_step.packets import Span
from roofline_step.sockets import socket_paths

from ..ranks import tags
from ..schedule import give_way
from ..verbose import VerboseFilter
from . import launch, step_log
from .agent_link import AgentLink
from .output import OutputStream, same_file
from .output_loop import TURN_S, forward_output
from .own_cost import OwnCost
from .rank_environment import HOOKS, Naming, RecordedKernels, kept, rank_environment, records_everything
from .rank_page import RankPage
from .reading import LineReading
from .step_log import StepLog
from .tracing import RankTraces
from .witness import TITLE, Witness

if TYPE_CHECKING:
    from ..ncu.session import Session

CALM_TURN_S, QUIET_TURN_S = 1.0, 5.0  # without output that says anything
REPLAYED = "ncu.steps"  # fact of a rank
EXIT = "exit"  # fact: exit code, or the signal that ended it, negative; node time


class Watcher(Protocol):
    """Reads what the command leaves behind for it while it runs."""

    environ: Mapping[str, str]  # variables for the command

    def look(self) -> Sequence[Span]:
        """What is new since the last look: (name, begin_ns, end_ns, bytes, count). Must not block."""
        ...

    def close(self) -> None:
        """The command has ended, and the last look is over."""
        ...


class WrappedCommand:
    """The command that runs now, its output streams, and what watches it."""

    def __init__(
        self,
        command: Sequence[str],
        naming: Naming,
        environ: Mapping[str, str],
        watchers: Sequence[Watcher],
        log: StepLog | None,
        notify: Callable[[str], None],
    ) -> None:
        self._command, self._naming, self._environ, self._notify = command, naming, environ, notify
        self._watchers = list(watchers)
        self._log = log
        self._signals = launch.hold_signals(step_log.SIGNALS if log is not None else ())
        self._witness: Witness | None = None
        self._session: Session | None = None
        self._recording = False
        self._page = RankPage()
        self.tracing = RankTraces(self._page, self._connect, self._say_trace, self._takes_operators)
        self._cost = OwnCost()
        self._outputs: list[OutputStream] = []
        self._exit_sent = False
        self._failures: set[str] = set()  # of which the user has been notified
        self.environ: Mapping[str, str] = environ  # of the command that runs now
        self.ending = threading.Event()  # a key or a signal has asked the command to end

    def start(self, kernels: RecordedKernels, steps: bool, session: Session | None) -> None:
        """Raises StartError."""
        # Kernels of the libraries and of the GPU would each be claimed to be all there were of a step.
        if session is not None:
            kernels = RecordedKernels("none")
        elif self._log is not None and kernels.which == "sampled":
            kernels = RecordedKernels("all")  # steps of a log come too late to switch at
        stdout, stderr, stdout_id = self._make_outputs(is_read=kernels.which != "none")
        env = rank_environment(self._environ, self._naming, HOOKS, stdout_id, kernels, steps)
        if self._log is not None:
            # Lines that wait in a buffer of the command's would all seem to be written at one moment.
            env.update({"PYTHONUNBUFFERED": "1", **env, **step_log.ENVIRON})
        env.update(self._page.environ)
        for watcher in self._watchers:
            env.update(watcher.environ)
        words = self._command
        if session is not None:
            env.update(session.environ)
            words = session.command(self._command)
        self.environ = env
        self._session = session
        self.tracing.has_hooks = steps and self._log is None and session is None
        self._reading = LineReading(kernels.overhead) if kernels.which == "sampled" else None
        self._recording = kernels.which != "none" and records_everything(env)
        self.child = launch.start(words, env, stdout, stderr, self._signals)
        give_way()  # the command must not inherit that
        for output in self._outputs:
            os.close(output.child_end)
            output.may_give_up = lambda: self.ending.is_set() and self.child.poll() is not None
        if self._witness is None:
            self._witness = Witness(launch.FORWARDED)
        self.link = self._connect()
        for name, value in tags.from_environ(self._environ).tags.items():
            self.link.send_fact(f"{tags.FACT}{name}", value)

    def _make_outputs(self, is_read: bool) -> tuple[int | None, int | None, str]:
        """The command's stdout and stderr, and the identity of the former. Ours (None) are those that nothing
        is read from. is_read: lines of kernels are; steps are read from both streams."""
        keep_onednn, keep_mkl = kept(self._environ)
        self._stdout = VerboseFilter(keep_onednn=keep_onednn, keep_mkl=keep_mkl)
        log = self._log
        if not is_read and log is None:
            self._outputs = []
            return None, None, ""
        stdout = OutputStream(1, self._stdout, log.stream() if log else None, self._notify)
        self._outputs = [stdout]
        # Else stdout would be a rest of milliseconds behind, and tear what goes to stderr, as progress bars.
        if same_file(1, 2):
            return stdout.child_end, stdout.child_end, stdout.identity
        if log is None:
            return stdout.child_end, None, stdout.identity
        stderr = OutputStream(2, None, log.stream(), self._notify)
        self._outputs.append(stderr)
        return stdout.child_end, stderr.child_end, stdout.identity

    def wait(self) -> int:
        """Forward output until there is no more and the command has ended; its exit status."""

        # Waking takes CPU from the training: seldom, where nothing but kernels is waited for.
        hurries = bool(self._log is not None or self._session is not None or self._watchers)

        def turn() -> float:
            self._try(self._send_kernels, self._send_steps, self._watch, self._trace, self._look_at_witness)
            if hurries or self.tracing.is_under_way:
                return TURN_S
            # Without an agent, or without notes of a sample, each turn claims what it covers.
            is_sampled = self.link.connected and (self._stdout.sampled or not self._recording)
            return QUIET_TURN_S if is_sampled else CALM_TURN_S

        forward_output(self.child, self._outputs, turn, TURN_S if hurries else CALM_TURN_S)
        while True:  # on an older kernel, its output may have ended long before
            try:
                return self.child.wait(TURN_S)
            except subprocess.TimeoutExpired:
                turn()

    def send_profiled(self, session: Session) -> int:
        """Send the kernels of a command that has ended under ncu; the command's own exit status."""
        status = session.wait(self.child.wait())
        self._send_replayed(session)
        taken = [
            self.link.send_all(calls, window.begin_ns, window.end_ns, window.closed)
            for window, calls in session.profiled()
        ]
        if not all(taken):
            self._notify("roofline-agent: no agent took these kernels: they are not recorded")
        session.close()
        return status

    def close(self) -> None:
        """Send what is left, for the command has ended."""
        if self._log is not None:
            self._try(self._log.finish, self._send_steps)
        self._try(self.tracing.close)
        if lost := sum(output.lost_bytes for output in self._outputs):
            self._notify(f"roofline-agent: {lost} bytes that the command printed could not be written")
        if self._witness is not None:
            self._try(self._witness.end)
        self._try(self._look_at_watchers, *(watcher.close for watcher in self._watchers), self._page.close)

    def send_exit(self, status: int, ended_ns: int) -> None:
        """Report how the command ended, once."""
        if not self._exit_sent:
            self._exit_sent = True
            pid = self._session.pid if self._session is not None else None
            text = f"{status} {ended_ns}" if pid is None else f"{status} {ended_ns} {pid}"
            self._try(lambda: self.link.send_fact(EXIT, text))

    def forward_signals(self) -> None:
        """From now on, in a thread of its own."""
        calls = self._send_signal, self._resize, self.ending.set, self._has_got
        arguments = (self._signals.forwarded, *calls)
        threading.Thread(target=launch.forward_signals, args=arguments, daemon=True).start()

    def _resize(self) -> None:
        """The terminal has another size. Its signal may have come to the command before its size did."""
        for output in self._outputs:
            output.resize()
        if any(output.is_tty for output in self._outputs):
            self._send_signal(signal.SIGWINCH)

    def _has_got(self, number: int) -> bool:
        """Whether the command has got a signal that came here, because it was sent to the whole group."""
        was_sent_to_all = self._witness is not None and self._witness.has_got(number)
        try:
            return was_sent_to_all and os.getpgid(self.child.pid) == os.getpgrp()
        except OSError:
            return True  # it has ended

    def _send_signal(self, number: int) -> None:
        """Signal the command; under ncu the command itself, for ncu keeps some signals to itself."""
        if self._session is None or not self._session.send_signal(number):
            with contextlib.suppress(OSError):
                self.child.send_signal(number)

    def _try(self, *tasks: Callable[[], None]) -> None:
        """Run these; an exception must not end the wrapper, for that would end the command."""
        for task in tasks:
            try:
                task()
            except Exception as error:
                failure = f"{type(error).__name__} in {task.__name__.strip('_')}"
                if failure not in self._failures:
                    self._failures.add(failure)
                    self._notify(
                        f"roofline-agent: the command goes on, a part is not recorded: {failure}: {error}"
                    )

    def _send_kernels(self) -> None:
        """Send the kernels seen so far: all that ended before now, unless some were not understood."""
        stretches, calls = self._stdout.take_stretches(), self._stdout.take()
        missed = any(output.missed() for output in self._outputs[:1])
        if self._recording and self._stdout.sampled:
            if (sampled_from_ns := self._stdout.take_sampled_from()) and not missed:
                self.link.send_calls(calls, sampled_from_ns)
            self.link.send_stretches(stretches)
            if self._stdout.timed:
                self._page.want_lines(self._wants_lines())
        elif self._recording and self._is_read(stdout := self._outputs[0]):
            # What the command does after it has closed its stream is not known from there.
            self.link.send_calls(calls, stdout.through_ns)
            if missed:
                self.link.claim_nothing_before(time.monotonic_ns())
        if not self._page.want_notes(self._stdout.notes_alone, self._stdout.reads):
            self._stdout.forget_time()
        now = time.monotonic_ns()
        if self._cost.is_due(now):
            self._page.show_cost(self._cost.share(now, self.link.agent))
            self._page.ask_for_fewer(self.link.take_fewer())
            self.link.send_fact("cost.wrapper_cpu_ns", str(time.process_time_ns()))
            if self._stdout.lines_seen and not self._stdout.sampled:
                self.link.send_fact("cost.kernel_lines", str(self._stdout.lines_seen))

    def _is_read(self, stdout: OutputStream) -> bool:
        """Whether the calls until now were read. Reading begins and ends here, between two reads."""
        was = self._stdout.reads
        self._stdout.reads = self._wants_lines()
        if self._stdout.reads and not was:
            self.link.claim_nothing_before(stdout.through_ns)
        return was

    def _wants_lines(self) -> bool:
        if self._reading is None:
            return True
        wanted = self._reading.wanted(time.monotonic(), self._stdout.lines_seen)
        if self._reading.period > 1:
            self.link.send_fact("cost.kernels", f"1/{self._reading.period}")
        return wanted

    def _send_steps(self) -> None:
        if self._log is not None and (borders := self._log.take()):
            self.link.send_fact(STEPS_FROM, self._log.described)
            self.link.send_borders(borders)

    def _connect(self) -> AgentLink:
        return AgentLink(self.child.pid, socket_paths(self._environ))

    def _say_trace(self, state: str, is_over: bool) -> None:
        self.link.send_fact(TRACE_STATE, state)
        if is_over:
            self._notify(f"roofline-agent: trace {state}")

    def _trace(self) -> None:
        for count, step_us in self.link.take_traces():
            self.tracing.ask_for_next(count, step_us)
        self.tracing.look()

    def _takes_operators(self) -> bool:
        return not self._recording or (self._stdout.sampled and not self._stdout.timed)

    def _send_replayed(self, session: Session) -> None:
        # How long the steps under ncu take says nothing about the training.
        if steps := session.replayed:
            self.link.send_fact(REPLAYED, steps)

    def _watch(self) -> None:
        """Check ncu and the watchers, and keep the agent informed."""
        if self._session is not None:
            self._session.check_progress(self.child)
            if (status := self._session.status) is not None:
                # Now: until ncu has ended too, the agent would have forgotten the rank.
                self.send_exit(status, time.monotonic_ns())
            if self._session.is_due():
                self.link.introduce()
                self._send_replayed(self._session)
        self._look_at_watchers()

    def _look_at_witness(self) -> None:
        problem = self._witness.problem() if self._witness is not None else ""
        if problem and problem not in self._failures:
            self._failures.add(problem)
            self._notify(
                "roofline-agent: a signal that is sent to the whole process group may reach the command "
                f"twice, as {TITLE.decode()}, which would tell, {problem}: send signals to the wrapper "
                f"alone, pid {os.getpid()}"
            )

    def _look_at_watchers(self) -> None:
        for watcher in list(self._watchers):
            try:
                self.link.send_spans(watcher.look())
            except Exception as error:
                # The training goes on, whatever becomes of what is watched.
                self._watchers.remove(watcher)
                self._notify(f"roofline-agent: {type(watcher).__name__} failed and is given up: {error}")
