"""TensorFlow: its profiler for steps that are recorded on demand."""

from __future__ import annotations

import sys
from typing import Any, List, Tuple

from ..profilers import XPlaneProfiler

INNER = "tensorflow.python.profiler.profiler_v2"
VERBOSE = 3


class TensorFlowProfiler(XPlaneProfiler):
    """Records the operations of TensorFlow's executors with the shapes of their inputs, and the GPU's kernels
    where there is one."""

    framework = "TensorFlow"

    def _begin(self) -> Tuple[Any, List[Any], str, Any]:
        profiler: Any = sys.modules["tensorflow"].profiler.experimental
        # At this level operations have the shapes of their inputs.
        profiler.start(self._folder, profiler.ProfilerOptions(host_tracer_level=VERBOSE))
        return profiler, [profiler, sys.modules.get(INNER)], "start", profiler.Trace

    def _stop(self, profiler: Any, save: bool) -> None:
        profiler.stop(save)


PROFILER = TensorFlowProfiler
