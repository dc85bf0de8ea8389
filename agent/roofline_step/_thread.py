"""What CPU time the thread that trains got in a step: time on a CPU, time ready to run without one, garbage
collection, page faults and reads that waited for storage.

Promises: never raises. For each step either all of it is known or nothing. One step in a power of two is
measured, such that measuring takes at most half of ROOFLINE_OVERHEAD of the time: each step of some 50 ms and
more, one in two to four of 20 to 40 ms. Once hundreds are known, an eighth must be enough. All ranks measure
the same steps, or some of the others' (`measured_in`).
"""

from __future__ import annotations

import functools
import gc
import os
import threading
import time
from typing import Dict, List, Mapping, NamedTuple, Optional, Tuple

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # a Python built without it
    getrusage = None  # type: ignore[assignment]

from ._descriptor import File, file_of
from ._signals import raise_again
from .packets import Span

PREEMPTED_NS = 40000  # a reading that took longer lost its CPU meanwhile, and is taken again
LATE_NS = 200000  # a reading so long before or after a moment stands for it, as if the thread ran meanwhile
ALWAYS = 4  # first steps that are measured whatever it costs: they show what it does
MOST = 256  # steps of which one is measured, at most
MANY, FEWER = 256, 4  # measured steps, after which so many times fewer are
RETRIES = (2, 1, 0)

INPUT, COMMUNICATE = "input", "communicate"
PARTS = (INPUT, COMMUNICATE)

_clock, _thread_time = time.monotonic_ns, time.thread_time_ns
# A new thread may have the identity of one that has ended, but not, so soon, its number in the system.
thread_number = getattr(threading, "get_native_id", threading.get_ident)


def measured_in(lot: int, period: int) -> int:
    """Of the `period` steps of a lot (a power of two) the one that is measured. Its place differs from lot to
    lot, so that no rhythm of the training falls in with it; of 1 in 16, all are among those of 1 in 8."""
    number, bit = lot, period
    while bit > 1:
        bit //= 2
        number = 2 * number + bool(number * 2246822519 + bit * 40503 & 0x10000)
    return number


class StepCounts(NamedTuple):
    """What is known of one step: each name with its number (ns, or how many)."""

    names: Tuple[str, ...]
    counts: Tuple[int, ...]
    middle_ns: int  # between the step's borders

    def spans(self) -> List[Span]:
        """As spans without length, which belong to the step that holds them."""
        middle = self.middle_ns
        return [
            (name, middle, middle, None, count)
            for name, count in zip(self.names, self.counts)  # noqa: B905 - Python 3.8
        ]


@functools.lru_cache(maxsize=64)
def _names(parts: Tuple[str, ...], delays: bool, storage: bool) -> Tuple[str, ...]:
    """Of the counts of a step with these parts, in the order of ThreadAccount._close()."""
    names = ["thread.run.step", *(("thread.delay.step",) if delays else ()), "thread.gc"]
    for part in parts:
        names += ["thread.run." + part, *(("thread.delay." + part,) if delays else ())]
    return (*names, *(("thread.faults", "thread.blocks") if storage else ()))


class _Border(NamedTuple):
    """What the thread had had by the border of two steps."""

    time_ns: int
    run: int
    delay: int
    faults: int
    blocks: int


class ThreadAccount:
    """The account of the thread that calls `over`. `on`: the step that goes on is measured. The other methods
    are for that thread, and only while it is on."""

    def __init__(self, environ: Mapping[str, str] = os.environ, proc: str = "/proc") -> None:
        self._path = proc + "/thread-self/schedstat"
        try:
            self._share = float(environ.get("ROOFLINE_OVERHEAD", "")) / 2
        except ValueError:
            self._share = 0.0025
        self._file = -1
        self._opened: Optional[File] = None
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        # A forked child's main thread is another one.
        self._follow(0)
        self.period = 1
        self.beside_ns = 0  # what a measured step is charged in addition to the readings, by hooks
        self._cost_ns = 0.0  # of the readings in a step
        self._measured = 0
        self._number = -1
        self._sent_zero = False

    def _follow(self, thread: int) -> None:
        """From now on it is about this thread, the one that calls; 0: none."""
        self.on, self.thread = False, thread
        self._begin: Optional[_Border] = None  # of the step that goes on, where that is known
        self.next = 0  # at the end of which step to look again
        self._run = self._delay = self._moment = 0  # as read last
        self._parts: Dict[str, List[int]] = {}  # of the step: run, delay
        self._part: Optional[Tuple[str, int, int]] = None  # the one that goes on
        self._depth = 0  # parts inside it
        self._gc_ns = self._gc_since = self._spent = 0
        if self._file >= 0 and file_of(self._file) == self._opened:  # the training may have closed it
            os.close(self._file)
        self._file = -1
        if thread:
            try:
                self._file = os.open(self._path, os.O_RDONLY)
                self._opened = file_of(self._file)
            except OSError:
                raise_again()  # else a kernel without it: only the time on a CPU is known

    def read(self, now: int) -> int:
        """Read what the thread had until `now`; the moment it is of, a later one if it lost its CPU, `now` if
        it could not be read."""
        try:
            return self._read(now)
        except Exception:
            self._fail()
            return now

    def _read(self, now: int) -> int:
        begin = now
        for left in RETRIES:
            self._run = _thread_time()
            if self._file >= 0:
                self._delay = int(os.pread(self._file, 64, 0).split()[1])
            end = _clock()
            if end - now < PREEMPTED_NS or not left:
                break
            now = end
        self._spent += min(end - begin, PREEMPTED_NS)
        self._moment = now
        return now

    def begins(self, part: str, now: int) -> int:
        """The thread begins a part of its step at `now`; ends() must follow. The moment of the reading."""
        if self._part is not None:  # inside another one, to which it counts
            self._depth += 1
            return now
        try:
            since = now - self._moment
            if not 0 <= since < LATE_NS:  # most fetches follow on a border, which has been read
                now, since = self._read(now), 0
            self._part = (part, self._run + since, self._delay)
        except Exception:
            self._fail()
        return now

    def ends(self, now: int, counts: bool = True) -> int:
        """The part that began last is over; it was none unless it `counts`."""
        begun = self._part
        if begun is None:  # it began before its step did
            return now
        if self._depth:
            self._depth -= 1
            return now
        self._part = None
        if not counts:
            return now
        try:
            now = self._read(now)
            of = self._parts.setdefault(begun[0], [0, 0])
            of[0] += self._run - begun[1]
            of[1] += self._delay - begun[2]
        except Exception:
            self._fail()
        return now

    def over(self, number: int, now: int) -> Optional[StepCounts]:
        """Step `number` ended at `now` (if it was measured, best as `read` returned it), and the next begins.
        None: nothing is known of it."""
        try:
            if number > self._number and not self.on and number < self.next:
                self._number = number
                return None
            since, spent = _thread_time(), self._spent  # in CPU time: it may lose its CPU here
            end = self._read_at(now)
            begin = self._begin  # none where the thread is another one since
            whole = begin is not None and end is not None and self._part is None
            found = None
            if whole:
                found = self._close(begin, end)  # type: ignore[arg-type]
                self._learn(end.time_ns - begin.time_ns, spent + _thread_time() - since)  # type: ignore[union-attr]
            self._start(number + 1, end)
            self._number, self._spent = number, _thread_time() - since
            return found
        except Exception:
            self._fail()
            return None

    def starts(self, number: int, now: int) -> None:
        """Step `number` begins at `now`; what was since the last one is of none."""
        try:
            if number > self._number and not self.on and number - 1 < self.next:
                return
            self._start(number, self._read_at(now))
        except Exception:
            self._fail()

    def _read_at(self, now: int) -> Optional[_Border]:
        """What the thread had had by `now`, which may have been read then; None: it is too long ago."""
        if thread_number() != self.thread:
            self._follow(thread_number())
            if self._collection not in gc.callbacks:
                gc.callbacks.append(self._collection)
        if self._moment != now:
            late = _clock()
            if not now <= late < now + LATE_NS or self._read(late) != late:
                return None
            self._run -= late - now  # the thread ran the hook that calls this
            self._moment = now
        if getrusage is None:
            return _Border(now, self._run, self._delay, 0, 0)
        usage = getrusage(RUSAGE_THREAD)
        return _Border(now, self._run, self._delay, usage.ru_majflt, usage.ru_inblock)

    def _close(self, begin: _Border, end: _Border) -> StepCounts:
        delays = self._file >= 0
        counts = [end.run - begin.run, *((end.delay - begin.delay,) if delays else ()), self._gc_ns]
        for of in self._parts.values():
            counts += of if delays else of[:1]
        # Nearly always none: sent once, so that a step without is one without and not one unknown.
        storage = (end.faults - begin.faults, end.blocks - begin.blocks)
        with_storage = getrusage is not None and (not self._sent_zero or any(storage))
        if with_storage:
            counts += storage
            self._sent_zero = True
        names = _names(tuple(self._parts), delays, with_storage)
        counts = [count if count > 0 else 0 for count in counts]
        return StepCounts(names, tuple(counts), begin.time_ns + (end.time_ns - begin.time_ns) // 2)

    def _learn(self, step_ns: int, spent_ns: int) -> None:
        """A measured step took so long, so much of it for measuring: how many may be measured."""
        spent = float(spent_ns)
        if self._cost_ns:
            # A reading that lost its CPU says nothing of what one costs.
            spent = self._cost_ns + (min(spent, 2 * self._cost_ns) - self._cost_ns) / 8
        self._cost_ns = spent
        self._measured += 1
        share = self._share if self._measured < MANY else self._share / FEWER
        needed, self.period = (spent + self.beside_ns) / max(1.0, share * step_ns), 1
        while self.period < min(needed, MOST):
            self.period *= 2

    def _start(self, number: int, begin: Optional[_Border]) -> None:
        """Measure step `number`, which begins there (None: that could not be read), if it is its turn."""
        self._begin = self._part = None
        self._parts, self._depth = {}, 0
        self._gc_ns = self._gc_since = self._spent = 0
        if number >= ALWAYS and self.period > 1:
            turn = measured_in(number // self.period, self.period)
            if turn < number:
                turn = measured_in(number // self.period + 1, self.period)
            if turn > number:
                self.on, self.next = False, turn - 1
                return
        self.on, self.next, self._begin = True, number, begin

    def _fail(self) -> None:
        """Something is not as it should be. A thread that has ended is followed no more; else, as with a
        descriptor that the training has closed, the account is over."""
        raise_again()
        if thread_number() != self.thread:
            self._follow(0)
        else:
            self.on, self._begin, self.next, self._number = False, None, 1 << 62, -(1 << 62)

    def _collection(self, phase: str, info: Mapping[str, int]) -> None:
        # In CPU time: what the thread waits for a CPU meanwhile is counted as that.
        if self.on and thread_number() == self.thread:
            if phase == "start":
                self._gc_since = _thread_time()
            elif self._gc_since:
                self._gc_ns += _thread_time() - self._gc_since
                self._gc_since = 0
