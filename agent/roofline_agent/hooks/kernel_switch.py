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

from . import onednn_flag
from .signals import raise_again

SAMPLED = "ROOFLINE_KERNELS"  # "sampled": the wrapper wants kernels of a sample of steps
OVERHEAD = "ROOFLINE_OVERHEAD"  # share of the time that all of us may take, as "0.005"
PRINTS = "tensorflow"  # a framework whose oneDNN can only be switched if it has begun to print
# What the wrapper has set for libraries that cannot be switched while they run.
SWITCHES = ("MKL_VERBOSE", "ONEDNN_VERBOSE", "DNNL_VERBOSE", "MKLDNN_VERBOSE")

FIRST, BEHIND_FIRST = 1, 5  # steps that are always in the sample
LEAST, MOST, UNTIL_KNOWN = 8, 1024, 64  # one step in so many; powers of two
JUDGED, AT_LEAST = 16, 4  # sampled steps that tell the cost
# Short steps are sampled once a second at most. After 32 sampled steps the kernels are known well: from then
# on a quarter as many steps are sampled, and short ones once in four seconds.
SOON_NS = 10**9
MANY, FEWER, SELDOM_NS = 32, 4, 4 * 10**9
COMPARED, FEWEST = 15, 3  # steps before a sampled one that it is compared with
LATE_NS = 200000  # if a border is seen later than this, kernels of the next step may have run already
OURS = 0.25  # of the budget, that the lines may take when all else has used it up
OTHERS = struct.Struct("<I")  # in the page of the wrapper, at OTHERS_AT: what agent and wrapper take, 1e-6
OTHERS_AT = 4
FEWER_AT, MOST_FEWER = 8, 16  # in that page, as OTHERS: how many times fewer steps the agent asks for
LINES_AT = 12  # in that page: a byte that is 1 while the wrapper reads lines that are not of steps
THROUGH_NS = 10**9  # so often a stretch of time is said to be reported until then
NEVER = 1 << 62

Switch = Callable[[int], Any]


class Sampling:
    """Which steps are in the sample. Pure."""

    def __init__(self, budget: float) -> None:
        """budget: share of the time that the lines may cost."""
        self.budget = budget
        self.period = UNTIL_KNOWN  # by what they cost
        self.fewer = 1  # times, as the agent asks for; a power of two
        self._excess: Deque[float] = deque(maxlen=JUDGED)
        self._judged = 0

    @property
    def every(self) -> int:
        """One step in so many is in the sample."""
        return min(self.period * self.fewer, max(MOST, self.period))

    def next(self, number: int) -> int:
        """The first step behind step `number` that is in the sample."""
        if number < BEHIND_FIRST - 1:
            return max(number + 1, FIRST)
        lot = (number + 1) // self.every
        found = self._step_of(lot)
        return found if found > number else self._step_of(lot + 1)

    def _step_of(self, lot: int) -> int:
        """Of so many neighbours as the period has, the one in the sample. Its place differs from lot to lot
        (Owen scrambling): a sample of 1 in 128 is a part of that of 1 in 64, and no rhythm of the training
        falls in with it."""
        number, bit = lot, self.every
        while bit > 1:
            bit //= 2
            number = 2 * number + bool(number * 2654435761 + bit * 40503 & 0x8000)
        return number

    def judge(self, sampled_ns: int, other_ns: float) -> bool:
        """Learn what a sampled step took, and what others before it; whether the period has changed."""
        self._excess.append(sampled_ns / other_ns - 1)
        self._judged += 1
        if len(self._excess) < AT_LEAST:
            return False
        before, needed = self.period, max(0.0, statistics.median(self._excess)) / self.budget
        if self._judged >= MANY:
            needed = max(FEWER * needed, FEWER * LEAST, SELDOM_NS / other_ns)
        else:
            needed = max(needed, SOON_NS / other_ns)
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
        self.sampling = Sampling(overhead)
        self._next = -1  # step of the sample
        self._since = (0, 0)  # a step before it, and when that ended
        self._begin = (0, 0)  # of what is sampled: the step before, and when that ended
        self._other_ns = 0.0  # what steps before it took, in the mean; 0: not known
        self._on = False
        self._late = False  # switched on when kernels of this step may have run already
        self._set(0)  # in a process with PyTorch and TensorFlow both have been left to print
        os.register_at_fork(after_in_child=self.silence)

    def silence(self) -> None:
        """Switch the libraries off if they are on."""
        if self._on:
            self._set(0)
        self._on = False

    def border(self, number: int, end_ns: int, leave_next: bool = False) -> int:
        """Step `number` ended at end_ns, and the next goes on. leave_next: another profiler records that one.
        Where several steps end at once, call it for the last of them alone: they are sampled together.

        Returns the number of the step at whose end this must be called again.
        """
        if not self._switches:
            return NEVER
        if self._next < 0 and number >= BEHIND_FIRST - 1:  # the first steps have ended at once
            self._next = number + 1
        if self._on:
            self._ended(number, end_ns, leave_next)
        elif 0 <= self._next <= number + 1 and not leave_next:
            self._start(number, end_ns)
        elif number + 1 < self._next:
            self._since = number, end_ns  # from here on the steps are what the sampled one is compared with
            return self._next - 1
        if self._on:
            return number + 1
        self._next = self.sampling.next(number + 1)
        self._since = number, end_ns
        return max(number + 1, self._next - 1 - COMPARED)

    def _ended(self, number: int, end_ns: int, leave_next: bool) -> None:
        """A step ended while the libraries were on."""
        was_late, self._late = self._late, False
        if was_late:
            again = True  # the step that follows is the first whole one
        else:
            before, begin_ns = self._begin
            each_ns = (end_ns - begin_ns) // max(1, number - before)
            if self._other_ns and self.sampling.judge(each_ns, self._other_ns):
                self._fact("cost.kernels", "1/%d" % self.sampling.every)
            again = number + 1 < BEHIND_FIRST
        self._begin, self._other_ns = (number, end_ns), 0.0
        again = again and not leave_next
        if not again:
            self._set(0)
            self._on = False
        # Of what began late nothing is claimed: where steps end at once, theirs are parts of it.
        if not self._report(("on" if was_late else "through") if again else "off", end_ns) and again:
            self._set(0)
            self._on = False

    def _start(self, number: int, end_ns: int) -> None:
        self._look_at_page()
        before, since_ns = self._since
        judged = number - before >= FEWEST and number >= BEHIND_FIRST
        self._other_ns = (end_ns - since_ns) / (number - before) if judged else 0.0
        self._begin = number, end_ns
        now = time.monotonic_ns()
        self._late = now - end_ns > LATE_NS
        # The note comes before the first line.
        if self._report("on", now if self._late else end_ns):
            self._set(1)
            self._on = True

    def _look_at_page(self) -> None:
        """What the others cost, and whether the agent asks for fewer steps."""
        try:
            others = OTHERS.unpack_from(self._page, OTHERS_AT)[0] / 1e6
            asked = OTHERS.unpack_from(self._page, FEWER_AT)[0]
        except Exception:
            raise_again()
            others, asked = 0.0, 1
        self.sampling.budget = max(self._overhead - others, OURS * self._overhead)
        fewer = 1 << (min(max(asked, 1), MOST_FEWER).bit_length() - 1)
        if fewer != self.sampling.fewer:
            self.sampling.fewer = fewer
            self._fact("cost.kernels", "1/%d" % self.sampling.every)

    def _set(self, level: int) -> None:
        for switch in self._switches:
            switch(level)

    def _report(self, what: str, moment_ns: int) -> bool:
        return self._note(sample_note(what, moment_ns))


class TimedSwitch:
    """Switches the libraries of a process whose steps end in another one, as those of a worker of parameter
    servers do: on while the wrapper reads what they print, off in between."""

    def __init__(self, note: Callable[[bytes], bool], page: Any) -> None:
        """As of KernelSwitch."""
        self._note, self._page = note, page
        self._flags: List[onednn_flag.OnednnFlag] = []  # kept, as looking for them takes milliseconds
        self._switches: List[Switch] = []
        self._reported_ns = 0  # until then every kernel is; 0: they are off
        self.is_over = False  # there is nothing to switch
        os.register_at_fork(after_in_child=self.stop)

    def look(self) -> None:
        """Call it several times a second."""
        if not self._switches:
            self._flags = self._flags or onednn_flag.flags()
            self.is_over = not self._flags
            self._switches = [flag for flag in self._flags if flag.prints]
            if not self._switches:
                return
            if self._note(sample_note("timed", time.monotonic_ns())):
                self._begin()
            else:  # stdout goes elsewhere now
                self._switches = []
        elif not self._reported_ns and self._page[LINES_AT]:
            for switch in self._switches:
                switch(1)
            self._begin()
        elif self._reported_ns:
            now, wanted = time.monotonic_ns(), self._page[LINES_AT]
            if not wanted:
                self.stop()
            if not wanted or now - self._reported_ns >= THROUGH_NS:
                self._report("through" if wanted else "off", now)

    def stop(self) -> None:
        """Switch them off."""
        self._reported_ns = 0
        for switch in self._switches:
            switch(0)

    def _begin(self) -> None:
        self._report("on", time.monotonic_ns())

    def _report(self, what: str, moment_ns: int) -> None:
        self._reported_ns = 0 if what == "off" else moment_ns
        if not self._note(sample_note(what, moment_ns)):
            self.stop()  # what they print no longer goes to the wrapper
            self.is_over = True


def sample_note(what: str, moment_ns: int) -> bytes:
    """A line between those of the libraries, which tells the wrapper what is reported (verbose/stream.py)."""
    values = (os.getpid(), what, moment_ns, time.time_ns() if moment_ns else 0)
    return b"roofline_verbose,kernels,%s\n" % ",".join(map(str, values)).encode()


def switchable(environ: Any = os.environ) -> bool:
    """Called before a framework whose libraries can be switched is loaded: whether kernels should be sampled.
    The libraries then begin silent."""
    if environ.get(SAMPLED) != "sampled":
        return False
    for name in SWITCHES:
        if name == "MKL_VERBOSE" or PRINTS not in sys.modules:
            environ.pop(name, None)
    return True


def let_print(environ: Any = os.environ) -> None:
    """Called as a framework has been loaded whose oneDNN can only be switched if it has begun to print."""
    if environ.get(SAMPLED) == "sampled":
        environ.setdefault(SWITCHES[1], "1")
        onednn_flag.flags()


def switches() -> List[Switch]:
    """The switches of the libraries that are loaded now."""
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
    return found + printing()


def printing() -> List[Switch]:
    """Switches of libraries that have printed their kernels from the start on (TensorFlow's)."""
    return [flag for flag in onednn_flag.flags() if flag.prints]


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
        raise_again()
        return None  # a library without this switch: `switches` goes without it


def _loaded_libraries(prefixes: Any) -> List[str]:
    found = []
    try:
        with open("/proc/self/maps") as file:
            for line in file:
                path = line.rstrip("\n").partition("/")[2]
                if os.path.basename(path).startswith(prefixes):
                    found.append("/" + path)
    except OSError:
        raise_again()
        return []
    return sorted(set(found))
