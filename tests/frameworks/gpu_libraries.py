"""Measures "GPUs" with a real PyTorch on a machine without one; run by the framework's own Python.

`cpu`: the same products, streams and launches on torch's CPU device, timed by the host's clock. `meta`: as on
a CUDA device, with torch's device without memory: PyTorch checks every call's arguments, and nothing is
computed; events, which a CUDA device alone has, are made up. Prints the ceilings, which are of no use.
"""

from __future__ import annotations

import runpy
import sys
from types import SimpleNamespace as Struct
from typing import Any

import torch

BENCH, KIND = sys.argv[1:]
load = runpy.run_path(BENCH + "/__main__.py")["load"]
gpus, timing, torch_gpu = load("gpus"), load("timing"), load("torch_gpu")


class Device(str):
    """torch takes it for the name "meta"."""

    type = "cuda"


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: Event) -> float:
        return 10.0  # ms


class Torch:
    """torch with a CUDA device of capability 9.0, which has no memory."""

    cuda = Struct(
        Event=Event,
        set_device=lambda device: None,
        get_device_properties=lambda device: Struct(name="made up", L2_cache_size=1 << 20, major=9, minor=0),
        mem_get_info=lambda device: (1 << 30, 1 << 30),
        synchronize=lambda device: None,
        empty_cache=lambda: None,
    )

    def device(self, name: str) -> Device:
        return Device("meta")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


plan = timing.QUICK._replace(sizes=(64, 128), array_bytes=(1 << 20, 1 << 20), launches=50)
torch.set_grad_enabled(False)
if KIND == "cpu":
    gpus.measure(0, torch_gpu.TorchGpu(torch, "cpu"), plan)
else:
    gpus.measure(0, torch_gpu.TorchGpu(Torch(), "cuda:0", lambda: 1e9), plan)
