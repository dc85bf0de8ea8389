"""`roofline-agent run -- CMD`: starts one rank and stays out of its way.

The command keeps its stdin, stderr, terminal, process group and exit status; signals reach it; its stdout
goes through a filter that takes out the verbose lines this wrapper asked for, byte-exact otherwise. Nothing
here may ever hold the training up: without an agent, or with a slow one, kernel records are dropped and the
time they cover is not claimed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from roofline_step._sender import socket_paths

from .link import KernelLink
from .verbose import VerboseFilter

if TYPE_CHECKING:
    from .ncu.session import Session

FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
)
SI_KERNEL = 0x80  # a key at the terminal: the whole process group has it already
GROUP_KILL_S = 0.02
PR_SET_PDEATHSIG = 1
PIPE_BYTES = 1 << 20
READ_BYTES = 1 << 20
# Verbose lines come one write each; a reader that wakes for each takes CPU from the training. A terminal's
# buffer is too small to wait for long.
COALESCE_S, COALESCE_TTY_S = 0.05, 0.002
FLUSH_S = 0.2
GRACE_S = 0.05
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # as a shell says it

ONEDNN_SWITCHES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")
TIMESTAMP_SWITCHES = ("ONEDNN_VERBOSE_TIMESTAMP", "DNNL_VERBOSE_TIMESTAMP")


class Naming(NamedTuple):
    """What the user says about the rank; None: let the environment say."""

    job: str | None = None
    role: str | None = None
    rank: int | None = None
    name: str | None = None


def rank_environment(
    environ: Mapping[str, str], naming: Naming, hooks: Path, stdout_id: str, kernels: bool, steps: bool
) -> dict[str, str]:
    """The environment of the wrapped command: the caller's, plus what makes steps and kernels visible."""
    env = dict(environ)
    env["ROOFLINE_WRAPPED"] = "1"
    for key, value in naming._asdict().items():
        if value is not None:
            env[f"ROOFLINE_{key.upper()}"] = str(value)
    if steps:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(hooks), environ.get("PYTHONPATH", "")]))
        env["ROOFLINE_STDOUT"] = stdout_id
    if kernels:
        # Someone who set a switch wants just that; their lines are also left in the output (`kept`).
        if not any(name in environ for name in ONEDNN_SWITCHES):
            env.update(dict.fromkeys(ONEDNN_SWITCHES, "1"))
            env.update(dict.fromkeys(TIMESTAMP_SWITCHES, "1"))
        env.setdefault("MKL_VERBOSE", "1")
    return env


def kept(environ: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether (oneDNN, MKL) verbose lines are the user's own wish and stay in the output."""
    return any(name in environ for name in ONEDNN_SWITCHES), "MKL_VERBOSE" in environ


def records_everything(env: Mapping[str, str]) -> bool:
    """Whether the command's environment makes both libraries report every kernel; else none is claimed."""
    switches = [env.get(ONEDNN_SWITCHES[0], env.get(ONEDNN_SWITCHES[1], "")), env.get("MKL_VERBOSE", "")]
    return all(value not in ("", "0", "none") for value in switches)


class Output:
    """The way of the rank's stdout to ours."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.is_tty = os.isatty(1)
        if self.is_tty:
            self.source, self.child_end = pty.openpty()
            _imitate_terminal(self.child_end)
        else:
            self.source, self.child_end = os.pipe()
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        # Above this much at once more is on its way, and waiting would hold the rank up.
        self.patience = 2048 if self.is_tty else READ_BYTES // 4
        keep_onednn, keep_mkl = kept(environ)
        self.filter = VerboseFilter(keep_onednn=keep_onednn, keep_mkl=keep_mkl)
        self._deaf = False
        self._missed = 0

    @property
    def identity(self) -> str:
        """Tells the hooks in the rank whether its fd 1 still is this stream."""
        status = os.fstat(self.child_end)
        return f"{status.st_dev}:{status.st_ino}"

    def read(self) -> bytes:
        """What has come; empty at the end of the stream."""
        try:
            return os.read(self.source, READ_BYTES)
        except OSError:
            return b""  # a pty ends with EIO

    def write(self, data: bytes) -> None:
        """Pass on to the user; once nobody listens, the rank finds out as it would have without us."""
        view = memoryview(data)
        while view and not self._deaf:
            try:
                view = view[os.write(1, view) :]
            except BlockingIOError:
                select.select([], [1], [], 1.0)
            except OSError:
                self._deaf = True
                os.close(self.source)

    def missed(self) -> bool:
        """Whether kernels were seen since the last call that could not be kept or understood."""
        before, self._missed = self._missed, self.filter.lines_unparsed + self.filter.calls_dropped
        return self._missed > before

    @property
    def deaf(self) -> bool:
        return self._deaf

    def resize(self) -> None:
        """Tell the rank's terminal the size of ours."""
        if self.is_tty:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.source, termios.TIOCSWINSZ, fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8))


def _imitate_terminal(descriptor: int) -> None:
    # The real terminal translates newlines; doing it twice would double them.
    attributes = termios.tcgetattr(1)
    attributes[tty.OFLAG] &= ~termios.OPOST
    termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, fcntl.ioctl(1, termios.TIOCGWINSZ, b"\0" * 8))


class StartError(Exception):
    """The command could not be started; `status` is the shell's exit status for it."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def run(
    command: Sequence[str],
    naming: Naming,
    environ: Mapping[str, str],
    kernels: bool = True,
    steps: bool = True,
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr),  # noqa: T201
    profiled: tuple[tuple[int, int], ...] = (),
) -> int:
    """Run the command as one rank; its exit status, negative when a signal ended it.

    profiled: ranges of steps whose GPU kernels ncu counts; where it cannot, that is said and the command runs
    without. Raises StartError when it cannot be started.
    """
    session = _profiler(command, profiled, environ, say) if profiled else None
    running = _Running(command, naming, environ, say)
    running.start(kernels, steps, session)
    threading.Thread(target=_forward_signals, args=(running,), daemon=True).start()
    if not running.link.connected:
        say("roofline-agent: no agent runs on this node, nothing is recorded until one is started")
    running.pump()
    if session is None:
        return running.child.wait()
    if session.started:
        return _profiled(running, session, say)
    running.child.wait()
    say("roofline-agent: ncu ended before it started the command, which now runs without it")
    session.close()
    running.start(kernels, steps, None)
    running.pump()
    return running.child.wait()


def _profiler(
    command: Sequence[str],
    profiled: tuple[tuple[int, int], ...],
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> Session | None:
    """A session of ncu; None when it cannot be had, and that is said."""
    from .ncu.session import Session, Unusable, check

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
    """Wait for a command under ncu and hand its kernels over; the command's own exit status."""
    while running.child.poll() is None:  # its output may have ended long before
        time.sleep(FLUSH_S)
        running.look_after()
    status = session.wait(running.child.wait())
    taken = [
        running.link.send_all(calls, window.begin_ns, window.end_ns, window.closed)
        for window, calls in session.profiled()
    ]
    if not all(taken):
        say("roofline-agent: no agent took these kernels: they are not recorded")
    session.close()
    return status


class _Running:
    """The command that runs now, the way of its output, and what else hears of it."""

    def __init__(
        self, command: Sequence[str], naming: Naming, environ: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        self._command, self._naming, self._environ, self._say = command, naming, environ, say
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
        self._session: Session | None = None
        self._recording = False

    def start(self, kernels: bool, steps: bool, session: Session | None) -> None:
        """Raises StartError."""
        self.output = Output(self._environ)
        hooks = Path(__file__).parent / "hooks" / "inject"
        # Kernels of the libraries and of the GPU would each be claimed to be all there were of a step.
        kernels = kernels and session is None
        env = rank_environment(self._environ, self._naming, hooks, self.output.identity, kernels, steps)
        words = self._command
        if session is not None:
            env.update(session.environ)
            words = session.command(self._command)
        self._session = session
        self._recording = kernels and records_everything(env)
        self.child = _start(words, env, self.output, self._mask)
        os.close(self.output.child_end)
        self.link = KernelLink(self.child.pid, socket_paths(self._environ))

    def pump(self) -> None:
        """Move output until there is no more."""
        _pump(self.child, self.output, self.link if self._recording else None, self.look_after)

    def look_after(self) -> None:
        """Keep an eye on ncu, and the agent informed."""
        if self._session is not None:
            self._session.look(self.child)
            if self._session.is_due():
                self.link.introduce()

    def send_signal(self, number: int) -> None:
        """Signal the command; under ncu the command itself, for ncu keeps some signals to itself."""
        if self._session is None or not self._session.send_signal(number):
            with contextlib.suppress(OSError):
                self.child.send_signal(number)


def _start(
    command: Sequence[str], env: Mapping[str, str], output: Output, mask: set[int | signal.Signals]
) -> subprocess.Popen[bytes]:
    parent, libc = os.getpid(), ctypes.CDLL(None)

    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # kill -9 of this wrapper is meant for the command.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        return subprocess.Popen(
            command, stdout=output.child_end, env=env, close_fds=False, preexec_fn=in_child
        )
    except FileNotFoundError:
        raise StartError(f"{command[0]}: no such command", NOT_FOUND) from None
    except OSError as error:
        raise StartError(f"{command[0]}: {error.strerror}", NOT_EXECUTABLE) from None


def _forward_signals(running: _Running) -> None:
    while True:
        got = signal.sigwaitinfo(FORWARDED)
        if got.si_signo == signal.SIGWINCH:
            running.output.resize()
            continue
        # The terminal of a session's leader has closed: only the leader is told.
        alone = got.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid()
        if got.si_code == SI_KERNEL and not alone:
            continue
        # The same signal may have been sent to the whole group; a command that took it is on its way out.
        time.sleep(GROUP_KILL_S)
        running.send_signal(got.si_signo)


def _pump(
    child: subprocess.Popen[bytes],
    output: Output,
    link: KernelLink | None,
    look_after: Callable[[], None],
) -> None:
    """Move output until the stream ends, or the command has ended and what it wrote is through."""
    poller = select.poll()
    poller.register(output.source, select.POLLIN)
    flushed = time.monotonic()
    while not output.deaf:
        ready = poller.poll(FLUSH_S * 1000)
        moment = time.monotonic_ns()
        if ready:
            data = output.read()
            if not data:
                break
            output.write(output.filter.feed(data, time.time_ns()))
            if len(data) < output.patience:
                time.sleep(COALESCE_TTY_S if output.is_tty else COALESCE_S)
        else:
            output.write(output.filter.release())
        if time.monotonic() - flushed >= FLUSH_S:
            flushed = time.monotonic()
            _hand_over(output, link, moment)
            look_after()
            if child.poll() is not None and _leave_to_background(output):
                return
    if not output.deaf:
        output.write(output.filter.finish())
    _hand_over(output, link, time.monotonic_ns())


def _hand_over(output: Output, link: KernelLink | None, through_ns: int) -> None:
    """Send the kernels seen so far: all that ended before through_ns, unless some were not understood."""
    calls, missed = output.filter.take(), output.missed()
    if link is not None:
        link.send(calls, through_ns)
        if missed:
            link.give_up_until(time.monotonic_ns())


def _leave_to_background(output: Output) -> bool:
    """The command has ended. If something it started still holds its stdout, a process of its own passes that
    on; True when that is so, False when the stream will end by itself."""
    if not select.select([output.source], [], [], GRACE_S)[0]:
        held = True
    else:
        # Something is there: the end of the stream, or text of somebody who still writes.
        data = output.read()
        held = bool(data)
        output.write(output.filter.feed(data, time.time_ns()) if data else b"")
    if held and os.fork() == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        while not output.deaf and (data := output.read()):
            output.write(output.filter.feed(data, time.time_ns()) + output.filter.release())
        output.write(output.filter.finish())
        os._exit(0)
    return held


def end_like(status: int) -> int:
    """Exit status for sys.exit; a command ended by a signal ends this process by the same one."""
    if status >= 0:
        return status
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        signal.signal(-status, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    os.kill(os.getpid(), -status)
    return 128 - status
