"""Reads the log of tf_cnn_benchmarks: "<step> images/sec: ..." lines and the "total images/sec".

The printed total already is that of all workers together (benchmark_cnn.py multiplies by their number), while
under Horovod a step line is of one rank: neither is ever multiplied here.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone

from ..collector import Collector
from ..recording import StepLine, Throughput
from .ranks import SEVERAL, split_rank

_RATE = r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))"
_STEP = re.compile(
    rf"(?:^|[\s|>:\]])(\d{{1,15}})\s+(images|examples|sentences|tokens)/sec:\s*{_RATE}"
    rf"(?:\s*\+/-\s*{_RATE}\s*\(jitter = {_RATE}\))?\s*(.*)",
    re.I,
)
_TOTAL = re.compile(rf"\btotal (images|examples|sentences|tokens)/sec:\s*{_RATE}", re.I)
_GLOG = re.compile(r"\b[IWEF](\d{2})(\d{2}) (\d{2}):(\d{2}):(\d{2})(\.\d+)?")
# Where two lines of a log run into each other, the second begins with its time or its rank.
_RUN_TOGETHER = re.compile(r"(?<=\S)(?=[IWEF]\d{4} \d\d:\d\d:\d\d|\[\d+,\d+\]\s*<)")
_GLOBAL = re.compile(r"([\d.]+) global")
_DEVICE = re.compile(r"([\d.]+) per device")
_FACTS = {
    "Model": "model",
    "Dataset": "dataset",
    "Mode": "mode",
    "Num batches": "batches",
    "Devices": "devices",
    "Data format": "data_format",
    "Optimizer": "optimizer",
    "Variables": "variable_update",
    "AllReduce": "all_reduce",
    "Num workers": "workers",
}
_NAMES = tuple(f"{name}:" for name in ("TensorFlow", "Batch size", *_FACTS))
_FACT = re.compile(rf"({'|'.join(name[:-1] for name in _NAMES)}):\s+(\S.*)")


def sniff(head: str) -> int:
    """How sure it is that this is a tf_cnn_benchmarks log, 0..100."""
    if _TOTAL.search(head) or any(_STEP.search(line) for line in head.splitlines()):
        return 95
    return 60 if re.search(r"\bBatch size:\s+[\d.]+ global", head) else 0


class TfCnnLog:
    """One log, line by line. Where several ranks wrote it, the first one that prints a step is followed."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._rank: str | None = None
        self._unit = ""
        self._last: StepLine | None = None
        self._lines = 0
        self._total: float | None = None  # the first
        self._totals = 0
        self._zero_s: float | None = None

    def add(self, line: str, number: int) -> bool:
        """Whether the line was one of tf_cnn_benchmarks'."""
        if line.count("/sec:") > 1:
            pieces = _RUN_TOGETHER.split(line)
            if len(pieces) > 1:
                taken = [self.add(piece, number) for piece in pieces]
                return any(taken)
        if "/sec:" in line:
            total, step = _TOTAL.search(line), _STEP.search(line)
            if total:
                rate = _finite(total.group(2))
                self._unit = self._unit or total.group(1).lower()
                if rate is None:
                    self._found.warn("the printed total is no number; it is left out", number)
                else:
                    self._total = rate if self._total is None else self._total
                    self._totals += 1
            elif step:
                self._add_step(step, line, number)
            return bool(total or step)
        return self._add_fact(line)

    def _add_step(self, step: re.Match[str], line: str, number: int) -> None:
        rank, _ = split_rank(line)
        if self._rank is None:
            self._rank = rank
        if rank != self._rank:
            self._found.warn(SEVERAL, number)
            return
        rate, columns = _finite(step.group(3)), step.group(6).split()
        if rate is None:
            self._found.warn("a step line has no number; it is left out", number)
            return
        if self._last is not None and int(step.group(1)) <= self._last.step:
            self._found.warn("steps begin again: several runs are in this log", number)
        self._unit = self._unit or step.group(2).lower()
        at_s = _printed_at_s(line, columns)
        if at_s is not None and self._zero_s is None:
            self._zero_s = at_s
            if at_s > 1e8:  # since 1970; a glog line has no year
                self._found.started_ns = round(at_s * 1000) * 1_000_000
        t_s = None if at_s is None or self._zero_s is None else at_s - self._zero_s
        loss = _finite(columns[0]) if columns else None
        self._last = StepLine(int(step.group(1)), rate, t_s, loss)
        self._lines += 1
        self._found.steps.append(self._last)

    def _add_fact(self, line: str) -> bool:
        per_device = _DEVICE.search(line) if "per device" in line else None
        fact = _FACT.search(line) if any(name in line for name in _NAMES) else None
        # One branch for each fact that is not taken as it is printed.
        facts = self._found.facts
        name = fact.group(1) if fact else ""
        if fact and name == "TensorFlow":
            self._found.version = fact.group(2).strip()[:50]
        elif fact and name in _FACTS:
            value = fact.group(2).strip('" \t')
            if name == "Devices" and value:
                facts.setdefault("device_count", value.count(",") + 1)
            facts.setdefault(_FACTS[name], value[:500])
        elif name == "Batch size":
            whole = _GLOBAL.search(line)
            if whole:
                facts.setdefault("batch_size_global", _whole(whole.group(1)))
        if per_device:
            facts.setdefault("batch_size_per_device", _whole(per_device.group(1)))
        return bool(fact or per_device)

    def finish(self) -> None:
        """The throughput, once the log has ended."""
        if not self._lines and not self._totals:
            return
        self._found.tool = "tf_cnn_benchmarks"
        if self._lines:
            self._found.facts["step_lines_speak_for"] = self._step_speaker()
        last = self._last.examples_per_s if self._last else None
        rate, speaks_for = last, self._step_speaker()
        if self._total is not None:
            rate, speaks_for = self._total, "all ranks"
        else:
            self._found.warn("the log ends before its total: the speed is the mean up to the last step line")
        if self._totals > 1:
            self._found.warn(
                f"{self._totals} totals are printed, each for all ranks: the first is taken, none is added"
            )
        self._found.throughput = Throughput(self._unit, rate, last, self._lines, self._batch(), speaks_for)

    def _step_speaker(self) -> str:
        per_rank = self._found.facts.get("variable_update") in ("horovod", "distributed_replicated")
        per_rank |= self._found.facts.get("variable_update") == "distributed_all_reduce"
        whole, part = self._found.facts.get("batch_size_global"), self._batch()
        if per_rank or (isinstance(whole, (int, float)) and part and whole > part):
            return "this rank"
        return "all ranks" if whole is not None and whole == part else ""

    def _batch(self) -> int | None:
        """Examples of one step of one rank. Under Horovod the list of devices names one of every rank."""
        per_device = self._found.facts.get("batch_size_per_device")
        if not isinstance(per_device, (int, float)):
            return None
        devices = self._found.facts.get("device_count")
        if self._found.facts.get("variable_update") == "horovod":
            devices = 1
        return round(per_device * devices) if isinstance(devices, int) else None


def _printed_at_s(line: str, columns: list[str]) -> float | None:
    """When a step line was printed, in seconds: a last column of UNIX time, else glog's time of the year."""
    if len(columns) > 1 and re.fullmatch(r"1\d{9}(\.\d+)?", columns[-1]):
        return float(columns[-1])
    glog = _GLOG.search(line)
    if not glog:
        return None
    month, day, hour, minute, second = (int(part) for part in glog.groups()[:5])
    try:
        moment = datetime(1972, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    new_year = datetime(1972, 1, 1, tzinfo=timezone.utc)
    return (moment - new_year).total_seconds() + float(glog.group(6) or 0)


def _finite(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def _whole(text: str) -> float | int:
    value = _finite(text)
    return int(value) if value is not None and value == int(value) else value or 0
