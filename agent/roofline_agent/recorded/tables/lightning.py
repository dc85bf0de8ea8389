"""Reads metrics.csv of Lightning's CSVLogger: steps with their loss, and rates where ThroughputMonitor ran.

The logger writes neither times nor the batch: how fast a step was is known from ThroughputMonitor alone.
"""

from __future__ import annotations

from ..collector import Collector
from ..recording import StepLine, Throughput
from ..text import Text
from .rows import Header, TableRow, headers_in, rows

_RATES = ("train/device/samples_per_sec", "train|device/samples_per_sec")
_BATCHES = ("train/device/batches_per_sec", "train|device/batches_per_sec")
_OF_OTHERS = ("val", "test", "epoch_", "lr-")


def sniff(head: str) -> int:
    first = next(headers_in(head), None)
    return 85 if first is not None and _is_header(first) else 0


def _is_header(header: Header) -> bool:
    others = [name for name in header.names if name not in ("epoch", "step")]
    return (
        {"epoch", "step"} <= header.at.keys() and bool(others) and not any(" " in one for one in header.names)
    )


def read(text: Text, found: Collector) -> None:
    found.tool = "lightning"
    last, rates, lines = -1, [], 0
    for row in rows(text, found, _is_header):
        step, loss, rate = row.number("step"), _loss(row), _first(row, _RATES)
        if step is None or (loss is None and rate is None):
            continue
        batches = _first(row, _BATCHES)
        found.steps.append(StepLine(int(step), rate, None, loss, 1 / batches if batches else None))
        lines += 1
        last = max(last, int(step))
        rates += [rate] if rate is not None else []
    if not lines:
        found.warn("no row has a step and a loss or a rate of the training")
        return
    if not rates:
        found.warn("Lightning's CSVLogger writes no times: add ThroughputMonitor to the callbacks for rates")
    mean = len(rates) / sum(1 / rate for rate in rates if rate) if rates and all(rates) else None
    speaks = "this rank" if rates else ""
    found.throughput = Throughput("examples", mean, rates[-1] if rates else None, lines, None, speaks)
    found.facts["last_step"] = last


def _loss(row: TableRow) -> float | None:
    """The first column of the training that is called a loss, of a step rather than of an epoch."""
    names = [n for n in row.header.names if "loss" in n and not n.startswith(_OF_OTHERS) and "epoch" not in n]
    return next((value for name in names if (value := row.number(name)) is not None), None)


def _first(row: TableRow, names: tuple[str, ...]) -> float | None:
    return next((value for name in names if (value := row.number(name)) is not None), None)
