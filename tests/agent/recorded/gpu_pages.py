"""Nsight Compute pages and nvprof tables to make up, and what the readers find in them, as plain lists."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import NamedTuple

from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.ncu import reader as ncu
from roofline_agent.recorded.nvprof import reader as nvprof
from roofline_agent.recorded.recording import Counter, Kernel, Launch, Phase
from roofline_agent.recorded.text import Text, open_binary

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)
OPS = "sm__sass_thread_inst_executed_op_{}_pred_on.sum"


def rows(
    *metrics: tuple[str, str, str], kernel: str = "kern(int, int)", cc: str = "8.0", key: int = 0
) -> str:
    start = (
        f'"{key}","77","app","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(64, 1, 1)","0","{cc}","Metrics"'
    )
    return "\n".join(f'{start},"{name}","{unit}","{value}"' for name, unit, value in metrics)


def ops(**counts: str) -> list[tuple[str, str, str]]:
    """Rows of a whole precision: what is not given is a measured zero."""
    letters = {name[0] for name in counts}
    zeros = {letter + kind: "0" for letter in letters for kind in ("add", "mul", "fma")}
    return [(OPS.format(op), "inst", value) for op, value in (zeros | counts).items()]


class Found(NamedTuple):
    """A collector's content; warnings as "line: text"."""

    kernels: list[Kernel]
    launches: list[Launch]
    counters: list[Counter]
    phases: list[Phase]
    facts: dict[str, float | int | str]
    version: str
    warnings: str
    is_empty: bool


def read_text(content: str | bytes, read: Callable[[Text, Collector], None] = ncu.read) -> Found:
    data = content.encode() if isinstance(content, str) else content
    return _found(Text("made up", io.BytesIO(data)), read)


def read_file(path: str) -> Found:
    with open_binary(path) as stream:
        text = Text(path, stream)
        return _found(text, nvprof.read if nvprof.sniff(text.head) else ncu.read)


def _found(text: Text, read: Callable[[Text, Collector], None]) -> Found:
    found = Collector(keep_launches=True)
    try:
        read(text, found)
        assert found.launches is not None
        return Found(
            found.kernels,
            list(found.launches),
            list(found.counters),
            found.phases,
            found.facts,
            found.version,
            "\n".join(f"{one.line}: {one.text}" for one in found.warnings),
            found.is_empty,
        )
    finally:
        found.close()


def kernel_of(*metrics: tuple[str, str, str], kernel: str = "kern(int, int)", cc: str = "8.0") -> Kernel:
    [one] = read_text(f"{HEADER}\n{rows(*metrics, kernel=kernel, cc=cc)}\n").kernels
    return one
