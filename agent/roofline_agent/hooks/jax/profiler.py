"""JAX: its profiler for steps that are recorded on demand."""

from __future__ import annotations

import sys
from typing import Any, List, Tuple

from ..profilers import XPlaneProfiler

INNER = "jax._src.profiler"


class JaxProfiler(XPlaneProfiler):
    """Records the operations of XLA's executables."""

    framework = "JAX"

    def _begin(self) -> Tuple[Any, List[Any], str, Any]:
        profiler: Any = sys.modules["jax"].profiler
        if hasattr(profiler, "ProfileOptions"):
            options = profiler.ProfileOptions()
            options.python_tracer_level = 0  # each call of a Python function would be an event
            profiler.start_trace(self._folder, profiler_options=options)
        else:
            profiler.start_trace(self._folder)
        return profiler, [profiler, sys.modules.get(INNER)], "start_trace", profiler.TraceAnnotation

    def _stop(self, profiler: Any, save: bool) -> None:
        profiler.stop_trace()


PROFILER = JaxProfiler
