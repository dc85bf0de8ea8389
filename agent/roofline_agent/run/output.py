"""One stream of a rank's output on its way to ours: byte-exact, except for verbose lines that this wrapper
asked for; if ours is a terminal, the rank sees a terminal."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import pty
import select
import stat
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
STALL_S = 1.0  # a reader that takes nothing for so long may have stopped for good

OutputListener = Callable[[bytes, int], None]  # bytes of the user's, and when they came (monotonic ns)


class OutputStream:
    """One stream of the rank, and the descriptor of ours that it goes to.

    filter: takes lines out; None: nothing is taken out. listener: receives all that is forwarded. notify:
    shows the user a line.
    """

    def __init__(
        self,
        descriptor: int,
        taken_out: VerboseFilter | None,
        listener: OutputListener | None,
        notify: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._to = descriptor
        self._writer, self._can_wait = _without_waiting(descriptor)
        # Whether the command has ended as it was asked to: nobody waits then for a reader that has stopped.
        self.may_give_up: Callable[[], bool] = lambda: False
        self.has_given_up = False  # the rest is lost
        self._notify = notify
        self.lost_bytes = 0  # that could not be written, though there is somebody to read them
        self.filter = taken_out
        self._listener = listener
        self.is_tty = os.isatty(descriptor)
        if self.is_tty:
            self.source, self.child_end = pty.openpty()
            # The real terminal translates newlines; doing it twice would double them.
            attributes = termios.tcgetattr(descriptor)
            attributes[tty.OFLAG] &= ~termios.OPOST
            termios.tcsetattr(self.child_end, termios.TCSANOW, attributes)
            fcntl.ioctl(self.child_end, termios.TIOCSWINSZ, _size(descriptor))
        else:
            self.source, self.child_end = os.pipe()
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        if taken_out is not None:
            # By this the hooks in the rank recognise the stream (hooks/wrapper.py); it has no other effect.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.child_end, fcntl.F_SETSIG, STREAM_SIGNAL)
        # When this much comes at once more is on its way, and a rest would hold the rank up.
        self._burst_bytes = 2048 if self.is_tty else READ_BYTES // 4
        self._coalesce_s = COALESCE_TTY_S if self.is_tty or not taken_out else COALESCE_S
        if listener is not None:
            self._coalesce_s = min(self._coalesce_s, COALESCE_LOG_S)
        self.rests_until = 0.0
        self.through_ns = time.monotonic_ns()  # all that was written before has been read
        self.came = 0.0  # when something did the last time (monotonic s)
        self.settled = True  # nothing waits to be shown
        self.ended = False
        self._reader_gone = False
        self._missed = 0

    @property
    def identity(self) -> str:
        """Informs the hooks in the rank whether its fd 1 still is this stream."""
        status = os.fstat(self.child_end)
        return f"{status.st_dev}:{status.st_ino}"

    def take(self) -> None:
        """Read what waits and forward it; at the end of the stream, what was undecided."""
        self.came = time.monotonic()
        try:
            data = os.read(self.source, READ_BYTES)
        except OSError:
            data = b""  # a pty ends with EIO
        if not data:
            self.finish()
            return
        users = self.filter.feed(data, time.time_ns()) if self.filter else data
        self.settled = not (self.filter and self.filter.is_undecided)
        self._forward(users)
        if len(data) < self._burst_bytes:
            self.rests_until = time.monotonic() + self._coalesce_s

    def release(self) -> None:
        """Show what is undecided, if nothing has come for a while: it may be a prompt."""
        if self.filter and not self.settled and time.monotonic() - self.came >= QUIET_S:
            self._forward(self.filter.release())
            self.settled = True

    def finish(self) -> None:
        """The stream is over for us."""
        if not self.ended and self.filter:
            self._forward(self.filter.finish())
        self.ended = True

    def has_something(self, seconds: float) -> bool:
        """Whether text or the end of the stream comes within so long."""
        poller = select.poll()
        poller.register(self.source, select.POLLIN)
        return bool(poller.poll(1000 * seconds))

    def detach(self) -> None:
        """From now on only the user receives it."""
        self._listener = None
        self.rests_until = 0.0
        self.may_give_up, self.has_given_up = lambda: False, False

    def missed(self) -> bool:
        """Whether kernels were seen since the last call that could not be kept or understood."""
        if self.filter is None:
            return False
        before, self._missed = self._missed, self.filter.lines_unparsed + self.filter.calls_dropped
        return self._missed > before

    def resize(self) -> None:
        """Give the rank's terminal the size of ours."""
        if self.is_tty:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self.source, termios.TIOCSWINSZ, _size(self._to))

    def _forward(self, data: bytes) -> None:
        """Write to the user. Once the user's reader has gone, the rank finds out as it would without us; what
        cannot be written for another reason, as to a full disk, is lost, and the rank goes on."""
        if not data:
            return
        view = memoryview(data)
        while view and not self._reader_gone and not self.has_given_up:
            try:
                view = view[self._write(view) :]
            except BlockingIOError:
                self.has_given_up = not self._wait_for_reader()
            except OSError as error:
                if self._says_reader_gone(error):
                    self._reader_gone = self.ended = True
                    os.close(self.source)
                else:
                    self._lose(len(view), error)
                break
        if self.has_given_up:
            self.lost_bytes += len(view)
        if self._listener is not None:
            self._listener(data, self.through_ns)

    def _write(self, view: memoryview) -> int:
        """How many bytes were written. Raises BlockingIOError where that would have to wait."""
        if self._can_wait:
            if not takes_more(self._to, 0.0):
                raise BlockingIOError
            view = view[: select.PIPE_BUF]
        return os.write(self._writer, view)

    def _wait_for_reader(self) -> bool:
        """Wait until more can be written; False: nothing can, and the command has ended as asked."""
        while True:
            is_over = self.may_give_up()
            if takes_more(self._writer, STALL_S):
                return True
            if is_over:
                return False

    def _says_reader_gone(self, error: OSError) -> bool:
        return error.errno == errno.EPIPE or (self.is_tty and error.errno == errno.EIO)

    def _lose(self, count: int, error: OSError) -> None:
        if not self.lost_bytes:
            why = error.strerror
            self._notify(
                f"roofline-agent: what the command prints cannot be written and is lost for now: {why}"
            )
        self.lost_bytes += count


def same_file(one: int, other: int) -> bool:
    """Whether two descriptors are one file: what is written to both must keep its order."""
    try:
        first, second = os.fstat(one), os.fstat(other)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def takes_more(descriptor: int, wait_s: float) -> bool:
    """Whether something can be written within so long."""
    poller = select.poll()
    poller.register(descriptor, select.POLLOUT)
    return bool(poller.poll(1000 * wait_s))


def _without_waiting(descriptor: int) -> tuple[int, bool]:
    """A descriptor of the same pipe or terminal whose writes do not wait, else the same one; and whether
    writes to it can wait. O_NONBLOCK on ours would hold for all that share it, such as the shell."""
    try:
        mode = os.fstat(descriptor).st_mode
        if not (os.isatty(descriptor) or stat.S_ISFIFO(mode)):
            return descriptor, stat.S_ISSOCK(mode)
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(f"/proc/self/fd/{descriptor}", flags), False
    except OSError:
        return descriptor, True


def _size(terminal: int) -> bytes:
    return fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8)
