"""A process in the wrapper's process group that tells which signals were sent to the whole group.

The kernel does not say whether a signal was sent to one process or to all: by killpg, `timeout`, systemd or
Slurm. What the witness has got at the same time was sent to all, so the command has it without the wrapper.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Collection, Iterator
from pathlib import Path

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
TITLE = b"signal-witness"  # not a word of the wrapper's: `pkill -f roofline` is meant for the wrapper alone
RECENT_S = 1.0  # what came longer ago was another signal, which was not sent to the wrapper
ANSWER_S = 1.0  # where all CPUs are busy, the witness may have to wait for one
_SIGSET_BYTES, _SIGINFO = 128, struct.Struct("I124x")  # of signalfd(2)


class Witness:
    """It ends with this process, and holds nothing open but its connection to it."""

    def __init__(self, signals: Collection[int]) -> None:
        """Start it once the command runs: then it gets nothing that the command was too late for."""
        self._pid = 0
        self._socket: socket.socket | None = None
        self._problem = ""
        parent = os.getpid()
        try:
            self._socket, its = socket.socketpair()
            with its:
                self._pid = os.fork()
                if self._pid == 0:
                    _watch(its, signals, parent)
        except OSError as error:
            self._problem = f"could not be started ({error.strerror or error})"

    def problem(self) -> str:
        """Why it does not tell, or will not; "": nothing is known to be wrong. For another thread, too."""
        if not self._problem and _has_ended(self._pid):
            self._problem = "has ended"
        return self._problem

    def has_got(self, number: int) -> bool:
        """Whether it has got this signal just now, for the first question about it; False, too, if it does
        not answer."""
        if not self._pid or self._socket is None:
            return False
        try:
            self._socket.send(bytes([number]))
            if select.select([self._socket], [], [], ANSWER_S)[0] and (answer := self._socket.recv(1)):
                return answer == b"\1"
        except OSError:
            pass
        self._problem = self._problem or "does not answer"
        self.end()  # a late answer would be taken for that to the next question
        return False

    def end(self) -> None:
        """End it, and leave no zombie to whoever waits for this process."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._pid:
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            self._pid = 0


def _has_ended(pid: int) -> bool:
    """Whether this child has; it stays to be waited for, so that its number is nobody else's."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except OSError:
        return True


def _watch(its: socket.socket, signals: Collection[int], parent: int) -> None:
    """What the witness does, until it is killed or the wrapper has gone."""
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            _close_all_but(its.fileno())
            libc.prctl(PR_SET_NAME, TITLE, 0, 0, 0)
            _show_as(TITLE)
            _answer(its, _signalfd(libc, signals))
    finally:
        os._exit(0)


def _answer(its: socket.socket, signals: int) -> None:
    came: dict[int, float] = {}
    while True:
        ready = select.select([its.fileno(), signals], [], [])[0]
        if signals in ready:
            infos = os.read(signals, 16 * _SIGINFO.size)
            came.update((number, time.monotonic()) for (number,) in _SIGINFO.iter_unpack(infos))
        elif asked := its.recv(1):
            its.send(bytes([time.monotonic() - came.pop(asked[0], -RECENT_S) < RECENT_S]))
        else:
            return


def _signalfd(libc: ctypes.CDLL, signals: Collection[int]) -> int:
    """A descriptor that signals are read from."""
    mask = ctypes.create_string_buffer(_SIGSET_BYTES)
    libc.sigemptyset(mask)
    for number in signals:
        libc.sigaddset(mask, int(number))
    return int(libc.signalfd(-1, mask, 0))


def _close_all_but(kept: int) -> None:
    """The command's output must not seem open because the witness holds it."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _show_as(title: bytes) -> None:
    """Give this process a command line of its own, and no variables: they are a launcher's for a rank."""
    for begin, size in _shown_memory():
        ctypes.memset(begin, 0, size)
        ctypes.memmove(begin, title, min(len(title), size - 1))
        title = b""


def _shown_memory() -> Iterator[tuple[int, int]]:
    """Where the kernel reads the command line and the variables of this process from: (address, bytes)."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    for at in (45, 47):  # arg_start, arg_end, env_start, env_end: proc_pid_stat(5)
        begin, end = int(fields[at]), int(fields[at + 1])
        if 0 < begin < end:
            yield begin, end - begin
