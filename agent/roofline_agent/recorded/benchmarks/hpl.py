"""Reads the output of HPL (netlib's and those of vendors): the best run is a sustained FP64 peak.

HPL counts 2/3 N^3 + 3/2 N^2 FLOPs. With more than one process the rate is of all nodes together, which is no
ceiling of one: it stays a fact.
"""

from __future__ import annotations

import re

from ..collector import Collector
from ..recording import Kernel, RecordedCeiling
from ..tables.rows import number
from ..text import Text

_VERSION = re.compile(r"HPLinpack (\d[\d.]*)|HPL-NVIDIA (\d[\d.]*)")
_ROW = re.compile(r"\s*(W[RC]\w{6,10})\s+(\d{1,9})\s+(\d{1,6})\s+(\d{1,6})\s+(\d{1,6})\s+([\d.]+)\s+(\S+)")
_FAILED = re.compile(r"\|\|Ax-b\|\|.*FAILED")
_SIGNS = re.compile(r"^T/V\s+N\s+NB\s+P\s+Q\s+Time\s+Gflops", re.M)


def sniff(head: str) -> int:
    return 96 if _SIGNS.search(head) or "HPLinpack" in head or "HPL-NVIDIA" in head else 0


def read(text: Text, found: Collector) -> None:
    found.tool = "hpl"
    best: tuple[float, int] | None = None
    for line in text.lines():
        if version := _VERSION.search(line):
            found.version = found.version or version[1] or version[2]
        if _FAILED.search(line):
            found.warn("HPL found its own result wrong: the rate above is of no use", text.line)
        row = _ROW.match(line)
        if row is None:
            continue
        size, ranks, seconds = int(row[2]), int(row[4]) * int(row[5]), number(row[6])
        rate = number(row[7])
        if not seconds or rate is None or rate <= 0:
            found.warn("a row without a time or a rate; it is left out", text.line)
            continue
        flops = 2 / 3 * size**3 + 1.5 * size**2
        problem = f"HPL N={size} NB={row[3]} P={row[4]} Q={row[5]}"
        found.kernel(Kernel(problem, 1, seconds, flops, {}, "f64", "FLOPs as HPL counts them"))
        if best is None or rate > best[0]:
            best = rate, ranks
            found.facts.update({"n": size, "nb": int(row[3]), "ranks": ranks})
    if best is not None:
        _add_ceiling(found, *best)


def _add_ceiling(found: Collector, gflops: float, ranks: int) -> None:
    found.facts["flops_per_s"] = gflops * 1e9
    if ranks > 1:
        found.warn(
            f"{ranks} processes: HPL does not print on how many nodes, so its rate is no ceiling of one"
        )
        return
    method = f"HPL: N={found.facts['n']}, one process"
    found.ceilings.append(
        RecordedCeiling("peak.f64.hpl", "compute", "", "f64", gflops * 1e9, "FLOP/s", method)
    )
