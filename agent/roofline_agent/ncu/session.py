"""One command under ncu: tried out beforehand, watched while it runs, its kernels handed over at the end.

A session lives in a private folder: `log` is ncu's (its words and its table), `windows` the hooks', `pid` and
`status` those of __main__.py; `alive` ends when this process does.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..recorded.collect import Collector
from ..recorded.errors import RecordedError
from ..recorded.ncu import reader as table
from ..recorded.recording import Launch
from ..recorded.text import Text
from ..verbose import TimedCall
from . import command, diagnosis, metrics
from .kernels import Window, parse_windows, place, share_out
from .steps import ranges_of, written

TRIAL_S = 60.0
QUERY_S = 20.0
STUCK_S = 120.0  # nothing new from ncu for so long after the command's end: it will not end by itself
TELL_EVERY_S = 2.0
LAST_WORDS_S = 2.0
LOG_HEAD = 1 << 20  # errors come before the table
MAX_SHAPES = 60_000  # the agent keeps so many kernels of one sender apart (marks.MAX_KERNELS), with a margin


class Unusable(Exception):
    """ncu cannot be used; the text says why and what to do."""


class Profiled(NamedTuple):
    """The calls of one step."""

    window: Window
    calls: list[TimedCall]


def check(environ: Mapping[str, str], proc: str = "/proc", root: str = "/") -> tuple[str, tuple[str, ...]]:
    """(path of ncu, metrics to ask for), found out by profiling a kernel of our own. Raises Unusable.

    Takes some seconds. The training must not be what it is tried on: when ncu cannot profile a kernel it ends
    the program.
    """
    ncu = command.find(environ)
    if ncu is None:
        raise Unusable(diagnosis.MISSING)
    if diagnosis.admin_only(proc) and not diagnosis.may_administer(proc):
        raise Unusable(diagnosis.denied(proc, root))
    with tempfile.TemporaryDirectory(prefix="roofline-ncu-") as folder:
        why = ""
        for choice in metrics.choices(metrics.offered(query(ncu, environ))):
            log = Path(folder) / "trial"
            works, text = attempt(ncu, choice, log, environ)
            if works:
                return ncu, choice
            why = diagnosis.reason(text, proc, root) or diagnosis.NO_GPU
            if diagnosis.DENIED in text or diagnosis.BUSY in text:
                break
    raise Unusable(why)


def query(ncu: str, environ: Mapping[str, str]) -> str:
    """What it says it can count; "" where it does not."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [ncu, "--query-metrics"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=QUERY_S,
        )
        return done.stdout.decode(errors="replace")
    return ""


def attempt(ncu: str, choice: Sequence[str], log: Path, environ: Mapping[str, str]) -> tuple[bool, str]:
    """Whether it profiles an empty kernel of our own, and what it said."""
    try:
        subprocess.run(
            command.trial(ncu, choice, log),
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TRIAL_S,
        )
    except subprocess.TimeoutExpired:
        return False, f"==ERROR== it did not profile one empty kernel within {TRIAL_S:.0f} s"
    except OSError as error:
        return False, f"==ERROR== {ncu} cannot be run: {error.strerror}"
    found = read_launches(log)
    return any(launch.time_s is not None for launch in found), _text(log)


def read_launches(log: Path) -> list[Launch]:
    """The kernels in ncu's table; empty when there is none."""
    with contextlib.closing(Collector(keep_launches=True)) as found:
        with contextlib.suppress(OSError, RecordedError), log.open("rb") as stream:
            table.read(Text(log.name, stream), found)
        return list(found.launches or ())


def _text(path: Path, most: int = -1) -> str:
    try:
        with path.open(errors="replace") as file:
            return file.read(most)
    except OSError:
        return ""


class Session:
    """The command under ncu."""

    def __init__(
        self,
        ncu: str,
        choice: Sequence[str],
        steps: tuple[tuple[int, int], ...],
        say: Callable[[str], None],
        proc: str = "/proc",
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="roofline-ncu-"))
        self._ncu, self._metrics, self._steps, self._say, self._proc = ncu, choice, steps, say, proc
        os.mkfifo(self.folder / "alive", 0o600)
        # Both ends, so that opening it waits for nobody; never written to.
        self._alive = os.open(self.folder / "alive", os.O_RDWR)
        self._told, self._news = time.monotonic(), (False, 0)
        self._size, self._grown = 0, time.monotonic()
        self._complained = False

    def command(self, words: Sequence[str]) -> list[str]:
        return command.whole(self._ncu, self._metrics, self.folder, words)

    @property
    def environ(self) -> dict[str, str]:
        """What the hooks inside the command need to know."""
        return {
            "ROOFLINE_NCU_STEPS": written(self._steps),
            "ROOFLINE_NCU_WINDOWS": str(self.folder / "windows"),
        }

    def _number(self, name: str) -> int | None:
        text = _text(self.folder / name)
        return int(text) if text.lstrip("-").isdigit() else None

    @property
    def replayed(self) -> str:
        """Steps whose kernels are, or were, run again and again, as in "5,100-102"; "": none so far."""
        windows = parse_windows(_text(self.folder / "windows"), time.monotonic_ns())
        return written(ranges_of(window.step for window in windows))

    @property
    def started(self) -> bool:
        """Whether ncu has come as far as starting the command."""
        return self._number("pid") is not None

    @property
    def status(self) -> int | None:
        """The command's exit status once it has ended, negative for a signal."""
        return self._number("status")

    def send_signal(self, number: int) -> bool:
        """Signal the command itself; False when it is not there (yet, or any more)."""
        pid = self._number("pid")
        if not pid or self.status is not None:
            return False
        with contextlib.suppress(OSError):
            os.kill(pid, number)
            return True
        return False

    def is_due(self) -> bool:
        """Whether the agent is to be told of us again: it learns who the rank is while that is alive."""
        now, news = time.monotonic(), (self.started, len(_text(self.folder / "windows")))
        if now - self._told < TELL_EVERY_S and news == self._news:
            return False
        self._told, self._news = now, news
        return True

    def look(self, profiler: subprocess.Popen[bytes]) -> None:
        """Say at once what goes wrong; end a profiler that does not end after its command."""
        log = self.folder / "log"
        size = log.stat().st_size if log.exists() else 0
        if size != self._size or self.status is None:
            self._grown = time.monotonic()
        if size != self._size and not self._complained:
            self._complain(_text(log, LOG_HEAD))
        self._size = size
        if time.monotonic() - self._grown > STUCK_S:
            self._say(f"roofline-agent: ncu has not ended {STUCK_S:.0f} s after its command: it is killed")
            profiler.send_signal(signal.SIGKILL)

    def _complain(self, log: str) -> None:
        why = diagnosis.reason(log, self._proc) if "==ERROR==" in log else ""
        if why:
            self._complained = True
            self._say(f"roofline-agent: ncu cannot profile: {why}")

    def wait(self, status: int) -> int:
        """How the command ended, though its profiler may have gone before it; `status`: the profiler's."""
        until = time.monotonic() + LAST_WORDS_S
        while self.status is None and (self.send_signal(0) or time.monotonic() < until):
            if not self.started:
                return status
            time.sleep(0.05)
        ended = self.status
        return status if ended is None else ended

    def profiled(self) -> list[Profiled]:
        """The kernels by step; says what came of it."""
        launches = read_launches(self.folder / "log")
        if diagnosis.ENDED in _text(self.folder / "log", LOG_HEAD):
            self._say(
                "roofline-agent: ncu ended the command, for it could not profile a kernel: leave --ncu out"
            )
        windows = parse_windows(_text(self.folder / "windows"), time.monotonic_ns())
        asked = written(self._steps)
        if not windows:
            self._say(
                f"roofline-agent: none of steps {asked} was profiled: they were not reached, no hook marks "
                "steps here, or the program had not loaded CUDA by then"
            )
            return []
        if not launches and not self._complained:
            why = diagnosis.reason(_text(self.folder / "log"), self._proc) or "no kernel ran in these steps"
            self._say(f"roofline-agent: nothing was profiled in steps {asked}: {why}")
        to_epoch = time.time_ns() - time.monotonic_ns()
        shares = share_out(launches[:MAX_SHAPES], windows)
        if launches:
            names = ", ".join(str(window.step) for window in windows)
            self._say(
                f"roofline-agent: ncu profiled {len(launches)} kernels of steps {names}; these steps ran "
                "slower, so their own times mean nothing"
            )
        if len(launches) > MAX_SHAPES:
            self._say(f"roofline-agent: only the first {MAX_SHAPES} of these kernels are recorded")
        return [
            Profiled(w, place(mine, w, to_epoch)) for w, mine in zip(windows, shares, strict=True) if mine
        ]

    def close(self) -> None:
        os.close(self._alive)
        shutil.rmtree(self.folder, ignore_errors=True)
