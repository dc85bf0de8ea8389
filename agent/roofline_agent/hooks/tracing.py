"""Has the framework's own profiler record steps that the wrapper asks for, between their borders.

The wrapper writes into its page of memory which steps are wanted and where their trace is to lie
(run/rank_page.py). At the border before the first of them the profiler is started, at that behind the last
it is stopped and its file written; both take time that belongs to no step. A process that serves others, as
a worker of parameter servers does, has no borders: it records for as long as the steps take (tf/server.py).
Then a file "NAME.done" appears next to the trace, or "NAME.failed" with the reason, and the wrapper reads it.
The fact `trace.steps` names all steps that were disturbed so, whether anything was read of them or not;
`trace.times` the times of a process without borders.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import threading
import time
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from .signals import raise_again

SERIAL_AT = 16  # in the page: a byte that differs from what it was before when something new is asked for
# Two bytes, little-endian; the request, "100-102 FOLDER" or "+3 FOLDER". Empty once it was withdrawn, as
# processes that the command starts later read it, too.
LENGTH_AT, REQUEST_AT = 17, 19
MOST_REQUEST = 2048  # bytes
NO_PAGE = bytes(64)  # of a process without a wrapper: nothing is asked for

MOST_STEPS = 20  # of one trace

STEPS, TIMES = "trace.steps", "trace.times"  # facts; times are "BEGIN-END", monotonic ns
UNNUMBERED = -1  # the number of what is no step but a stretch of time
MOST_NS = 120000000000  # a profiler keeps what it has seen in memory: it is stopped at the border behind that
LEAST_S, MOST_S = 0.1, 60.0  # of a process without borders
MORE_STEPS = 1.5  # so much longer than the steps asked for: the first and the last are cut
LATE_NS = 1000000  # a border that is known so much later is no place to begin at
MOST_LATE = 20  # such borders in a row before it is given up
# Of steps that were asked for by number one may be: where the thread had lost its CPU nothing of the step is
# over, and all ranks are to record the same steps.
MOST_LATE_NUMBERED = 2
MOST_NAMED = 200  # ranges in the fact
NEVER = 1 << 62

JAX = "jax"
# The module that a framework's profiler is used from, once the framework itself is loaded.
PROFILERS = {"torch": "torch.profiler", "tensorflow": "tf.profiler", JAX: "jax.profiler"}

Stall = Tuple[int, int]


NO_BORDERS = "another process marks its steps: `roofline-client trace` has it record while the job runs"
NO_STEP_YET = "another process marks its steps, and none is known yet"
LATE = "its steps are known only when the next has begun"
PASSED = "they were over when they were seen: several steps end at once, or are numbered with holes"


class Request(NamedTuple):
    """first None: the next `wanted` steps, whichever these are. step_us: how long one usually lasts; 0: not
    known."""

    first: Optional[int]
    last: int
    wanted: int
    folder: str
    step_us: int


def parsed(text: str) -> Request:
    """Raises ValueError."""
    steps, _, folder = text.partition(" ")
    steps, _, step_us = steps.partition("@")
    lasting = int(step_us or 0)
    if steps.startswith("+"):
        return Request(None, 0, int(steps), folder, lasting)
    first, _, last = steps.partition("-")
    return Request(int(first), int(last or first), int(last or first) - int(first) + 1, folder, lasting)


class Tracing:
    """The traces of one process."""

    def __init__(self, page: Any, fact: Callable[[str, object], None]) -> None:
        self.page, self._fact = page, fact
        self.at = NEVER  # at the end of this step, or a later one, there is something to do
        self.framework = ""  # whose profiler it is; "": of the framework that is loaded
        self.serial = 0
        self._asked: Optional[Request] = None
        self._profiler: Any = None  # it runs
        self._recorded_by = ""  # whose it is
        self._began_ns = self._since_ns = 0
        self._left = 0  # so many steps are wanted from its begin on
        self._late = 0  # borders in a row that were known late
        self._steps: List[Tuple[int, int, int]] = []  # that it has seen: number, begin, end
        self._traced: List[str] = []  # ranges so far
        self.has_borders = False  # the steps of this process end in it
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self._at_exit)

    def _forget(self) -> None:
        """A forked child is not what was asked to record steps."""
        self.at, self._asked, self._profiler = NEVER, None, None

    @property
    def is_due(self) -> bool:
        """Whether the wrapper asks for something new."""
        return bool(self.page[SERIAL_AT] != self.serial)

    @property
    def records(self) -> bool:
        """Whether a profiler runs."""
        return self._profiler is not None

    def look(self, number: int) -> None:
        """Step `number` is over: what is asked for, if that is new."""
        self.has_borders = True
        try:
            if self.is_due and self._profiler is None:
                asked = self._take()
                if asked is None:
                    return
                # What ends now was perhaps not looked at in time to begin behind it.
                self.at = max(number, 0) if asked.first is None else _looked_at_from(asked.first)
                if asked.first is not None and number >= asked.first:
                    self._give_up("step %d had begun before it was asked for" % asked.first)
        except Exception as error:
            self._give_up(_text(error))
            raise_again()

    def _take(self) -> Optional[Request]:
        self.serial, self._late = self.page[SERIAL_AT], 0
        length = self.page[LENGTH_AT] + 256 * self.page[LENGTH_AT + 1]
        self.at, self._asked = NEVER, None
        if length:
            self._asked = parsed(bytes(self.page[REQUEST_AT : REQUEST_AT + length]).decode())
        return self._asked

    def record_time(self, wait: Callable[[float], None] = time.sleep) -> None:
        """Record, in a process without borders, what is asked for, for as long as the steps take."""
        try:
            asked = self._take()
            if asked is None:
                return
            if asked.first is not None or not asked.step_us:
                self._give_up(NO_BORDERS if asked.first is not None else NO_STEP_YET)
                return
            self._begin(asked)
            wait(min(MOST_S, max(LEAST_S, (asked.wanted + MORE_STEPS) * asked.step_us / 1e6)))
            self._steps.append((UNNUMBERED, self._began_ns, time.monotonic_ns()))
            self._stop()
        except Exception as error:
            self._profiler = None
            self._give_up(_text(error))
            raise_again()

    def refuse(self, why: str) -> None:
        """Say, of a process that has nothing to record, why, if something is asked for."""
        try:
            if self.is_due and self._profiler is None:
                self._take()
                self._give_up(why)
        except Exception as error:
            self._give_up(_text(error))
            raise_again()

    def follows(self, number: int) -> bool:
        """At the border behind step `number`: whether the next one is recorded."""
        left = self._asked is not None and len(self._steps) + 1 < self._left
        return left if self._profiler is not None else self.at <= number

    def border(self, number: int, now: int, more: bool = False) -> Optional[Stall]:
        """Step `number` ended at `now`, and the next goes on; more: that has ended too, and is handed over
        next. When the process did nothing but this; None: it went on at once."""
        try:
            if self._profiler is None:
                return None if more or number < self.at else self._start(number, now)
            self.at = number + 1
            if now > self._since_ns:  # else it was over when the profiler began
                self._steps.append((number, self._since_ns, now))
                self._since_ns = now
            is_over = len(self._steps) >= self._left or now - self._began_ns > MOST_NS
            if is_over and self._steps and not more:
                return self._stop()
        except Exception as error:
            self._profiler = None
            self._give_up(_text(error))
            raise_again()
        return None

    def _start(self, number: int, now: int) -> Optional[Stall]:
        asked, begun = self._asked, time.monotonic_ns()
        self.at = NEVER if asked is None else number + 1
        late = begun - now > LATE_NS
        self._late = self._late + 1 if late else 0
        if asked is None or number + 1 < (asked.first or 0):
            return None
        # Of several that ended at once the first may have been wanted, and is over.
        self._left = asked.wanted if asked.first is None else asked.last - number
        if self._left < 1:
            self._give_up(PASSED)
        elif self._late >= (MOST_LATE if asked.first is None else MOST_LATE_NUMBERED):
            self._give_up(LATE)
        elif not late or asked.first is not None:  # else a part of the step is over
            self._begin(asked)
            return begun, self._began_ns
        return None

    def _begin(self, asked: Request) -> None:
        """Raises RuntimeError, and what the profiler raises."""
        framework = self.framework or next((name for name in PROFILERS if name in sys.modules), "")
        if not framework:
            raise RuntimeError(
                "none of PyTorch, TensorFlow and JAX is loaded, whose profilers can record steps"
            )
        module = importlib.import_module("." + PROFILERS[framework], __package__)
        profiler = module.PROFILER(os.path.join(asked.folder, self._name))
        profiler.start()
        self._profiler, self._recorded_by, self._steps = profiler, framework, []
        self._began_ns = self._since_ns = time.monotonic_ns()

    def _stop(self) -> Stall:
        begun = time.monotonic_ns()
        profiler, self._profiler, asked = self._profiler, None, self._asked
        self.at = NEVER
        if asked is None:
            raise RuntimeError("it is not known who asked")
        first, last = self._steps[0][0], self._steps[-1][0]
        ends = self._steps[0][1:] if first == UNNUMBERED else (first, last)
        self._traced = [
            *self._traced[1 - MOST_NAMED :],
            "%d-%d" % ends if ends[1] > ends[0] else str(ends[0]),
        ]
        self._fact(TIMES if first == UNNUMBERED else STEPS, ",".join(self._traced))
        # The device's work of these steps is waited for, then written.
        path = profiler.stop()
        ended = time.monotonic_ns()
        self._answer(
            asked,
            "done",
            {
                "trace": os.path.relpath(path, asked.folder),
                "framework": self._recorded_by,
                "steps": self._steps,
                "unix_minus_node_ns": time.time_ns() - time.monotonic_ns(),
                "start_ns": self._began_ns,
                "stop_ns": ended - begun,
                "thread": threading.get_native_id(),
            },
        )
        self._asked = None
        return begun, ended

    @property
    def _name(self) -> str:
        return "%d-%d" % (os.getpid(), self.serial)

    def _give_up(self, why: str) -> None:
        """Without the trace; the training goes on."""
        asked, self._asked, self.at = self._asked, None, NEVER
        if asked is not None:
            try:
                self._answer(asked, "failed", why)
            except Exception:
                raise_again()

    def _answer(self, asked: Request, what: str, content: object) -> None:
        path = os.path.join(asked.folder, self._name)
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.rename(path + ".new", "%s.%s" % (path, what))

    def _at_exit(self) -> None:
        """The training ends before the last of the steps did."""
        try:
            if self._profiler is not None and self._steps:
                self._stop()
            elif self._asked is not None:
                self._give_up("the training ended before these steps did")
        except Exception as error:
            self._give_up(_text(error))
            raise_again()


def _looked_at_from(first: int) -> int:
    """The border before the one where this step begins: it shows whether borders are known in time."""
    return first - 2 if first > 1 else first - 1


def _text(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, error)
