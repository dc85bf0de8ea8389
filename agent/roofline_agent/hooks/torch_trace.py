"""PyTorch: its profiler (Kineto) for steps that are recorded on demand (tracing.py)."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

QUIET = "6"  # Kineto's log level: nothing. At a lower one it prints a line for each stage


class TorchProfiler:
    """Records operators with their shapes, and the GPU's kernels where the training uses one."""

    def __init__(self, path: str) -> None:
        """path: of the file, without its ending."""
        self._path = path + ".json"
        self._profile: Any = None

    def start(self) -> None:
        """Raises RuntimeError where the training is at it itself."""
        os.environ.setdefault("KINETO_LOG_LEVEL", QUIET)
        torch: Any = sys.modules["torch"]
        profiler: Any = importlib.import_module(torch.__name__ + ".profiler")
        if torch.autograd._profiler_enabled():
            raise RuntimeError("the training records something with PyTorch's profiler itself")
        activities = [profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            activities.append(profiler.ProfilerActivity.CUDA)
            torch.cuda.synchronize()  # what earlier steps left to do is none of these
        self._profile = profiler.profile(activities=activities, record_shapes=True)
        self._profile.start()

    def stop(self) -> str:
        """The path of the trace."""
        profile, self._profile = self._profile, None
        profile.stop()
        profile.export_chrome_trace(self._path)
        return self._path


PROFILER = TorchProfiler
