"""The ceilings of this node's GPUs, and what launching costs; nothing is raised for what it does not have.

Measured by the training's own Python with what is in it (PyTorch), in a process of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..records import Ceiling
from .child import Heard, listen
from .pythons import choose

BENCH = Path(__file__).with_name("bench")
# The longest stretch without news: a framework on a slow file system is loaded, or its kernels are.
SILENCE_S = 180.0
# What would make one precision pass for another, or one GPU for another.
_UNWANTED = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUDA_LAUNCH_BLOCKING")


def measure_gpus(
    progress: Callable[[Ceiling], None], python: str | None = None, quick: bool = False
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """(ceilings, notes that say what could not be measured, why, and what to do).

    python: with it is measured; None: our own, or one on PATH that has a framework. `progress` hears of each
    ceiling as it is done. quick: too rough for anything but tests.
    """
    environ = dict(os.environ)
    chosen, why = choose(python, environ)
    if chosen is None:
        return (), (f"GPUs and launch overhead were not measured: {why}",)
    options = ["--quick"] if quick else []
    heard = [
        listen([chosen.path, str(BENCH), what, *options], surroundings, progress, SILENCE_S)
        for what, surroundings in (("dispatch", _without_gpus(environ)), ("gpus", _for_gpus(environ)))
    ]
    return _both(heard)


def _without_gpus(environ: dict[str, str]) -> dict[str, str]:
    # TensorFlow would take all memory of every GPU for an operation on the CPU.
    return {**environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}


def _for_gpus(environ: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in _UNWANTED}
    # CUDA numbers GPUs by speed unless told; NVML, and so the agent's samples, by their place on the bus.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **kept}


def _both(heard: list[Heard]) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    return (
        tuple(ceiling for one in heard for ceiling in one.ceilings),
        tuple(dict.fromkeys(note for one in heard for note in one.notes)),
    )
