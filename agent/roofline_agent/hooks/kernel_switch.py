"""Has MKL and oneDNN report their kernels in a sample of a rank's steps, and not in the others.

Both libraries print a line per call where their verbose output is on; MKL's costs some 50 us a call. It is
switched at the borders of steps: on for the first steady steps, then for one step in a number that follows
what it costs. Which steps these are follows from their numbers alone, so that all ranks of a job pay in the
same steps. Notes between the lines say in which stretches of time every kernel was reported.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import struct
import sys
import time
from collections import deque
from typing import Any, Callable, Deque, List

SAMPLED = "ROOFLINE_KERNELS"  # "sampled": the wrapper wants kernels of a sample of steps
OVERHEAD = "ROOFLINE_OVERHEAD"  # share of the time that all of us may take, as "0.005"
# What the wrapper has set for libraries that cannot be switched while they run.
SWITCHES = ("MKL_VERBOSE", "ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")

FIRST, BEHIND_FIRST = 1, 5  # steps that are always in the sample
LEAST, MOST, UNTIL_KNOWN = 8, 1024, 64  # one step in so many; powers of two
JUDGED, AT_LEAST, COMPARED = (
    16,
    4,
    15,
)  # sampled steps that tell the cost, and others that they are held against
LATE_NS = 200000  # a border that was known so much later: kernels of its next step may have run already
OURS = 0.25  # of the budget, that the lines may take when all else has used it up
OTHERS = struct.Struct("<I")  # in the page of the wrapper, at OTHERS_AT: what agent and wrapper take, 1e-6
OTHERS_AT = 4

Switch = Callable[[int], Any]


class Sampling:
    """Which steps are in the sample: pure, for steps that are told one after the other."""

    def __init__(self, budget: float) -> None:
        """budget: share of the time that the lines may cost."""
        self.budget = budget
        self.period = UNTIL_KNOWN
        self._excess: Deque[float] = deque(maxlen=JUDGED)
        self._others: Deque[int] = deque(maxlen=COMPARED)
        self._seen = 0  # steps that have ended

    def ended(self) -> None:
        """A step has ended, however long it took."""
        self._seen += 1

    def wants(self, number: int) -> bool:
        """Whether step `number`, which comes next, is one of the sample."""
        if FIRST <= self._seen < BEHIND_FIRST:
            return True
        # One in each `period` neighbours, at a place that differs from lot to lot (Owen scrambling): a sample
        # of 1 in 128 is a part of that of 1 in 64, and no rhythm of the training falls in with it.
        bit = 1
        while bit < self.period:
            above = number // (2 * bit)
            if bool(number & bit) != bool(above * 2654435761 + bit * 40503 & 0x8000):
                return False
            bit *= 2
        return True

    def took(self, duration_ns: int, sampled: bool) -> bool:
        """Learn from a step that has ended; whether the period has changed."""
        if not sampled:
            self._others.append(duration_ns)
            return False
        if self._seen <= BEHIND_FIRST or len(self._others) < COMPARED:
            return False  # still warming up, or nothing to hold it against
        self._excess.append(duration_ns / statistics.median(self._others) - 1)
        if len(self._excess) < AT_LEAST:
            return False
        return self._adjust()

    def _adjust(self) -> bool:
        before, needed = self.period, max(0.0, statistics.median(self._excess)) / self.budget
        self.period = LEAST
        while self.period < min(needed, MOST):
            self.period *= 2
        return self.period != before


class KernelSwitch:
    """Switches the libraries of this process at the borders of its steps."""

    def __init__(
        self,
        switches: List[Switch],
        note: Callable[[bytes], bool],
        fact: Callable[[str, object], None],
        overhead: float,
        page: Any = b"",
    ) -> None:
        """note: writes a line to the rank's output, if that still goes to the wrapper. page: of the wrapper,
        with what it and the agent cost."""
        self._switches, self._note, self._fact = switches, note, fact
        self._overhead, self._page = overhead, page
        self._sampling = Sampling(overhead)
        self._border_ns = 0  # of the step that goes on; 0: not known
        self._on = False
        self._late = False  # switched on when kernels of this step may have run already
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        if self._on:
            self._set(0)
        self._on, self._border_ns = False, 0

    def border(self, number: int, end_ns: int) -> None:
        """Step `number` ended at end_ns, and the next goes on."""
        if not self._switches:
            return
        sampling = self._sampling
        if number >= 0:
            sampling.ended()
        if self._border_ns and not self._late and sampling.took(end_ns - self._border_ns, self._on):
            self._fact("cost.kernels", "1/%d" % sampling.period)
        self._border_ns = end_ns
        if self._on:
            self._go_on_or_stop(number, end_ns)
        elif sampling.wants(number + 1):
            self._start(number, end_ns)

    def _go_on_or_stop(self, number: int, end_ns: int) -> None:
        # After a late start the step that follows is the first whole one.
        stop = not self._late and not self._sampling.wants(number + 1)
        self._late = False
        if stop:
            self._set(0)
            self._on = False
        if not self._say("off" if stop else "through", end_ns) and not stop:
            self._set(0)
            self._on = False

    def _start(self, number: int, end_ns: int) -> None:
        self._budget()
        now = time.monotonic_ns()
        self._late = now - end_ns > LATE_NS
        # The note stands before the first line.
        if self._say("on", now if self._late else end_ns):
            self._set(1)
            self._on = True

    def _budget(self) -> None:
        try:
            others = OTHERS.unpack_from(self._page, OTHERS_AT)[0] / 1e6
        except Exception:
            others = 0.0
        self._sampling.budget = max(self._overhead - others, OURS * self._overhead)

    def _set(self, level: int) -> None:
        for switch in self._switches:
            switch(level)

    def _say(self, what: str, moment_ns: int) -> bool:
        values = (os.getpid(), what, moment_ns, time.time_ns())
        return self._note(b"roofline_verbose,kernels,%s\n" % ",".join(map(str, values)).encode())


def switchable(environ: Any = os.environ) -> bool:
    """Called before a framework whose libraries can be switched is loaded: whether kernels shall be sampled.
    The libraries then begin silent."""
    if environ.get(SAMPLED) != "sampled":
        return False
    for name in SWITCHES:
        environ.pop(name, None)
    return True


def switches() -> List[Switch]:
    """Those of the libraries that are loaded now."""
    found: List[Switch] = []
    verbose = getattr(getattr(sys.modules.get("torch"), "_C", None), "_verbose", None)
    for name in ("mkl_set_verbose", "mkldnn_set_verbose"):
        switch = getattr(verbose, name, None)
        if switch is not None:
            found.append(switch)
    for path in _loaded_libraries(("libmkl_rt.", "libdnnl.") + (() if found else ("libtorch_cpu.",))):
        for name in ("mkl_verbose", "dnnl_set_verbose"):
            function = _function(path, name)
            if function is not None:
                found.append(function)
    return found


def warm_up(found: List[Switch]) -> None:
    """Have MKL print its first line, of a sum of one number.

    Before it does, it measures the clock of the processor, which takes up to a second: in step 0, which is
    slow anyway, and in all ranks at once.
    """
    for path in _loaded_libraries(("libtorch_cpu.", "libmkl_rt.")):
        axpy = _function(path, "saxpy_")
        if axpy is not None:
            # As MKL's integers may have 4 bytes or 8.
            one, number = ctypes.c_int64(1), ctypes.c_float(0)
            n, x = ctypes.byref(one), ctypes.byref(number)
            axpy.argtypes, axpy.restype = None, None
            for switch in found:
                switch(1)
            try:
                axpy(n, x, x, n, x, n)
            finally:
                for switch in found:
                    switch(0)


def _function(path: str, name: str) -> Any:
    try:
        function = getattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY), name)
        function.argtypes, function.restype = [ctypes.c_int], ctypes.c_int
        return function
    except Exception:
        return None


def _loaded_libraries(prefixes: Any) -> List[str]:
    found = []
    try:
        with open("/proc/self/maps") as file:
            for line in file:
                path = line.rstrip("\n").partition("/")[2]
                if os.path.basename(path).startswith(prefixes):
                    found.append("/" + path)
    except OSError:
        return []
    return sorted(set(found))
