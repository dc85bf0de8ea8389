"""Finds ncu and builds its command lines."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
# Kernels that wait for other ranks' kernels must never be replayed: they would wait forever. Known names of
# NCCL, RCCL, NVSHMEM, and of the all-reduce kernels that frameworks bring themselves.
COLLECTIVES = (
    "[nN][cC][cC][lL]|rccl|[nN][vV][sS][hH][mM][eE][mM]|mscclpp|"
    "[aA]ll_?[rR]educe|[aA]ll_?[gG]ather|[rR]educe_?[sS]catter|[aA]ll_?[tT]o_?[aA]ll|cross_device_reduce"
)
HERE = Path(__file__).parent  # run as a program: __main__.py


def find(environ: Mapping[str, str]) -> str | None:
    """ROOFLINE_NCU, ncu on PATH, or where NVIDIA's packages put it."""
    named = environ.get("ROOFLINE_NCU")
    if named:
        return shutil.which(named, path=environ.get("PATH"))
    found = shutil.which("ncu", path=environ.get("PATH"))
    return found or next((place for place in PLACES if os.access(place, os.X_OK)), None)


def profiling(ncu: str, metrics: Sequence[str], log: Path) -> list[str]:
    """ncu's arguments for the trial and the command alike; its messages and its table go to `log`."""
    return [
        ncu,
        *("--log-file", str(log)),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--metrics", ",".join(metrics)),
        *("--target-processes", "all"),
        *("--replay-mode", "kernel"),
        # ncu would hold the GPU at its base clock; kernels must run as in the steps around.
        *("--clock-control", "none"),
    ]


def trial(ncu: str, metrics: Sequence[str], log: Path) -> list[str]:
    """One kernel of our own under ncu."""
    return [*profiling(ncu, metrics, log), *_program(), "--trial"]


def whole(ncu: str, metrics: Sequence[str], folder: Path, command: Sequence[str]) -> list[str]:
    """The user's command under ncu, started by __main__.py, which reports how it ended."""
    return [
        *profiling(ncu, metrics, folder / "log"),
        *("--profile-from-start", "off"),
        *("--kernel-name-base", "function"),
        *("--kernel-name", f"regex:^(?!.*({COLLECTIVES})).*$"),
        *_program(),
        str(folder),
        *command,
    ]


def _program() -> list[str]:
    # The folder is called ncu, which discovery knows as a launcher, so that this is no rank.
    return [sys.executable, "-I", "-S", str(HERE)]
