"""The ceilings of this node's GPUs, and what launching costs; nothing is raised for what it does not have.

Measured by the training's own Python with what is in it (PyTorch, else CuPy), in a process of its own. For
what it could not measure Nsight Compute is asked (provenance reported). Theoretical peaks (`.theory`,
provenance analytic) stand beside.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..records import Ceiling
from .child import Heard, listen
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

    python: with it is measured; None: our own, or one on PATH that has a framework. `progress` hears of each
    ceiling as it is done. quick: too rough for anything but tests. force: also GPUs that others compute on,
    in a small part of their free memory.
    """
    environ = dict(os.environ)
    chosen, why = choose(python, environ)
    run = partial(_run, quick=quick, progress=progress)
    heard = []
    if chosen:
        heard.append(run(chosen.path, "dispatch", _without_gpus(environ)))
    # Without a framework this says what to install, if there is a GPU at all.
    gpus = run(chosen.path if chosen else sys.executable, "gpus", _for_gpus(environ), shared=force)
    heard.append(gpus)
    heard.append(run(sys.executable, "facts", environ))
    ceilings = [ceiling for one in heard for ceiling in one.ceilings]
    whole = [facts for facts in heard[-1].gpus if not facts.get("mig")]
    said, why_not = by_ncu(_for_ncu(whole, environ), ceilings, _for_gpus(environ))
    for ceiling in said:
        progress(ceiling)
        ceilings.append(ceiling)
    for facts in whole:
        for ceiling in theoretical(facts, time.time_ns()):
            progress(ceiling)
            ceilings.append(ceiling)
    notes = [f"launch: no framework's dispatch overhead was measured: {why}"] if why else []
    notes += [note for one in heard for note in one.notes] + why_not
    return tuple(ceilings), tuple(dict.fromkeys(notes))


def _run(
    python: str,
    what: str,
    environ: dict[str, str],
    quick: bool,
    progress: Callable[[Ceiling], None],
    shared: bool = False,
) -> Heard:
    options = ["--quick"] * quick + ["--shared"] * shared
    return listen([python, str(BENCH), what, *options], environ, progress, SILENCE_S)


def _for_ncu(gpus: list[dict[str, Any]], environ: dict[str, str]) -> list[dict[str, Any]]:
    """GPU 0, if Nsight Compute would see it as the first and nobody else is on it: it holds the clocks."""
    if environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip() != "0":
        return []
    return [facts for facts in gpus if facts.get("number") == 0 and not facts.get("users")]


def _without_gpus(environ: dict[str, str]) -> dict[str, str]:
    # TensorFlow would take all memory of every GPU for an operation on the CPU.
    return {**environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}


def _for_gpus(environ: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in _UNWANTED}
    # CUDA numbers GPUs by speed unless told; NVML, and so the agent's samples, by their place on the bus.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", **kept}
