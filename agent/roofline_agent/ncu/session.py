"""One command under ncu: ncu is tried out beforehand, watched while it runs, and its kernels read at the end.

A session has a private folder: ncu writes `log` (its messages and its table), the hooks `windows`,
__main__.py `pid` and `status`; the pipe `alive` ends when this process does.
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

from ..recorded.collector import Collector
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
INTRODUCE_EVERY_S = 2.0
STATUS_WAIT_S = 2.0
REPORT_EVERY_S = 20.0
LOG_HEAD = 1 << 20  # errors come before the table
MAX_SHAPES = 60_000  # below MAX_KERNELS of marks/receiver.py, with a margin


class Unusable(Exception):
    """ncu cannot be used; the text says why and what to do."""


class Profiled(NamedTuple):
    """The calls of one step."""

    window: Window
    calls: list[TimedCall]


def check(environ: Mapping[str, str], proc: str = "/proc", root: str = "/") -> tuple[str, tuple[str, ...]]:
    """(path of ncu, metrics to ask for), found by profiling a kernel of our own. Raises Unusable.

    Takes some seconds. It is not tried on the training: when ncu cannot profile a kernel it ends the program.
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
    """What `ncu --query-metrics` prints; "" where it fails."""
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
    """Whether ncu profiles an empty kernel of our own, and its output."""
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
        notify: Callable[[str], None],
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="roofline-ncu-"))
        self._ncu, self._metrics, self._steps, self._notify = ncu, choice, steps, notify
        os.mkfifo(self.folder / "alive", 0o600)
        # Both ends, so that opening it waits for nobody; never written to.
        self._alive = os.open(self.folder / "alive", os.O_RDWR)
        self._introduced, self._progress = time.monotonic(), (False, 0)
        self._size, self._grown = 0, time.monotonic()
        self._warned = False
        self._report_after = REPORT_EVERY_S

    def command(self, words: Sequence[str]) -> list[str]:
        return command.whole(self._ncu, self._metrics, self.folder, words)

    @property
    def environ(self) -> dict[str, str]:
        """Variables for the hooks inside the command."""
        return {
            "ROOFLINE_NCU_STEPS": written(self._steps),
            "ROOFLINE_NCU_WINDOWS": str(self.folder / "windows"),
        }

    def _number(self, name: str) -> int | None:
        text = _text(self.folder / name)
        return int(text) if text.lstrip("-").isdigit() else None

    @property
    def replayed(self) -> str:
        """Steps whose kernels are or were replayed, as in "5,100-102"; "": none so far."""
        windows = parse_windows(_text(self.folder / "windows"), time.monotonic_ns())
        return written(ranges_of(window.step for window in windows))

    @property
    def pid(self) -> int | None:
        """The command's process, once ncu has started it."""
        return self._number("pid")

    @property
    def started(self) -> bool:
        """Whether ncu has started the command."""
        return self.pid is not None

    @property
    def status(self) -> int | None:
        """The command's exit status once it has ended, negative for a signal."""
        return self._number("status")

    def send_signal(self, number: int) -> bool:
        """Signal the command itself; False when it is not there (yet, or any more)."""
        pid = self.pid
        if not pid or self.status is not None:
            return False
        with contextlib.suppress(OSError):
            os.kill(pid, number)
            return True
        return False

    def is_due(self) -> bool:
        """Whether the rank must be introduced to the agent, which can identify it only while it is alive."""
        now, progress = time.monotonic(), (self.started, len(_text(self.folder / "windows")))
        if now - self._introduced < INTRODUCE_EVERY_S and progress == self._progress:
            return False
        self._introduced, self._progress = now, progress
        return True

    def check_progress(self, profiler: subprocess.Popen[bytes]) -> None:
        """Notify the user of errors at once, and now and then of a step that takes long; kill a profiler that
        does not end after its command."""
        self._report_long_step()
        log = self.folder / "log"
        size = log.stat().st_size if log.exists() else 0
        if size != self._size or self.status is None:
            self._grown = time.monotonic()
        if size != self._size and not self._warned:
            text = _text(log, LOG_HEAD)
            why = diagnosis.reason(text) if "==ERROR==" in text else ""
            if why:
                self._warned = True
                self._notify(f"roofline-agent: ncu cannot profile: {why}")
        self._size = size
        if time.monotonic() - self._grown > STUCK_S:
            self._notify(f"roofline-agent: ncu has not ended {STUCK_S:.0f} s after its command: it is killed")
            profiler.send_signal(signal.SIGKILL)

    def _report_long_step(self) -> None:
        now = time.monotonic_ns()
        open_ = [one for one in parse_windows(_text(self.folder / "windows"), now) if not one.closed]
        if not open_ or self.status is not None:
            return
        lasted = (now - open_[-1].begin_ns) / 1e9
        if lasted >= self._report_after:
            self._report_after = lasted + REPORT_EVERY_S
            self._notify(
                f"roofline-agent: ncu is at step {open_[-1].step}, for {lasted:.0f} s now: it runs each "
                "kernel several times, which takes some 0.3 s a kernel"
            )

    def wait(self, status: int) -> int:
        """How the command ended, though its profiler may have gone before it; `status`: the profiler's."""
        until = time.monotonic() + STATUS_WAIT_S
        while self.status is None and (self.send_signal(0) or time.monotonic() < until):
            if not self.started:
                return status
            time.sleep(0.05)
        ended = self.status
        return status if ended is None else ended

    def profiled(self) -> list[Profiled]:
        """The kernels by step; notifies the user of what was profiled."""
        launches = read_launches(self.folder / "log")
        if diagnosis.ENDED in _text(self.folder / "log", LOG_HEAD):
            self._notify(
                "roofline-agent: ncu ended the command, for it could not profile a kernel: leave --ncu out"
            )
        windows = parse_windows(_text(self.folder / "windows"), time.monotonic_ns())
        asked = written(self._steps)
        if not windows:
            self._notify(
                f"roofline-agent: none of steps {asked} was profiled: they were not reached, lie amid a "
                "call that makes several, no hook marks steps here, or the program had not loaded CUDA by "
                "then"
            )
            return []
        if not launches and not self._warned:
            why = diagnosis.reason(_text(self.folder / "log")) or "no kernel ran in these steps"
            self._notify(f"roofline-agent: nothing was profiled in steps {asked}: {why}")
        to_epoch = time.time_ns() - time.monotonic_ns()
        shares = share_out(launches[:MAX_SHAPES], windows)
        if launches:
            names = ", ".join(str(window.step) for window in windows)
            self._notify(
                f"roofline-agent: ncu profiled {len(launches)} kernels of steps {names}; these steps ran "
                "slower, so their own times mean nothing; where kernels are short ncu slows the others too"
            )
        if len(launches) > MAX_SHAPES:
            self._notify(f"roofline-agent: only the first {MAX_SHAPES} of these kernels are recorded")
        return [
            Profiled(w, place(mine, w, to_epoch)) for w, mine in zip(windows, shares, strict=True) if mine
        ]

    def close(self) -> None:
        os.close(self._alive)
        shutil.rmtree(self.folder, ignore_errors=True)
