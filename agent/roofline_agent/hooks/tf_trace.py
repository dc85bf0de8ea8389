"""TensorFlow: its profiler (XPlane) for steps that are recorded on demand (tracing.py)."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

ANCHOR = "roofline_anchor"  # an event at a known node time: a trace counts from its own begin


class TensorFlowProfiler:
    """Records the operations of TensorFlow's executors, and the GPU's kernels where there is one."""

    def __init__(self, path: str) -> None:
        """path: of a folder that is made."""
        self._folder = path
        self._profiler: Any = None

    def start(self) -> None:
        """Raises what TensorFlow raises where the training is at it itself."""
        tensorflow: Any = sys.modules["tensorflow"]
        self._profiler = tensorflow.profiler.experimental
        os.mkdir(self._folder)
        self._profiler.start(self._folder)
        with self._profiler.Trace(ANCHOR, at=time.monotonic_ns()):
            pass

    def stop(self) -> str:
        """The path of the trace. Raises FileNotFoundError where there is none."""
        self._profiler.stop()
        for folder, _, names in os.walk(self._folder):
            for name in names:
                if name.endswith(".xplane.pb"):
                    return os.path.join(folder, name)
        raise FileNotFoundError("TensorFlow's profiler wrote no trace")


PROFILER = TensorFlowProfiler
