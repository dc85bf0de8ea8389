"""Time in which a rank was stopped, throttled or read from a disk, taken from the part it was counted as."""

from __future__ import annotations

import numpy as np

from ...records import Floats
from ..columns import added, alone, same, share_of, smooth, smoothed_steps, spread_by, spread_by_time
from .ledger import ESTIMATED, HELD, UNSEEN, Ledger
from .signals import RankSignals


def move_stops(ledger: Ledger, signals: RankSignals) -> None:
    """Time that was seen stopped, throttled or reading from a disk, taken from where it must have been
    counted."""
    idle = [name for name in ledger.parts if "blocked" in name.split("|") and name != UNSEEN]
    blocked = min(idle, key=len, default="wait_ps")  # the part of the fewest names
    if signals.throttled is not None:
        got = _moved_smoothly(ledger, "contention", "throttled", signals.throttled, signals.duration)
        _moved_smoothly(ledger, blocked, "throttled", signals.throttled - got, signals.duration)
    if signals.stopped is not None:
        _take_stops(ledger, blocked, signals.stopped, signals.duration)
    for part, counts in (("paging", signals.faults), ("disk", signals.blocks)):
        if counts is None or blocked not in ledger.parts or blocked == "wait_ps":
            continue
        reading = counts > 0
        if same(reading.any(axis=-1)):
            alone(counts)
            time = ledger.parts[blocked]
            usual = float(np.median(time[counts <= 0])) if (counts <= 0).any() else 0.0
            reads = np.where(reading, np.maximum(0.0, time - usual), 0.0)
            reads[np.isnan(counts)] = np.nan
            ledger.move(blocked, part, spread_by(time, reads), ESTIMATED)


def _take_stops(ledger: Ledger, blocked: str, stopped: Floats, duration: Floats) -> None:
    """Time stopped was counted as blocked; where no part is that, as whatever went on when it was stopped."""
    if blocked in ledger.parts:
        _moved_smoothly(ledger, blocked, "stopped", stopped, duration)
        return
    sources = [name for name in ledger.parts if name != HELD]
    if not sources or not same(np.nansum(stopped, axis=-1) > 0):
        return
    alone(duration)
    # Read a few times a second: about that moment the steps that are longer than most had the stops in them.
    late = np.maximum(0.0, duration - float(np.median(duration)))
    got = _in_proportion(stopped, late if late.any() else duration, duration)
    share = share_of(got, added([ledger.parts[name] for name in sources], duration))
    for name in sources:
        ledger.move(name, "stopped", ledger.parts[name] * share, ESTIMATED)


def _moved_smoothly(ledger: Ledger, source: str, part: str, seconds: Floats, duration: Floats) -> Floats:
    """Move what a signal that is read a few times a second says, in proportion to the exact times of the
    source about that moment."""
    if source not in ledger.parts or not same(np.nansum(seconds, axis=-1) > 0):
        return np.zeros_like(duration)
    return ledger.move(source, part, _in_proportion(seconds, ledger.parts[source], duration), ESTIMATED)


def _in_proportion(seconds: Floats, exact: Floats, duration: Floats) -> Floats:
    """What a signal that is read a few times a second says, divided among the steps about that moment as
    these times are."""
    alone(duration)
    known = np.maximum(spread_by_time(seconds, duration), 0.0)
    steps = smoothed_steps(duration)
    got = exact * share_of(smooth(known, steps), smooth(exact, steps))
    # Long steps are in the middle of their own windows, which takes too little from them.
    return got * (float(known.sum() / got.sum()) if got.any() else 0.0)
