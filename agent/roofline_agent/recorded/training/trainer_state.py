"""Reads trainer_state.json of Hugging Face's Trainer: steps with their loss, the rates of the run, its FLOPs.

`total_flos` is the Trainer's own estimate (6 parameters tokens) and stays a fact. The file says neither when
a step was nor, but for its end, how long it took.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..collector import Collector
from ..recording import StepLine, Throughput
from ..text import Text

MAX_CHARACTERS = 256 << 20
_SIGN = re.compile(r'\{.{0,4000}"log_history"\s*:\s*\[', re.S)
_FACTS = ("global_step", "max_steps", "num_train_epochs", "train_batch_size", "total_flos", "epoch")


def sniff(head: str) -> int:
    return 95 if head.lstrip().startswith("{") and _SIGN.match(head.lstrip()) else 0


def read(text: Text, found: Collector) -> None:
    found.tool = "transformers"
    content = ""
    for chunk in text.chunks():
        content += chunk
        if len(content) > MAX_CHARACTERS:
            found.warn(f"longer than {MAX_CHARACTERS >> 20} MB: not read")
            return
    try:
        state = json.loads(content.rstrip("\0"))
    except (ValueError, RecursionError) as error:
        found.warn(f"no whole JSON ({error}): was it cut off?")
        return
    for key in _FACTS:
        if isinstance(state.get(key), (int, float)):
            found.facts[key] = state[key]
    _take_history(state.get("log_history"), found)


def _take_history(history: Any, found: Collector) -> None:
    logged = [one for one in history if isinstance(one, dict)] if isinstance(history, list) else []
    rate: float | None = None
    last: float | None = None
    lines = before = 0
    before_s = 0.0
    for one in logged:
        rate = _positive(one.get("train_samples_per_second")) or rate
        if "loss" not in one or not isinstance(one.get("step"), int):
            continue
        step, runtime = one["step"], _positive(one.get("train_runtime"))
        each_s = None  # the Trainer logs its time so far where it counts tokens
        if runtime is not None and runtime > before_s and step > before:
            each_s = (runtime - before_s) / (step - before)
            before_s = runtime
        before = step
        found.steps.append(StepLine(step, None, None, _finite(one["loss"]), each_s))
        lines += 1
    for one in logged:
        for key in ("train_runtime", "train_steps_per_second", "train_tokens_per_second"):
            value = _positive(one.get(key))
            if value is not None:
                found.facts[key] = last = value
    if not lines and last is None:
        found.warn("its log_history has no step of the training")
        return
    found.throughput = Throughput("examples", rate, None, lines, None, "all ranks")
    if rate is None:
        found.warn("the rates of a run are only in the state saved behind its end (train_samples_per_second)")


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        return None
    return float(value)


def _positive(value: Any) -> float | None:
    found = _finite(value)
    return found if found is not None and found >= 0 else None
