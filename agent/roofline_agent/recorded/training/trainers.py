"""Reads the step lines that trainers print: Megatron-LM, DeepSpeed, torchtitan and Hugging Face's Trainer.

A line of several ranks or of other programs is passed over. Where two print the same step (DeepSpeed below
Megatron), the first that was seen is followed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from ..collector import Collector
from ..numbers import finite
from ..recording import StepLine, Throughput
from ..text import Text, without_escapes
from .ranks import split_rank

_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_MEGATRON = re.compile(r"\biteration\s+(\d{1,12})/\s*(?:\d+|infinity) \|(.*elapsed time per iteration.*)")
_DEEPSPEED = re.compile(
    r"(?:global_step=|\b\d+/)(\d{1,12}), RunningAvgSamplesPerSec=([\d.einf]+), CurrSamplesPerSec=([\d.einf]+)"
)
_TITAN = re.compile(r"\bstep:\s*(\d{1,12})\s+loss:\s*(\S+)\s.*\btps:\s*([\d,]+)")
_TITAN_MORE = re.compile(r"\b(tflops|mfu):\s*([\d.,]+)(%?)")
_HUGGING_FACE = re.compile(r"\{'(?:loss|train_runtime)': [^{}]{1,2000}\}")
_KEY = re.compile(r"\s*([^:|]+?):\s*([^|]*?)\s*(?:\||$)")
LEAST_MS, MOST_MS = 1e-6, 1e12  # what is beyond is no time of a step
_SIGNS = (_MEGATRON, _DEEPSPEED, _TITAN, _HUGGING_FACE)


class TrainerStep(NamedTuple):
    """What a line says of one step; the unit is of its rate."""

    tool: str
    step: int
    rate: float | None
    unit: str
    step_time_s: float | None
    loss: float | None
    speaks_for: str = ""
    batch: int | None = None
    facts: tuple[tuple[str, float], ...] = ()
    total: float | None = None  # the rate of the whole run, where the line states it


def sniff(head: str) -> int:
    """Megatron, DeepSpeed and torchtitan are unmistakable; a dict of the Trainer's could be another's."""
    plain = without_escapes(head)
    if any(pattern.search(plain) for pattern in _SIGNS[:3]):
        return 93
    return 75 if _HUGGING_FACE.search(plain) and "'epoch':" in plain else 0


def read(text: Text, found: Collector) -> None:
    """Adds the steps and the throughput."""
    log = _TrainerLog(found)
    for line in text.lines():
        if "|" in line or "=" in line or ":" in line:
            log.add(without_escapes(line), text.line)
    log.finish()


class _TrainerLog:
    """One log; the first trainer and the first rank are followed."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._rank: str | None = None
        self._zero_s: float | None = None
        self._lines = 0
        self._first = self._last = TrainerStep("", 0, None, "examples", None, None)
        self._weighted = [0.0, 0.0]  # examples and seconds of the lines that have both
        self._total: float | None = None

    def add(self, line: str, at: int) -> None:
        parsed = next((step for read in READERS if (step := read(line)) is not None), None)
        if parsed is None:
            return
        rank, _ = split_rank(line)
        self._rank = rank if self._rank is None else self._rank
        if rank != self._rank or (self._lines and parsed.tool != self._first.tool):
            self._found.warn("several ranks or programs print steps: the first that does is followed", at)
            return
        self._total = parsed.total or self._total
        self._found.facts.update(parsed.facts)
        if parsed.step < 0:
            return
        t_s = self._begin(line, parsed.step_time_s or 0.0)
        self._found.steps.append(StepLine(parsed.step, parsed.rate, t_s, parsed.loss, parsed.step_time_s))
        if self._lines == 0:
            self._first = parsed
        else:
            many = max(1, parsed.step - self._last.step)
            if self._lines == 1:  # it may go on from a checkpoint: no more steps than the next
                self._weigh(self._first, max(1, min(self._first.step, many)))
            self._weigh(parsed, many)
        self._lines += 1
        self._last = parsed

    def _weigh(self, line: TrainerStep, many: int) -> None:
        """Adds a line that speaks for so many steps."""
        if line.rate:
            self._weighted[0] += many
            self._weighted[1] += many / line.rate

    def _begin(self, line: str, step_time_s: float) -> float | None:
        """When the line's step began, seconds after the first one: a line is stamped when its step has ended.
        A stamp has no zone: it is taken for this machine's."""
        match = _STAMP.search(line)
        if not match:
            return None
        try:
            moment = datetime(*(int(part) for part in match.groups()[:6])).timestamp()  # type: ignore[arg-type]
        except (ValueError, OverflowError, OSError):
            return None
        moment += float(f"0.{match[7] or 0}") - step_time_s
        if self._zero_s is None:
            self._zero_s = moment
            self._found.started_ns = round(moment * 1e9)
        return moment - self._zero_s

    def finish(self) -> None:
        found, first = self._found, self._first
        if not self._lines and self._total is None:
            return
        if self._lines == 1:
            self._weigh(first, 1)
        found.tool = first.tool or "transformers"
        mean = self._total or (self._weighted[0] / self._weighted[1] if self._weighted[1] else None)
        found.throughput = Throughput(
            first.unit, mean, self._last.rate, self._lines, first.batch, first.speaks_for
        )


def _megatron(line: str) -> TrainerStep | None:
    """Megatron-LM's training_log: the batch is of all ranks, the time a mean over the log's interval."""
    match = _MEGATRON.search(line)
    if not match:
        return None
    fields = {key.strip(): value for key, value in _KEY.findall(match[2])}
    milliseconds = finite(fields.get("elapsed time per iteration (ms)", ""))
    batch, loss = finite(fields.get("global batch size", "")), finite(fields.get("lm loss", ""))
    seconds = milliseconds / 1e3 if milliseconds and LEAST_MS <= milliseconds <= MOST_MS else None
    facts: list[tuple[str, float | None]] = [("global_batch_size", batch)]
    for key, value in fields.items():
        if "TFLOP/s/GPU" in key and (rate := finite(value)) is not None:
            facts.append(("printed_flops_per_s_per_gpu", rate * 1e12))
    return TrainerStep(
        "megatron",
        int(match[1]),
        batch / seconds if batch and seconds else None,
        "examples",
        seconds,
        loss,
        "all ranks",
        int(batch) if batch else None,
        tuple((name, value) for name, value in facts if value is not None),
    )


def _deepspeed(line: str) -> TrainerStep | None:
    """DeepSpeed's ThroughputTimer: samples of all ranks."""
    match = _DEEPSPEED.search(line)
    if not match:
        return None
    rate, mean = finite(match[3]), finite(match[2])
    return TrainerStep(
        "deepspeed", int(match[1]), rate, "examples", None, None, "all ranks", total=mean or None
    )


def _titan(line: str) -> TrainerStep | None:
    """torchtitan's metrics: tokens a second of one GPU."""
    match = _TITAN.search(line)
    if not match:
        return None
    more = {name: finite(value.replace(",", "")) for name, value, _ in _TITAN_MORE.findall(line)}
    facts: list[tuple[str, float]] = []
    if (rate := more.get("tflops")) is not None:
        facts.append(("printed_flops_per_s_per_gpu", rate * 1e12))
    if (mfu := more.get("mfu")) is not None:
        facts.append(("printed_mfu", mfu / 100))
    tokens = finite(match[3].replace(",", ""))
    return TrainerStep(
        "torchtitan", int(match[1]), tokens, "tokens", None, finite(match[2]), "this rank", facts=tuple(facts)
    )


def _hugging_face(line: str) -> TrainerStep | None:
    """The Trainer's dicts name no step; the last one has the rates of the run."""
    match = _HUGGING_FACE.search(line)
    if not match:
        return None
    try:
        values = ast.literal_eval(re.sub(r"(?<=': )-?(?:nan|inf)\b", "None", match[0]))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    rate = finite(str(values.get("train_samples_per_second", "")))
    known = {name: finite(str(value)) for name, value in values.items()}
    names = ("train_runtime", "train_steps_per_second", "epoch", "train_loss", "num_input_tokens_seen")
    facts = [(name, value) for name in names if rate is not None and (value := known.get(name)) is not None]
    return TrainerStep(
        "transformers",
        -1,
        None,
        "examples",
        None,
        known.get("loss"),
        "all ranks",
        facts=tuple(facts),
        total=rate,
    )


READERS: tuple[Callable[[str], TrainerStep | None], ...] = (_megatron, _deepspeed, _titan, _hugging_face)
