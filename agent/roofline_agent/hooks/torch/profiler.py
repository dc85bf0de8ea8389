"""PyTorch: its profiler (Kineto) for steps that are recorded on demand (tracing.py).

A process has one profiler. Where the training has begun one, ours is not begun; where it begins one
meanwhile, ours is ended first, so that the training's has what it would have without us.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Callable

from ..profilers import make_way
from .layers import Layers

QUIET = "6"  # Kineto's log level: nothing. At a lower one it prints a line for each stage
TAKEN = "the training records something with PyTorch's profiler itself"


class TorchProfiler:
    """Records operators with their shapes and layers, and the GPU's kernels where the training uses one."""

    def __init__(self, path: str) -> None:
        """path: of the file, without its ending."""
        self._path = path + ".json"
        self._profile: Any = None
        self._layers: Any = None
        self._leave: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Raises RuntimeError where the training is at it itself."""
        os.environ.setdefault("KINETO_LOG_LEVEL", QUIET)
        torch: Any = sys.modules["torch"]
        profiler: Any = importlib.import_module(torch.__name__ + ".profiler")
        if torch.autograd._profiler_enabled():
            raise RuntimeError(TAKEN)
        activities = [profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            activities.append(profiler.ProfilerActivity.CUDA)
            torch.cuda.synchronize()  # what earlier steps left to do is none of these
        self._profile = profiler.profile(activities=activities, record_shapes=True)
        self._profile.start()
        self._leave = make_way([torch.autograd.profiler.profile], self._end, "_prepare_trace")
        self._layers = Layers(torch)
        self._layers.start()

    def stop(self) -> str:
        """The path of the trace. Raises RuntimeError where the training has begun to record."""
        profile = self._end()
        if profile is None:
            raise RuntimeError(TAKEN)
        profile.export_chrome_trace(self._path)
        return self._path

    def _end(self) -> Any:
        """The profile, which is over; None where it was ended before."""
        self._leave()
        profile, self._profile = self._profile, None
        if profile is not None:
            self._layers.stop()
            profile.stop()
        return profile


PROFILER = TorchProfiler
