"""Starts a wrapped command, forwards signals to it, and exits as it has exited."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, NoReturn

FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
    signal.SIGWINCH,
    signal.SIGXCPU,
    signal.SIGABRT,
    signal.SIGPWR,
    signal.SIGIO,
    signal.SIGPROF,
    signal.SIGVTALRM,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
SI_KERNEL = 0x80  # sent by a key at the terminal: to the whole process group
GROUP_KILL_S = 0.02
PR_SET_PDEATHSIG = 1
NOT_EXECUTABLE, NOT_FOUND = 126, 127  # exit codes of a shell


class Signals(NamedTuple):
    """How this process was started, and the command is; and which signals are forwarded to it."""

    forwarded: frozenset[int]
    mask: set[int | signal.Signals]
    ignores_children: bool


class StartError(Exception):
    """The command could not be started; `status` is the shell's exit status for it."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def start(
    command: Sequence[str], env: Mapping[str, str], stdout: int | None, stderr: int | None, signals: Signals
) -> subprocess.Popen[bytes]:
    """Start the command with these ends of its output (None: ours) and these signals. Raises StartError."""
    parent, libc = os.getpid(), ctypes.CDLL(None)

    def in_child() -> None:
        if signals.ignores_children:
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals.mask)
        # kill -9 of this wrapper is meant for the command.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        return subprocess.Popen(
            command, stdout=stdout, stderr=stderr, env=env, close_fds=False, preexec_fn=in_child
        )
    except FileNotFoundError:
        raise StartError(f"{command[0]}: no such command", NOT_FOUND) from None
    except OSError as error:
        raise StartError(f"{command[0]}: {error.strerror}", NOT_EXECUTABLE) from None


def become(command: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Run the command in place of this process. Raises StartError."""
    try:
        os.execvpe(command[0], list(command), dict(env))
    except FileNotFoundError:
        raise StartError(f"{command[0]}: no such command", NOT_FOUND) from None
    except OSError as error:
        raise StartError(f"{command[0]}: {error.strerror}", NOT_EXECUTABLE) from None


def hold_signals(own: Collection[int] = ()) -> Signals:
    """Block the signals that are to be forwarded, and have the kernel keep the command's exit status for us;
    returns what the command gets. own: those that this process uses itself."""
    ignores_children = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    forwarded = frozenset(FORWARDED).difference(own)
    return Signals(forwarded, signal.pthread_sigmask(signal.SIG_BLOCK, forwarded), ignores_children)


def forward_signals(
    forwarded: Collection[int],
    send: Callable[[int], None],
    resize: Callable[[], None],
    ending: Callable[[], None],
    reached_all: Callable[[int], bool],
) -> None:
    """Forward signals forever: for a thread of its own. ending: called before one that ends a command.
    reached_all: whether a signal was sent to the command as well."""
    while True:
        got = signal.sigwaitinfo(forwarded)
        if got.si_signo == signal.SIGWINCH:
            resize()
            continue
        if got.si_signo in ENDING:
            ending()
        # When a terminal closes, only the leader of its session gets the signal.
        alone = got.si_signo == signal.SIGHUP and os.getsid(0) == os.getpid()
        # What is sent to all may arrive here first; `timeout` sends it to its command and then to the group.
        time.sleep(GROUP_KILL_S)
        count = 1
        while signal.sigtimedwait([got.si_signo], 0):
            count += 1
        if not reached_all(got.si_signo) and (got.si_code != SI_KERNEL or alone):
            for _ in range(count):
                send(got.si_signo)


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
