"""What agent and server log: lines of printable characters, and few a minute of a statement, whatever names a
training or a client brings. So the log stays readable, is nobody's to forge, and does not fill the disk."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable

from .texts import printable

WINDOW_S = 60.0
SERVERS, AGENTS = 10, 200  # lines of a statement in that time: an agent logs each of its ranks


def log_to_stderr(program: str, level: int, lines: int) -> None:
    """Log to stderr from now on. lines: of a statement in a minute."""
    handler = logging.StreamHandler()
    handler.addFilter(_without_stack)
    handler.addFilter(LogLimit(lines))
    handler.setFormatter(PlainLines(program, writes_to_journal()))
    logging.basicConfig(level=level, handlers=[handler])


def writes_to_journal() -> bool:
    """Whether systemd takes what is written to stderr into its journal (systemd.exec(5), JOURNAL_STREAM)."""
    try:
        found = os.fstat(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # it is closed, or no file
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def before_error() -> str:
    """What a line on stderr begins with that says why the program ends."""
    return _priority(logging.ERROR) if writes_to_journal() else ""


def _priority(level: int) -> str:
    """As sd-daemon(3) has it, for a line of the journal; "": that of every line without one."""
    return "<3>" if level >= logging.ERROR else "<4>" if level >= logging.WARNING else ""


def _without_stack(record: logging.LogRecord) -> bool:
    """That a peer left in the middle of an answer is no error, though gRPC logs it as one, with where it was
    in its own code."""
    if record.exc_info and getattr(record.exc_info[0], "__name__", "") == "ExecuteBatchError":
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.args, record.exc_info = (record.getMessage(),), None
        record.msg = "a peer left amid an answer: %s"
    return True


class PlainLines(logging.Formatter):
    """A question mark for what cannot be printed: an escape would change the terminal of who reads, and the
    end of a line would let a name begin a line of its own. Tracebacks keep their lines. In the journal each
    line has its priority, for `journalctl -p warning`."""

    def __init__(self, program: str, in_journal: bool = False) -> None:
        super().__init__(f"%(asctime)s {program} %(levelname)s %(message)s")
        self._in_journal = in_journal

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if not (self._in_journal and (priority := _priority(record.levelno))):
            return text
        return "\n".join(f"{priority}{line}" for line in text.split("\n"))

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: object) -> str:
        return "\n".join(map(printable, super().formatException(ei).splitlines()))  # type: ignore[arg-type]


class _Count:
    """Lines of one statement."""

    def __init__(self, since_s: float) -> None:
        self.since_s, self.lines = since_s, 0


class LogLimit(logging.Filter):
    """For a handler. The first line that is written after others were left out says how many these were."""

    def __init__(self, lines: int, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most, self._clock = lines, clock
        self._counts: dict[tuple[str, int], _Count] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, place = self._clock(), (record.pathname, record.lineno)
        count = self._counts.setdefault(place, _Count(now))
        left_out = 0
        if now - count.since_s >= WINDOW_S:
            left_out = max(0, count.lines - self._most)
            count.since_s, count.lines = now, 0
        count.lines += 1
        if left_out:
            record.msg = f"{record.msg} ({left_out} lines like this one were left out before it)"
        if count.lines == self._most:
            record.msg = f"{record.msg} (more of these are left out for a minute)"
        return count.lines <= self._most
