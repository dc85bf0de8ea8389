"""JAX: its profiler (XPlane) for steps that are recorded on demand (tracing.py).

A process has one profiler. Where the training has begun one, ours is not begun; where it begins one
meanwhile, ours is ended first: else that would raise in the training.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any, Callable

from ..tf.trace import ANCHOR, make_way

INNER = "jax._src.profiler"
START = "start_trace"
TAKEN = "the training records something with JAX's profiler itself"


class JaxProfiler:
    """Records the operations of XLA's executables."""

    def __init__(self, path: str) -> None:
        """path: of a folder that is made."""
        self._folder = path
        self._profiler: Any = None
        self._leave: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Raises what JAX raises where the training is at it itself."""
        profiler: Any = sys.modules["jax"].profiler
        os.mkdir(self._folder)
        if hasattr(profiler, "ProfileOptions"):
            options = profiler.ProfileOptions()
            options.python_tracer_level = 0  # each call of a Python function would be an event
            profiler.start_trace(self._folder, profiler_options=options)
        else:
            profiler.start_trace(self._folder)
        self._profiler = profiler
        self._leave = make_way([profiler, sys.modules.get(INNER)], self._end, START)
        with profiler.TraceAnnotation(ANCHOR, at=time.monotonic_ns()):
            pass

    def stop(self) -> str:
        """The path of the trace. Raises RuntimeError where the training has begun to record,
        FileNotFoundError where there is none."""
        if self._profiler is None:
            raise RuntimeError(TAKEN)
        self._end()
        for folder, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(".xplane.pb"):
                    return os.path.join(folder, name)
        raise FileNotFoundError("JAX's profiler wrote no trace")

    def _end(self) -> None:
        self._leave()
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop_trace()


PROFILER = JaxProfiler
