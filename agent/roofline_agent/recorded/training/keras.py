"""Reads the progress that Keras `fit` prints: bars ("100/100 [====] - 12s 118ms/step") and verbose=2 lines.

A bar counts steps, but in versions that print "Train on 60000 samples" it counts samples. Only these show how
many examples a second were seen: the batch size is printed nowhere. Of each epoch the last state counts, for
the states before it show a time that is left, not one that has passed.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from ..collector import Collector
from ..recording import StepLine, Throughput
from .ranks import SEVERAL, split_rank

_EPOCH = re.compile(r"(?:^|[\s:>\]])Epoch (\d{1,9})/(\d{1,9})\s*$")
_SAMPLES = re.compile(r"\bTrain on (\d{1,15}) (samples|steps)\b")
_BAR = re.compile(r"(?:^|[\s:>\]])(\d{1,15})/(\d{1,15}|Unknown|None)\s+(.*)")
_DRAWN = re.compile(
    r"(?:^|[\s:>\]])(\d{1,15})/(\d{1,15}|Unknown|None)\s+(?:\[[=>. ]*\]|[\u2500-\u257f\u2588\ufffd]{2,})"
)
_VERBOSE_2 = re.compile(r"^\s*(?:-\s*\d+s\b|\d+s - \w+: )")  # the second: Keras 1.0 to 2.0
_PER = re.compile(r"\b(\d+(?:\.\d+)?)\s*(us|\u00b5s|\u03bcs|ms|s)/(step|sample|batch)\b")
_PER_EPOCH = re.compile(r"\b(\d+(?:\.\d+)?)\s*(us|\u00b5s|\u03bcs|ms|s)/epoch\b")
_CLOCK = re.compile(r"(?:^|[\s-])(?:(\d+):)?(\d{1,2}):(\d{2})(?=\s|$)")
_SECONDS = re.compile(r"(?:^|[\s-])(\d+)s(?=\s|$)")
_LOSS = re.compile(r"(?<!\w)loss: ([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf))")
_UNITS = {"s": 1.0, "ms": 1e-3}
_FIT = re.compile(r"^\s*Epoch \d+/\d+\s*$", re.M)
_SURE = re.compile(r"\[=*>?\.*\]\s+-\s+(ETA: )?\d|\b\d+(us|ms|s)/(step|sample)\b|[\u2501\u257a\u2578]{5}")


def sniff(head: str) -> int:
    """How sure it is that this is what Keras prints, 0..100."""
    is_sure = bool(_SURE.search(head))
    if _FIT.search(head.replace("\r", "\n")):
        return 90 if is_sure else 50
    return 60 if is_sure and re.search(r"\d+/\d+", head) else 0


class _Progress(NamedTuple):
    """What a bar shows: `done` of `total` steps or samples."""

    done: int
    total: int | None
    seconds: float | None  # of all that is done
    each_s: float | None  # of one
    loss: float | None
    is_whole: bool  # a line of verbose=2, printed once at an epoch's end; a bar is drawn again and again


class KerasLog:
    """One log, state by state. Where several ranks wrote it, the first one is followed."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._samples: int | None = None
        self._epochs = 0  # whose end was seen
        self._named = False  # the log names its epochs, so a bar outside of one is an evaluation
        self._inside = False
        self._epoch = 0  # the number of the last one
        self._rank = ""
        self._is_other = False  # the last state was another rank's
        self._total: int | None = None  # of the first epoch, where epochs are not named
        self._last: _Progress | None = None
        self._step = 0  # steps of all epochs so far
        self._lines = 0
        self._examples = 0.0
        self._examples_s = 0.0
        self._last_rate: float | None = None

    def add(self, state: str, number: int) -> None:
        rank, line = split_rank(state)
        epoch = _EPOCH.search(line) if "Epoch" in line else None
        samples = _SAMPLES.search(line) if "Train on" in line else None
        seen = None if epoch or samples else self._progress(line)
        if not (epoch or samples or seen):
            return
        if rank:  # a launcher puts it before a line, not before what is drawn over the line
            self._rank = self._rank or rank
            self._is_other = rank != self._rank
        if self._is_other:
            self._found.warn(SEVERAL, number)
            return
        if epoch:
            self._end_epoch(number)
            at = int(epoch.group(1))
            if self._named and at > self._epoch + 1:
                self._found.warn("epochs are missing here: sums are of those that are in the log", number)
            self._named = self._inside = True
            self._epoch = at
            self._found.facts["epochs_planned"] = int(epoch.group(2))
        elif samples:
            self._end_epoch(number)
            self._samples = int(samples.group(1)) if samples.group(2) == "samples" else None
        elif seen:
            if self._last is not None and self._begins_again(seen, self._last):
                self._end_epoch(number)
            self._last = seen

    def _begins_again(self, seen: _Progress, last: _Progress) -> bool:
        """Whether this is the progress of another epoch than the last one."""
        if seen.done < last.done or (last.done == last.total and seen.total != last.total):
            return True
        return not self._named and seen.is_whole and last.is_whole

    def _progress(self, line: str) -> _Progress | None:
        bar = _bar(line)
        if bar:
            total = int(bar.group(2)) if bar.group(2).isdecimal() else None
            done, rest = int(bar.group(1)), line[bar.end(2) :]
            is_whole = _DRAWN.search(line) is None
        elif self._inside and _VERBOSE_2.match(line):
            done, total, rest, is_whole = self._samples or 0, self._samples, line, True
        else:
            return None
        if "/sample" in rest:
            self._samples = total
        # Before the end, the time printed is an estimate of what is left.
        ended = (total is None or done >= total) and "ETA" not in rest
        seconds = (_epoch_s(rest) or _elapsed_s(rest)) if ended else None
        each, each_s = _PER.search(rest), None
        if each:
            each_s = float(each.group(1)) * _UNITS.get(each.group(2), 1e-6) or None
        loss_text, loss = _LOSS.search(rest), None
        if loss_text and math.isfinite(float(loss_text.group(1))):
            loss = float(loss_text.group(1))
        return _Progress(done, total, seconds, each_s, loss, is_whole)

    def _end_epoch(self, number: int) -> None:
        last, self._last = self._last, None
        if last is None:
            return
        is_training = self._inside
        if not self._inside and not self._named and last.loss is not None:
            # Behind epochs without names, a bar that counts to another end than the first is an evaluation.
            self._total = self._total or last.total
            is_training = last.total is None or last.total == self._total
        if not is_training:
            self._found.warn("bars outside of an epoch (evaluate, predict, a download) are left out", number)
            return
        self._inside = False
        if last.total is not None and last.done < last.total:
            self._found.warn("an epoch was not finished; it is counted as far as it went", number)
        self._epochs += 1
        if last.seconds:
            self._found.phase("epoch", last.seconds)
        self._lines += 1
        each_s = last.each_s or self._mean_s(last, number)
        if self._samples is not None and last.total == self._samples:
            self._step += 1
            rate = 1 / each_s if each_s else None
            self._found.steps.append(StepLine(self._step, rate, None, last.loss))
            if each_s:
                self._last_rate = rate
                self._examples += last.done
                self._examples_s += last.done * each_s
            return
        if not last.done:
            self._found.facts["step_means"] = "epoch"  # the log does not show how many steps one has
        self._step += last.done or 1
        self._found.steps.append(StepLine(self._step, None, None, last.loss, each_s))
        if last.total:
            self._found.facts["steps_per_epoch"] = last.total

    def _mean_s(self, last: _Progress, number: int) -> float | None:
        """Keras prints whole seconds: of an epoch shorter than one the time is not known."""
        if not last.seconds or not last.done:
            return None
        self._found.warn("the time of a step is taken from an epoch's, printed in whole seconds", number)
        return last.seconds / last.done

    def finish(self) -> None:
        """The throughput, once the log has ended."""
        self._end_epoch(0)
        if not self._lines:
            return
        self._found.tool = "keras"
        self._found.facts["epochs"] = self._epochs
        if not self._named:
            self._found.warn("no epoch is named: an evaluation may have been taken for one")
        rate = self._examples / self._examples_s if self._examples_s else None
        if self._samples is not None:
            self._found.facts["samples_per_epoch"] = self._samples
            self._found.facts["step_means"] = "epoch"  # of an unknown number of steps
        else:
            self._found.warn("Keras does not print the batch size: how many examples a second is not known")
        self._found.throughput = Throughput("examples", rate, self._last_rate, self._lines)


def _epoch_s(text: str) -> float | None:
    """What Keras 2 prints of an epoch with verbose=2 ("358ms/epoch"): finer than its whole seconds."""
    match = _PER_EPOCH.search(text)
    return float(match.group(1)) * _UNITS.get(match.group(2), 1e-6) if match else None


def _elapsed_s(text: str) -> float | None:
    """The time that an epoch took, printed as 1:02:03 or as 12s."""
    clock = _CLOCK.search(text)
    if clock:
        hours, minutes = int(clock.group(1) or 0), int(clock.group(2))
        return hours * 3600.0 + minutes * 60.0 + int(clock.group(3))
    whole = _SECONDS.search(text)
    return float(whole.group(1)) if whole else None


def _bar(line: str) -> re.Match[str] | None:
    """The bar in a line: the last one where a copy has put several states side by side."""
    plain = _BAR.search(line) if "/" in line else None
    if not plain:
        return None
    drawn = list(_DRAWN.finditer(line))
    if drawn:
        return drawn[-1]
    return plain if _PER.search(line) or _VERBOSE_2.match(plain.group(3)) else None
