"""Opens the CUDA profiler's range for the steps that `roofline-agent run --ncu STEPS` asks for.

It calls the runtime that the training has loaded (cudaProfilerStart and Stop of libcudart, else
cuProfilerStart and Stop of libcuda), and loads none itself. Windows are written to a file: "STEP BEGIN" when
a range opens, "STEP BEGIN END" when it closes, in the node time (ns) of the marks, so that a window is the
step as the agent knows it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import re
from typing import Any, List, Mapping, Optional, Tuple

from .signals import raise_again

LIBRARIES = (
    ("libcudart", "cudaProfilerStart", "cudaProfilerStop"),
    ("libcuda", "cuProfilerStart", "cuProfilerStop"),
)
_LIBRARY = re.compile(r"(libcudart|libcuda)(-[0-9a-f]+)?\.so[.0-9]*$")


def ranges(text: str) -> List[Tuple[int, int]]:
    """Ranges of steps as the wrapper writes them: "5,100-102"; malformed ones are left out."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.append((int(first), int(last or first)))
    return found


def loaded(maps: str) -> Mapping[str, str]:
    """Paths of the CUDA libraries in the text of /proc/self/maps, by their names."""
    found = {}
    for line in maps.splitlines():
        path = line.split(None, 5)[-1]
        match = _LIBRARY.match(os.path.basename(path))
        if match:
            found[match.group(1)] = path
    return found


def _nothing() -> None:
    """In place of a stop, where the range is closed already."""


class ProfilerRange:
    """Follows one rank's steps. Never raises."""

    def __init__(self, steps: str, windows: str) -> None:
        self._ranges = ranges(steps)
        self._windows = windows
        self._pid = os.getpid()
        self._open = None  # type: Optional[Tuple[int, int]]
        self._stop = None  # type: Any
        atexit.register(self.close)

    def begins(self, step: int, time_ns: int) -> None:
        """Step number `step` has begun."""
        if self._open is not None and self._open[0] != step:
            self.close(time_ns)
        if self._open is not None or not any(first <= step <= last for first, last in self._ranges):
            return
        # A forked worker has no CUDA of its own and is no rank.
        if os.getpid() != self._pid:
            return
        functions = self._functions()
        if functions is None:
            return
        start, self._stop = functions
        self._opened(step, time_ns)
        start()

    def _opened(self, step: int, time_ns: int) -> None:
        self._open = (step, time_ns)
        self._write("%d %d\n" % self._open)

    def ended(self, step: int, time_ns: int, next_begins: bool = True, more: bool = False) -> None:
        """Step number `step` has ended; next_begins: and with it the next one has begun. more: that has ended
        too, so that no range can be opened for it; one that was open held what both of them did."""
        was_open = self._open is not None
        self.close(time_ns)
        if not more:
            if next_begins:
                self.begins(step + 1, time_ns)
        elif was_open and self._open is None:
            self._stop = _nothing
            self._opened(step + 1, time_ns)

    def close(self, time_ns: Optional[int] = None) -> None:
        """The step in which the range is open has ended; time_ns None: it never will."""
        if self._open is None or os.getpid() != self._pid:
            return
        (step, begin), self._open = self._open, None
        self._stop()
        if time_ns is not None:
            self._write("%d %d %d\n" % (step, begin, time_ns))

    def _functions(self) -> Optional[Tuple[Any, Any]]:
        """The profiler's start and stop in the CUDA library that this process has loaded."""
        try:
            with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
                paths = loaded(file.read())
            for name, start, stop in LIBRARIES:
                if name in paths:
                    library = ctypes.CDLL(paths[name], mode=os.RTLD_NOW | os.RTLD_NOLOAD)
                    return getattr(library, start), getattr(library, stop)
        except (OSError, AttributeError):
            raise_again()  # TimeoutError is an OSError
        return None

    def _write(self, line: str) -> None:
        try:
            with open(self._windows, "a", encoding="ascii") as file:
                file.write(line)
        except OSError:
            raise_again()
