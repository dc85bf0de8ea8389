"""Reads MLPerf's logs (":::MLLOG {...}"): phases from start to stop, throughput, batch, result."""

from __future__ import annotations

import json
from typing import Any

from ..collector import Collector
from ..recording import StepLine, Throughput
from ..text import Text

TOKEN = ":::MLLOG "
_FACTS = (
    "submission_benchmark",
    "submission_org",
    "submission_platform",
    "global_batch_size",
    "train_samples",
    "seed",
    "gradient_accumulation_steps",
)
_RATES = ("throughput", "tracked_stats")


def sniff(head: str) -> int:
    return 96 if TOKEN + "{" in head else 0


def read(text: Text, found: Collector) -> None:
    found.tool = "mllog"
    log = _MlLog(found)
    for line in text.lines():
        at = line.find(TOKEN)
        if at < 0:
            continue
        try:
            event, _ = json.JSONDecoder().raw_decode(line, at + len(TOKEN))
        except (ValueError, RecursionError):
            found.warn("a line of MLLOG that is no JSON; it is left out", text.line)
            continue
        if isinstance(event, dict):
            log.add(event)
    log.finish()


class _MlLog:
    """The events of one log."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._open: dict[str, list[float]] = {}
        self._zero_ms: float | None = None
        self._rates: list[float] = []
        self._batch: int | None = None

    def add(self, event: dict[str, Any]) -> None:
        key, value, time_ms = event.get("key"), event.get("value"), event.get("time_ms")
        if not isinstance(key, str) or isinstance(time_ms, bool) or not isinstance(time_ms, (int, float)):
            return
        if not 0 <= time_ms < 1e15:
            return
        if self._zero_ms is None:
            self._zero_ms = time_ms
            self._found.started_ns = round(time_ms * 1e6)
        self._found.duration_s = max(self._found.duration_s or 0.0, (time_ms - self._zero_ms) / 1e3)
        if key in _FACTS and isinstance(value, (int, float, str)):
            self._found.facts[key] = value
            if key == "global_batch_size" and isinstance(value, int):
                self._batch = value
        if event.get("event_type") in ("INTERVAL_START", "INTERVAL_END"):
            self._interval(key, time_ms, event["event_type"] == "INTERVAL_END")
        self._rate(key, value, event, time_ms)
        if key == "run_stop" and isinstance(event.get("metadata"), dict):
            self._found.facts["status"] = str(event["metadata"].get("status", ""))[:40]

    def _interval(self, key: str, time_ms: float, is_end: bool) -> None:
        name = key.removesuffix("_start").removesuffix("_stop").removesuffix("_end")
        begun = self._open.setdefault(name, [])
        if not is_end:
            begun.append(time_ms)
        elif begun:
            self._found.phase(name, max(0.0, time_ms - begun.pop()) / 1e3)
        else:
            self._found.warn(f"{name} ends without a beginning; it is left out")

    def _rate(self, key: str, value: Any, event: dict[str, Any], time_ms: float) -> None:
        """Benchmarks print {"throughput": x} as tracked_stats, or x as throughput."""
        if key not in _RATES:
            return
        rate = value.get("throughput") if isinstance(value, dict) else value
        metadata = event.get("metadata")
        step = metadata.get("step", metadata.get("samples_count")) if isinstance(metadata, dict) else None
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < 1e300:
            return
        self._rates.append(rate)
        at = step if isinstance(step, int) else len(self._rates)
        self._found.steps.append(StepLine(at, rate, (time_ms - (self._zero_ms or 0.0)) / 1e3))

    def finish(self) -> None:
        for name, begun in self._open.items():
            if begun:
                self._found.warn(f"{name} was not ended when the log did; it is left out")
        if self._rates:
            mean = len(self._rates) / sum(1 / rate for rate in self._rates)
            self._found.throughput = Throughput(
                "examples", mean, self._rates[-1], len(self._rates), self._batch, "all ranks"
            )
