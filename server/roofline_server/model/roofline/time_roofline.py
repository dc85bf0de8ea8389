"""The time-based roofline (Wang, Yang, Farrell, Zhang, Kurth, Williams 2020).

In a plane of bytes (across) and FLOPs (up) each kernel or step has two points: the bytes it moves and the
FLOPs it does (its complexity, the closed symbol), and the bytes and FLOPs that the machine could have handled
in the time it took (the open symbol). The diagonal of slope `balance` = peak FLOP/s over peak byte/s
separates compute-bound from memory-bound points; both symbols of a point are on the same side of it, on the
same line through the origin, and the distance between them is what the roof would allow to gain.

Times in s, bytes, FLOP. All of it is linear: whether it is a step, all steps or one launch makes no
difference to the position of the open symbol relative to the closed one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from roofline.answers.time_roofline import Isocurve, OverheadBox

from ...sentences import time_rooflines as texts

COMPUTE, MEMORY, OVERHEAD = "compute", "memory", "overhead"
MOST_DECADES = 12
FAR = 0.1  # of the roof: what is lower is not called bound by it
LOW = 0.2  # of the roof: up to here nobody knows what holds it back


class Peaks(NamedTuple):
    """Peaks of a machine, FLOP/s and byte/s, and what one launch costs at least, s (None: not known)."""

    flops: float
    bytes: float
    launch: float | None = None

    @property
    def balance(self) -> float:
        """FLOP per byte at which computing and moving take equally long."""
        return self.flops / self.bytes


class Work(NamedTuple):
    """What was done, and how long that took. launches may be broken: a mean."""

    flops: float
    bytes: float
    seconds: float
    launches: float


class Placed(NamedTuple):
    """Where the open symbol lies, and what decides how long it takes."""

    bandwidth_time: float  # s, of the run time what is put down to moving bytes
    compute_time: float  # s, to computing
    bytes: float  # bandwidth time x peak byte/s
    flops: float  # compute time x peak FLOP/s
    bound: str  # COMPUTE, MEMORY, OVERHEAD


def place(work: Work, peaks: Peaks) -> Placed:
    """Section III: of the two times the larger is the run time, the other is smaller as the intensity is from
    the balance. What takes no longer than its launches cost is bound by them.

    work: FLOPs, bytes and time above zero.
    """
    computing, moving = work.flops / peaks.flops, work.bytes / peaks.bytes
    if computing >= moving:
        compute_time, bandwidth_time, bound = work.seconds, work.seconds * (moving / computing), COMPUTE
    else:
        compute_time, bandwidth_time, bound = work.seconds * (computing / moving), work.seconds, MEMORY
    if peaks.launch is not None and work.seconds <= work.launches * peaks.launch:
        bound = OVERHEAD
    return Placed(
        bandwidth_time, compute_time, bandwidth_time * peaks.bytes, compute_time * peaks.flops, bound
    )


def least_time(work: Work, peaks: Peaks) -> float:
    """Seconds that the roof allows: computing and moving at the peaks, both at once."""
    return max(work.flops / peaks.flops, work.bytes / peaks.bytes)


def words(work: Work, peaks: Peaks, placed: Placed, parts: float = 1) -> str:
    """What decides, how far it is from the roof, and what would help. parts: of how many like it, which have
    the peaks together, this is one."""
    if placed.bound == OVERHEAD:
        return texts.LAUNCHING
    share = least_time(work, peaks) / work.seconds
    computing = placed.bound == COMPUTE
    peak = texts.COMPUTE_PEAK if computing else texts.MEMORY_PEAK
    if share > 1.05:
        return texts.above_peak(share, peak)
    if parts > 1:
        share, peak = min(1.0, share * parts), texts.part_of_peak(peak, parts)
    if share < FAR:
        return texts.far_below(share, peak)
    advice = ""
    if share >= 0.8:
        advice = texts.LOWER_PRECISION if computing else texts.MOVE_LESS
    elif share < 0.3:
        advice = texts.faster(share, "FLOPs" if computing else "bytes")
    bound = texts.bound_by("computing" if computing else "moving data", share, peak, advice)
    return bound if share >= LOW else texts.perhaps(bound)


def overhead_box(launches: int, peaks: Peaks, label: str) -> OverheadBox | None:
    """What n launches could have moved and computed while they were started; None: overhead is not known."""
    if peaks.launch is None:
        return None
    seconds = launches * peaks.launch
    return OverheadBox(launches, seconds * peaks.bytes, seconds * peaks.flops, label)


def isocurves(seconds: Iterable[float], peaks: Peaks, corner: tuple[float, float]) -> list[Isocurve]:
    """One curve per power of ten of time from the shortest to the longest of these, at most MOST_DECADES.

    All that takes T at the roof: bytes <= T x peak byte/s, FLOPs <= T x peak FLOP/s. corner: bytes and FLOPs
    where the picture begins; curves start there, or a decade before their own corner.
    """
    known = [t for t in seconds if t > 0 and math.isfinite(t)]
    if not known:
        return []
    first, last = math.floor(math.log10(min(known))), math.ceil(math.log10(max(known)))
    found = []
    for power in range(max(first, last - MOST_DECADES + 1), last + 1):
        t = 10.0**power
        across, up = t * peaks.bytes, t * peaks.flops
        left, below = min(corner[0], across / 10), min(corner[1], up / 10)
        found.append(Isocurve(t, [left, across, across], [up, up, below]))
    return found


def corner(bytes_: Sequence[float], flops: Sequence[float]) -> tuple[float, float]:
    """A decade left of and below all of these."""
    return min(bytes_, default=1.0) / 10, min(flops, default=1.0) / 10
