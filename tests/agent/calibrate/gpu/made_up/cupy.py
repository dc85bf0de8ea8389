"""CuPy with one GPU, as far as it is used here: its arrays are numpy's, and each measured run takes 10 ms.

A test imports it, or puts this folder on the PYTHONPATH of a bench. $FAKE_CUPY_FULL: its memory is full.
"""

from __future__ import annotations

import os
from types import SimpleNamespace as Struct
from typing import Any, ClassVar

import numpy as np
from numpy import add, copyto, empty_like, matmul, sum, zeros  # noqa: F401

__version__ = "13.0"
EVENT_S = 10e-3
_chance = np.random.default_rng(1)


class Device:
    attributes: ClassVar = {"L2CacheSize": 1 << 19}
    mem_info = (1 << 30, 1 << 30)

    def __init__(self, at: int) -> None:
        self.at = at

    def use(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


class ElementwiseKernel:
    """Of the one line that it may be here."""

    def __init__(self, inputs: str, outputs: str, code: str, name: str) -> None:
        assert (inputs, outputs, code) == ("float32 a, float32 b", "float32 c", "c = a + 3.0f * b")

    def __call__(self, a: Any, b: Any, c: Any) -> None:
        c[...] = a + 3 * b


def _standard_normal(shape: tuple[int, ...], dtype: str) -> Any:
    if "FAKE_CUPY_FULL" in os.environ:
        raise MemoryError("out of memory")
    return _chance.standard_normal(shape, dtype)


_event = Struct(record=lambda: None, synchronize=lambda: None)
random = Struct(standard_normal=_standard_normal)
cuda = Struct(
    Device=Device,
    Event=lambda: _event,
    get_elapsed_time=lambda begin, end: 1e3 * EVENT_S,
    runtime=Struct(getDeviceCount=lambda: 1),
)


def get_default_memory_pool() -> Any:
    return Struct(free_all_blocks=lambda: None)
