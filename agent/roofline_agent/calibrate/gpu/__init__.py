"""The ceilings of this node's GPUs, and what launching costs; nothing is raised for what it does not have.

Measured by the training's own Python with what is in it (PyTorch, else CuPy), in a process of its own. For
what it could not measure Nsight Compute is asked (provenance reported). Theoretical peaks (`.theory`,
provenance analytic) are listed next to them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..calibration import Ceiling
from .child import BenchResult, run_bench
from .pythons import choose
from .reported import by_ncu
from .theory import theoretical

BENCH = Path(__file__).with_name("bench")
# The longest stretch without news: a framework on a slow file system is loaded, or its kernels are.
SILENCE_S = 180.0
# What would make one precision pass for another, or one GPU for another.
_UNWANTED = (
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUPY_TF32",
    "CUDA_LAUNCH_BLOCKING",
)


def measure_gpus(
    progress: Callable[[Ceiling], None], python: str | None = None, quick: bool = False, force: bool = False
) -> tuple[tuple[Ceiling, ...], tuple[str, ...]]:
    """(ceilings, notes that say what could not be measured, why, and what to do).

    python: with it is measured; None: our own, or one on PATH that has a framework. `progress` gets each
    ceiling as it is done. quick: too rough for anything but tests. force: also GPUs that others compute on,
    in a small part of their free memory.
    """
    environ = dict(os.environ)
    chosen, why = choose(python, environ)

    def run(path: str, what: str, environ: dict[str, str], *options: str) -> BenchResult:
        if quick:
            options = (*options, "--quick")
        return run_bench([path, str(BENCH), what, *options], environ, progress, SILENCE_S)

    results = []
    if chosen:
        # TensorFlow would take all memory of every GPU for an operation on the CPU.
        hidden = {**environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
        results.append(run(chosen.path, "dispatch", hidden))
    # Without a framework this says what to install, if there is a GPU at all.
    shared = ["--shared"] if force else []
    path = chosen.path if chosen else sys.executable
    results.append(run(path, "gpus", gpu_environment(environ), *shared))
    facts = run(sys.executable, "facts", environ)
    results.append(facts)

    ceilings = [ceiling for result in results for ceiling in result.ceilings]
    whole_gpus = [gpu for gpu in facts.gpus if not gpu.get("mig")]
    reported, why_not = by_ncu(gpus_for_ncu(whole_gpus, environ), ceilings, gpu_environment(environ))
    now_ns = time.time_ns()
    computed = [ceiling for gpu in whole_gpus for ceiling in theoretical(gpu, now_ns)]
    for ceiling in (*reported, *computed):
        progress(ceiling)
        ceilings.append(ceiling)
    notes = [f"launch: no framework's dispatch overhead was measured: {why}"] if why else []
    notes += [note for result in results for note in result.notes] + why_not
    return tuple(ceilings), tuple(dict.fromkeys(notes))


def gpus_for_ncu(gpus: Sequence[dict[str, Any]], environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """GPU 0, if Nsight Compute would see it as the first and nobody else is on it: it holds the clocks."""
    if environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() != "0":
        return []
    return [gpu for gpu in gpus if gpu.get("number") == 0 and not gpu.get("users")]


def gpu_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a framework measures what it is asked to measure, on the GPU it names."""
    kept = {name: value for name, value in environ.items() if name not in _UNWANTED}
    # CUDA numbers GPUs by speed by default; NVML, and so the agent's samples, by their place on the bus.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **kept}
