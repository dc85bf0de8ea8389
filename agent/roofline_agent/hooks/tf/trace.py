"""TensorFlow: its profiler (XPlane) for steps that are recorded on demand (tracing.py).

A process has one profiler. Where the training has begun one, ours is not begun; where it begins one
meanwhile, as Keras' TensorBoard does, ours is ended first: else that would raise in the training.
"""

from __future__ import annotations

import functools
import os
import sys
import time
from typing import Any, Callable, List

ANCHOR = "roofline_anchor"  # an event at a known node time: a trace counts from its own begin
INNER = "tensorflow.python.profiler.profiler_v2"
VERBOSE = 3
TAKEN = "the training records something with TensorFlow's profiler itself"


class TensorFlowProfiler:
    """Records the operations of TensorFlow's executors with the shapes of their inputs, and the GPU's kernels
    where there is one."""

    def __init__(self, path: str) -> None:
        """path: of a folder that is made."""
        self._folder = path
        self._profiler: Any = None
        self._leave: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Raises what TensorFlow raises where the training is at it itself."""
        tensorflow: Any = sys.modules["tensorflow"]
        profiler = tensorflow.profiler.experimental
        os.mkdir(self._folder)
        # At this level operations have the shapes of their inputs.
        profiler.start(self._folder, profiler.ProfilerOptions(host_tracer_level=VERBOSE))
        self._profiler = profiler
        self._leave = make_way([profiler, sys.modules.get(INNER)], self._end)
        with profiler.Trace(ANCHOR, at=time.monotonic_ns()):
            pass

    def stop(self) -> str:
        """The path of the trace. Raises RuntimeError where the training has begun to record,
        FileNotFoundError where there is none."""
        if self._profiler is None:
            raise RuntimeError(TAKEN)
        self._end(save=True)
        for folder, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(".xplane.pb"):
                    return os.path.join(folder, name)
        raise FileNotFoundError("TensorFlow's profiler wrote no trace")

    def _end(self, save: bool = False) -> None:
        self._leave()
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop(save)


def make_way(owners: List[Any], end: Callable[[], None], name: str = "start") -> Callable[[], None]:
    """Have end() called before the function of this name of one of these modules; until what is returned is
    called."""
    replaced: List[Any] = []

    def leave() -> None:
        for owner, start in replaced:
            setattr(owner, name, start)
        replaced.clear()

    def wrapped(start: Any) -> Any:
        @functools.wraps(start)
        def starts(*args: Any, **kwargs: Any) -> Any:
            try:
                end()
            except Exception:
                leave()  # ours is lost; the training's begins as it would
            return start(*args, **kwargs)

        return starts

    for owner in owners:
        start = getattr(owner, name, None)
        if start is not None:
            replaced.append((owner, start))
            setattr(owner, name, wrapped(start))
    return leave


PROFILER = TensorFlowProfiler
