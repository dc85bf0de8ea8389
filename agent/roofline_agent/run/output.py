"""The way of a rank's output to ours: exact but for lines this wrapper asked for; a terminal stays one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import termios
import time
import tty
from collections.abc import Callable

from ..hooks import STREAM_SIGNAL
from ..verbose import VerboseFilter

PIPE_BYTES = 1 << 20
READ_BYTES = 1 << 20
# Verbose lines come one write each; a reader that wakes for each takes CPU from the training. A terminal's
# buffer is too small to wait for long, and whoever reads times from lines wants them when they are written.
COALESCE_S, COALESCE_TTY_S, COALESCE_LOG_S = 0.05, 0.002, 0.01
QUIET_S = 0.2  # nothing came for so long: what is undecided is shown

Listen = Callable[[bytes, int], None]  # bytes of the user's, and when they came (monotonic ns)


class Output:
    """One stream of the rank, and the descriptor of ours that it goes to.

    filter: takes lines out; None: nothing is taken out. listen: hears all that is passed on.
    """

    def __init__(self, descriptor: int, taken_out: VerboseFilter | None, listen: Listen | None) -> None:
        self._to = descriptor
        self.filter = taken_out
        self._listen = listen
        self.is_tty = os.isatty(descriptor)
        if self.is_tty:
            self.source, self.child_end = pty.openpty()
            _imitate_terminal(descriptor, self.child_end)
        else:
            self.source, self.child_end = os.pipe()
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        if taken_out is not None:
            _sign(self.child_end)
        # Above this much at once more is on its way, and waiting would hold the rank up.
        self._patience = 2048 if self.is_tty else READ_BYTES // 4
        self._coalesce_s = COALESCE_TTY_S if self.is_tty or not taken_out else COALESCE_S
        if listen is not None:
            self._coalesce_s = min(self._coalesce_s, COALESCE_LOG_S)
        self.rests_until = 0.0
        self.through_ns = time.monotonic_ns()  # all that was written before has been read
        self._came = 0.0
        self.ended = False
        self._deaf = False
        self._missed = 0

    @property
    def identity(self) -> str:
        """Tells the hooks in the rank whether its fd 1 still is this stream."""
        status = os.fstat(self.child_end)
        return f"{status.st_dev}:{status.st_ino}"

    def take(self) -> None:
        """Read what waits and pass it on; at the end of the stream, what was undecided."""
        self._came = time.monotonic()
        data = self._read()
        if not data:
            self.finish()
            return
        self._pass(self.filter.feed(data, time.time_ns()) if self.filter else data)
        if len(data) < self._patience:
            self.rests_until = time.monotonic() + self._coalesce_s

    def release(self) -> None:
        """Show what is undecided, if nothing has come for a while: somebody may wait for it."""
        if self.filter and time.monotonic() - self._came >= QUIET_S:
            self._pass(self.filter.release())

    def finish(self) -> None:
        """The stream is over for us."""
        if not self.ended and self.filter:
            self._pass(self.filter.finish())
        self.ended = True

    def has_something(self, seconds: float) -> bool:
        """Whether text or the end of the stream comes within so long."""
        poller = select.poll()
        poller.register(self.source, select.POLLIN)
        return bool(poller.poll(1000 * seconds))

    def detach(self) -> None:
        """From now on nobody but the user hears of it."""
        self._listen = None
        self.rests_until = 0.0

    def missed(self) -> bool:
        """Whether kernels were seen since the last call that could not be kept or understood."""
        if self.filter is None:
            return False
        before, self._missed = self._missed, self.filter.lines_unparsed + self.filter.calls_dropped
        return self._missed > before

    def resize(self) -> None:
        """Tell the rank's terminal the size of ours."""
        if self.is_tty:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.source, termios.TIOCSWINSZ, _size(self._to))

    def _read(self) -> bytes:
        """What has come; empty at the end of the stream."""
        try:
            return os.read(self.source, READ_BYTES)
        except OSError:
            return b""  # a pty ends with EIO

    def _pass(self, data: bytes) -> None:
        if data:
            self._write(data)
            if self._listen is not None:
                self._listen(data, self.through_ns)

    def _write(self, data: bytes) -> None:
        """Pass on to the user; once nobody listens, the rank finds out as it would have without us."""
        view = memoryview(data)
        while view and not self._deaf:
            try:
                view = view[os.write(self._to, view) :]
            except BlockingIOError:
                select.select([], [self._to], [], 1.0)
            except OSError:
                self._deaf = self.ended = True
                os.close(self.source)


def _sign(descriptor: int) -> None:
    """Let the hooks in the rank know the stream by one cheap call (hooks/__init__.py); it changes nothing."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, STREAM_SIGNAL)


def same_file(one: int, other: int) -> bool:
    """Whether two descriptors are one file: what is written to both must keep its order."""
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _imitate_terminal(real: int, descriptor: int) -> None:
    # The real terminal translates newlines; doing it twice would double them.
    attributes = termios.tcgetattr(real)
    attributes[tty.OFLAG] &= ~termios.OPOST
    termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, _size(real))


def _size(terminal: int) -> bytes:
    return fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8)
