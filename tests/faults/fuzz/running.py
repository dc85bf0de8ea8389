"""Runs a target on mutated inputs for a while: counts inputs, crashes and hangs, and what memory it took."""

from __future__ import annotations

import contextlib
import hashlib
import random
import resource
import signal
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Protocol

KEPT = Path(__file__).parents[2] / "data" / "fuzz"
HANG_S = 5.0
MOST_KEPT = 20  # different failures


class Target(Protocol):
    """What is fed. An input is a list of parts: one message or file, or several that follow each other."""

    def make(self, chance: random.Random) -> list[bytes]:
        """An odd input."""
        ...

    def feed(self, parts: list[bytes]) -> None:
        """Raises anything that the product should not let out."""
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
    crashes: int
    hangs: int
    seconds: float
    slowest_s: float
    grown_bytes: int  # of the process at its peak, over the run
    failures: list[Failure]  # one of each place


def fuzz(target: Target, seconds: float, seed: int, most: int | None = None) -> Counts:
    """Feed it for so long, or with so many inputs."""
    chance = random.Random(seed)
    found: dict[str, Failure] = {}
    inputs = parts = crashes = hangs = 0
    slowest = 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = now = time.monotonic()
    while now - began < seconds and (most is None or inputs < most):
        given = target.make(chance)
        fed = time.monotonic()
        failure = fed_once(target, given)
        now = time.monotonic()
        inputs, parts, slowest = inputs + 1, parts + len(given), max(slowest, now - fed)
        if failure is not None:
            crashes, hangs = crashes + (failure.kind == "crash"), hangs + (failure.kind == "hang")
            if len(found) < MOST_KEPT:
                found.setdefault(failure.place, failure)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    return Counts(inputs, parts, crashes, hangs, now - began, slowest, grown, list(found.values()))


def fed_once(target: Target, parts: list[bytes]) -> Failure | None:
    """What goes wrong with one input."""
    try:
        with _limited(HANG_S):
            target.feed(parts)
    except Hang as error:
        return _failure("hang", error, parts)
    except Exception as error:
        return _failure("crash", error, parts)
    return None


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def end(number: int, frame: FrameType | None) -> None:
        raise Hang

    # CPU time, as the machine may be busy with others; and, for what waits for ever, some time on the clock.
    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds),
        (signal.ITIMER_REAL, signal.SIGALRM, 20 * seconds),
    )
    before = [signal.signal(number, end) for _, number, _ in timers]
    for timer, _, limit in timers:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for (timer, number, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def _failure(kind: str, error: BaseException, parts: list[bytes]) -> Failure:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "roofline" in frame.filename] or list(frames)
    place = f"{type(error).__name__} at {Path(ours[-1].filename).name}:{ours[-1].lineno}"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Failure(kind, place, text, parts)


# -- inputs in files: the length of each part (8 bytes, little-endian) before it -----------------------


def packed(parts: list[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def keep(folder: Path, parts: list[bytes]) -> Path:
    """Write an input; its name follows from what it holds."""
    data = packed(parts)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
    path.write_bytes(data)
    return path


def kept(name: str) -> list[Path]:
    """Inputs that once failed a target."""
    return sorted((KEPT / name).glob("*.bin"))
