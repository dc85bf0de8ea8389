"""Runs a target on mutated inputs for a while: counts inputs, crashes and hangs, and what memory it took."""

from __future__ import annotations

import random
import re
import resource
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

from .coverage import SAMPLED, Corpus

HANG_S = 5.0
TICKS = 5
OTHERS = re.compile(r"site-packages|pyarrow|/lib/python3|tests/faults")
MOST_KEPT = 20  # different failures


class Reach(NamedTuple):
    """How far the parts of an input came. read: past the parser of what they are; taken: to the end, where
    something is answered, kept or sent."""

    read: int = 0
    taken: int = 0


class Target(Protocol):
    """What is fed. An input is a list of parts: one message or file, or several that follow each other."""

    def make(self, chance: random.Random) -> list[bytes]:
        """An odd input."""
        ...

    def feed(self, parts: list[bytes]) -> Reach:
        """How far they came. Raises anything that the product should not let out."""
        ...

    def close(self) -> None: ...


class Hang(BaseException):
    """An input took longer than HANG_S of CPU time, or 20 times as long. No Exception: the product catches
    those."""


class Failure(NamedTuple):
    """A crash or hang. place: where it was raised, so that two of the same are told apart from others."""

    kind: str  # "crash", "hang"
    place: str
    text: str  # the traceback
    parts: list[bytes]


class Counts(NamedTuple):
    inputs: int
    parts: int
    read: int  # of the parts, see Reach
    taken: int
    lines: int  # of the product that sampled inputs reached
    crashes: int
    hangs: int
    seconds: float
    slowest_s: float
    grown_bytes: int  # of the process at its peak, over the run
    failures: list[Failure]  # one of each place


def fuzz(
    target: Target, seconds: float, seed: int, most: int | None = None, corpus: Corpus | None = None
) -> Counts:
    """Feed it for so long, or with so many inputs. corpus: of earlier runs."""
    chance, corpus = random.Random(seed), corpus or Corpus()
    found: dict[str, Failure] = {}
    inputs = parts = read = taken = crashes = hangs = 0
    slowest = 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = now = time.monotonic()
    with _Watch(HANG_S) as watch:
        while now - began < seconds and (most is None or inputs < most):
            given = corpus.make(target.make, chance)
            is_sampled = chance.random() < SAMPLED
            fed = time.monotonic()
            reach, failure = _fed(
                partial(corpus.feed, target.feed) if is_sampled else target.feed, given, watch
            )
            now = time.monotonic()
            inputs, parts = inputs + 1, parts + len(given)
            read, taken = read + reach.read, taken + reach.taken
            if not is_sampled:
                slowest = max(slowest, now - fed)
            if failure is not None:
                crashes, hangs = crashes + (failure.kind == "crash"), hangs + (failure.kind == "hang")
                if len(found) < MOST_KEPT:
                    found.setdefault(failure.place, failure)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    lines, failures = len(corpus.lines), list(found.values())
    return Counts(inputs, parts, read, taken, lines, crashes, hangs, now - began, slowest, grown, failures)


def fed_once(target: Target, parts: list[bytes]) -> Failure | None:
    """What goes wrong with one input."""
    with _Watch(HANG_S) as watch:
        return _fed(target.feed, parts, watch)[1]


def _fed(
    feed: Callable[[list[bytes]], Reach], parts: list[bytes], watch: _Watch
) -> tuple[Reach, Failure | None]:
    watch.begin()
    try:
        return feed(parts), None
    except Hang as error:
        return Reach(), failure_of("hang", error, parts)
    except Exception as error:
        return Reach(), failure_of("crash", error, parts)
    finally:
        watch.end()


class _Watch:
    """Ends an input that takes so long of CPU time, as the machine may be busy with others; and, for what
    waits forever, 20 times as long on the clock. It looks TICKS times meanwhile: inputs cost nothing."""

    def __init__(self, seconds: float) -> None:
        self._input, self._is_fed = 0, False
        self._since = {signal.SIGPROF: (0, 0), signal.SIGALRM: (0, 0)}  # which input was seen, how often
        self._timers = (
            (signal.ITIMER_PROF, signal.SIGPROF, seconds / TICKS),
            (signal.ITIMER_REAL, signal.SIGALRM, 20 * seconds / TICKS),
        )
        self._before: list[Any] = []

    def begin(self) -> None:
        self._input += 1
        self._is_fed = True

    def end(self) -> None:
        self._is_fed = False

    def __enter__(self) -> _Watch:
        self._before = [signal.signal(number, self._look) for _, number, _ in self._timers]
        for timer, _, every in self._timers:
            signal.setitimer(timer, every, every)
        return self

    def __exit__(self, *_: object) -> None:
        for (timer, number, _), handler in zip(self._timers, self._before, strict=True):
            signal.setitimer(timer, 0.0)
            signal.signal(number, handler)

    def _look(self, number: int, frame: FrameType | None) -> None:
        known, times = self._since[signal.Signals(number)]
        times = times + 1 if known == self._input else 0
        self._since[signal.Signals(number)] = (self._input, times)
        if self._is_fed and times >= TICKS:
            self._since[signal.Signals(number)] = (self._input, 0)
            raise Hang


def failure_of(kind: str, error: BaseException, parts: list[bytes]) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if not OTHERS.search(frame.filename)] or list(frames)
    place = f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Failure(kind, place, text, parts)
