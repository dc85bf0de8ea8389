"""Reads the output of HPL (netlib's and those of vendors): the best run is a sustained FP64 peak.

HPL counts 2/3 N^3 + 3/2 N^2 FLOPs. With more than one process the rate is of all nodes together, which is no
ceiling of one: it stays a fact. HPL-NVIDIA and AMD's rocHPL compute on GPUs, one for each process. rocHPL's
banner and table are netlib's, so it only shows in what it prints beside them (progress, detailed times).
HPL-MxP factors the matrix in a low precision and refines the result: its rate is no peak of any precision.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..collector import Collector
from ..numbers import finite
from ..recording import Kernel, RecordedCeiling
from ..text import Text

_VERSION = re.compile(r"HPLinpack (\d[\d.]*)|HPL-NVIDIA (\d[\d.]*)")
_ROW = re.compile(r"\s*(W[RC]\w{1,10})\s+(\d{1,9})\s+(\d{1,6})\s+(\d{1,6})\s+(\d{1,6})\s+([\d.]+)\s+(\S+)")
_FAILED = re.compile(r"\|\|Ax-b\|\|.*FAILED")
_SIGNS = re.compile(r"^\s*T/V\s+N\s+NB\s+P\s+Q\s+Time\s+Gflops", re.M)
_OF_GPUS = re.compile(
    r"HPL-NVIDIA \d|\bGflops\s*\(\s*per GPU\)|\bGPU_COLS: |HPLMXP_"  # NVIDIA's, also of 2020; AMD's HPL-MxP
    r"|^Final Score: .* GFLOPS|^Residual Check: |Max aggregated wall time panel copy:"  # rocHPL
)
_MIXED = re.compile(r"HPLMXP_|HPL-MxP|HPL-AI")


_NOTE_OF_MIXED = "mixed precision; FLOPs as HPL counts them"


class _Run(NamedTuple):
    """One row of the table."""

    size: int
    block: int
    grid: tuple[int, int]
    seconds: float
    gflops: float

    @property
    def ranks(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def kernel(self) -> Kernel:
        flops = 2 / 3 * self.size**3 + 1.5 * self.size**2
        name = f"HPL N={self.size} NB={self.block} P={self.grid[0]} Q={self.grid[1]}"
        return Kernel(name, 1, self.seconds, flops, {}, "f64", "FLOPs as HPL counts them", counted=False)


def sniff(head: str) -> int:
    return 96 if _SIGNS.search(head) or "HPLinpack" in head or "HPL-NVIDIA" in head else 0


def read(text: Text, found: Collector) -> None:
    found.tool = "hpl"
    runs: list[_Run] = []
    last: _Run | None = None  # its check, where HPL makes one, is below it
    is_of_gpus = is_mixed = False
    for line in text.lines():
        if version := _VERSION.search(line):
            found.version = found.version or version[1] or version[2]
        is_of_gpus = is_of_gpus or bool(_OF_GPUS.search(line))
        is_mixed = is_mixed or bool(_MIXED.search(line))
        if _FAILED.search(line):
            found.warn("HPL found its own result wrong: the run above is left out", text.line)
            last = None
        row = _ROW.match(line)
        if row is None:
            continue
        if last is not None:
            runs.append(last)
        last = _run(row)
        if last is None:
            found.warn("a row without a time or a rate; it is left out", text.line)
    if last is not None:
        runs.append(last)
    for run in runs:
        kernel = run.kernel._replace(on_gpu=is_of_gpus or None)
        found.kernel(kernel._replace(precision="", note=_NOTE_OF_MIXED) if is_mixed else kernel)
    if runs:
        _add_ceiling(found, max(runs, key=lambda run: run.gflops), is_of_gpus, is_mixed)


def _run(row: re.Match[str]) -> _Run | None:
    seconds, rate = finite(row[6]), finite(row[7])
    if not seconds or rate is None or rate <= 0:
        return None
    return _Run(int(row[2]), int(row[3]), (int(row[4]), int(row[5])), seconds, rate)


def _add_ceiling(found: Collector, best: _Run, is_of_gpus: bool, is_mixed: bool) -> None:
    rate, ranks = best.gflops * 1e9, best.ranks
    found.facts.update({"n": best.size, "nb": best.block, "ranks": ranks, "flops_per_s": rate})
    if is_mixed:
        found.warn("HPL-MxP computes in mixed precision, so its rate is no ceiling; HPL measures FP64")
        return
    if ranks > 1:
        apart = "GPUs" if is_of_gpus else "processes: HPL does not print on how many nodes"
        found.warn(f"{ranks} {apart}, so its rate is no ceiling of one")
        return
    method = f"HPL: N={best.size}, one {'GPU' if is_of_gpus else 'process'}"
    device = "gpu 0" if is_of_gpus else ""
    found.ceilings.append(
        RecordedCeiling("peak.f64.hpl", "compute", "", "f64", rate, "FLOP/s", method, 0, device)
    )
