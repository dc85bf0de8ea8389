"""Where each step of a rank goes: parts that do not overlap and add up to its duration.

A part takes no more than is left of its step, and what nothing explains is `other`. If the signals cannot
tell two parts apart, they form one part with both names, "input|host". CPU time and waits for a CPU are exact
for each step; kernel times often come from a sample of the steps, so they divide up the CPU time and never
the other way round.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from roofline.answers.values import Provenance

from ...records import Bools, Floats
from ..barrier import Grid, row_min
from ..columns import Differ, added, or_zero, same, spread_by
from .computing import by_main_thread, by_threads
from .ledger import ESTIMATED, HELD, MEASURED, UNSEEN, Ledger, place
from .signals import RankSignals
from .stops import move_stops

NOT_ITS_OWN = ("transfer", "wait_ranks", "wait_ps", HELD, UNSEEN)
CELLS = 1 << 15  # steps x ranks that are looked at together: their columns stay in the cache of a CPU
# Columns of signals that accounts are made of, (steps,) of each rank.
FIRST_OF_STEPS = RankSignals._fields.index("duration")
DIVIDED_BY = (
    *("duration", "input", "held", "kernels", "kernels_most", "traced", "run", "delay", "input_run"),
    *("input_delay", "held_run", "held_delay", "gc", "faults", "blocks", "threads_run", "threads_delay"),
    *("busiest_run", "busiest_delay", "stopped", "throttled"),
)
LEAST_MEASURED = 5  # steps whose main thread was measured; fewer do not speak for the others


class _AccountColumns(NamedTuple):
    rank: str
    role: str
    host: str
    duration: Floats
    parts: dict[str, Floats]  # in the order of PARTS
    provenance: dict[str, Provenance]  # of each part
    roof: Floats | None  # of compute, what the roof would need; NaN where not known


class Account(_AccountColumns):
    """Steps of one rank. All columns are (steps,), seconds; no NaN in `parts`."""

    @cached_property
    def sums(self) -> dict[str, float]:
        """Seconds in each part, over all steps."""
        return {part: float(seconds.sum()) for part, seconds in self.parts.items()}

    def mean(self, part: str) -> float:
        """Seconds a step in a part; 0 where it has none."""
        return self.sums.get(part, 0.0) / max(1, len(self.duration))

    @property
    def own(self) -> Floats:
        """What the rank itself took, until it waited for others."""
        return self.duration - added([self.parts[p] for p in NOT_ITS_OWN if p in self.parts], self.duration)


def account(signals: RankSignals) -> Account:
    """The account of one rank; what it was held in collectives is `HELD`, see `with_waits`."""
    ledger = _ledger(signals)
    return _account(signals, ledger.whole, ledger.parts, ledger.provenance)


def account_of_each(signals: Sequence[RankSignals]) -> list[Account]:
    """The account of each of many ranks. Those of which the same is known are looked at together as far as
    they are alike: numpy takes as long to begin with the steps of one rank as with those of a hundred."""
    alike: dict[Hashable, list[int]] = {}
    for number, one in enumerate(signals):
        alike.setdefault(_what_is_known(one), []).append(number)
    found: dict[int, Account] = {}
    for numbers in alike.values():
        at_once = max(1, CELLS // max(1, len(signals[numbers[0]].duration)))
        for first in range(0, len(numbers), at_once):
            some = numbers[first : first + at_once]
            found |= zip(some, _together([signals[number] for number in some]), strict=True)
    return [found[number] for number in range(len(signals))]


def _what_is_known(one: RankSignals) -> Hashable:
    return tuple(value.shape if isinstance(value, np.ndarray) else value for value in one[FIRST_OF_STEPS:])


def _together(some: Sequence[RankSignals]) -> list[Account]:
    """Of ranks of which the same is known."""
    if len(some) > 1:
        # The columns of all of them, (ranks, steps).
        columns: dict[str, Any] = {
            name: np.stack([getattr(one, name) for one in some])
            for name in DIVIDED_BY
            if getattr(some[0], name) is not None
        }
        try:
            ledger = _ledger(some[0]._replace(**columns))
        except Differ:
            return [account(one) for one in some]
        parts = ledger.parts.items()
        return [
            _account(one, ledger.whole[row], {name: part[row] for name, part in parts}, ledger.provenance)
            for row, one in enumerate(some)
        ]
    return [account(one) for one in some]


def _ledger(signals: RankSignals) -> Ledger:
    """Their time given away to parts: of one rank, or of several. Raises Differ."""
    duration = signals.duration
    if signals.barrier == "join" and signals.held is not None:
        duration = duration + or_zero(signals.held)  # a coordinator holds it after its part of the step
    ledger = Ledger(or_zero(duration))
    if signals.on_gpu and signals.kernels is not None:
        # First: what a GPU computes meanwhile is lost neither to input nor to the host. Kernels of NCCL spin.
        ledger.take(_on_gpu(signals), signals.kernels, ESTIMATED)
    if signals.held is not None:
        ledger.take(HELD, signals.held, ESTIMATED if signals.barrier == "kernels" else MEASURED)
    measured = measured_of(signals)
    if same(np.count_nonzero(measured, axis=-1) < LEAST_MEASURED):
        _input(ledger, signals, None)
        _perhaps_on_gpus(ledger, signals)
        by_threads(ledger, signals)
    else:
        _input(ledger, signals, signals.input_delay)
        _perhaps_on_gpus(ledger, signals)
        by_main_thread(ledger, signals, measured)
    move_stops(ledger, signals)
    if same((ledger.left > 0).any(axis=-1)) or not ledger.parts:
        ledger.take("other", ledger.left.copy())
    return ledger


def _on_gpu(signals: RankSignals) -> str:
    return "compute|transfer" if signals.on_gpu_meets else "compute"


def _perhaps_on_gpus(ledger: Ledger, signals: RankSignals) -> None:
    """Time in which one of several GPUs was busy if they work in turns, and none if they do at once."""
    if signals.kernels_most is not None and signals.kernels is not None:
        part = f"{_on_gpu(signals)}|host"
        part = part if signals.input is not None else f"input|{part}"
        ledger.take(part, signals.kernels_most - signals.kernels, ESTIMATED)


def _account(
    signals: RankSignals,
    whole: Floats,
    every: Mapping[str, Floats],
    origins: Mapping[str, Provenance],
) -> Account:
    """Of one rank. whole: time of its steps; every: part that it was given away to."""
    # `input` and `compute` are shown as 0 where they were looked for and took nothing.
    nothing = 1e-9 * whole.sum()  # rounding
    shown = [p for p, values in every.items() if values.sum() > nothing or p in ("input", "compute")]
    parts = {name: every[name] for name in sorted(shown, key=place)}
    provenance = {name: origins[name] for name in parts}
    return Account(signals.rank, signals.role, signals.host, whole, parts, provenance, signals.roof)


def measured_of(signals: RankSignals) -> Bools:
    """Steps whose main thread was measured; that of a worker of parameter servers tells nothing."""
    if signals.waits_for_servers or signals.run is None or signals.delay is None:
        return np.zeros(signals.duration.shape, np.bool_)
    return ~np.isnan(signals.run + signals.delay)


def _input(ledger: Ledger, signals: RankSignals, delay: Floats | None) -> None:
    if signals.input is None:
        return
    late = np.zeros_like(ledger.left) if delay is None else or_zero(spread_by(signals.input, delay))
    ledger.take("input", signals.input - late)
    if delay is not None:
        ledger.take("contention", late)


def with_waits(accounts: Sequence[Account], grid: Grid) -> list[Account]:
    """Accounts of ranks that meet at a barrier, with what they were held divided into the communication
    itself and waiting for others: who was held shortest came last and waited for nobody.

    grid: over their steps, a column each. Steps that fewer than two ranks share stay undivided.
    """
    held = grid.place([one.parts.get(HELD) for one in accounts])
    transfer = np.where(np.sum(~np.isnan(held), axis=1) >= 2, row_min(held), np.nan)
    if grid.is_whole:
        return [_with_transfer(one, transfer) for one in accounts]
    found = []
    for column, one in enumerate(accounts):
        own, at = np.full(len(one.duration), np.nan), grid.at[:, column]
        own[at[at >= 0]] = transfer[at >= 0]
        found.append(_with_transfer(one, own))
    return found


def _with_transfer(one: Account, own: Floats) -> Account:
    """own: of each of its steps the communication itself; NaN where it is not known."""
    if HELD not in one.parts:
        return one
    held = one.parts[HELD]
    absent = np.isnan(own)
    own = np.minimum(or_zero(own), held)
    waited = held - own
    parts = {name: values for name, values in one.parts.items() if name != HELD}
    parts |= {"transfer": own, "wait_ranks": waited}
    if np.count_nonzero(absent):
        parts |= {"wait_ranks": np.where(absent, 0.0, waited), HELD: np.where(absent, held, 0.0)}
    origin = one.provenance[HELD]
    provenance = {name: one.provenance.get(name, origin) for name in parts}
    ordered = {name: parts[name] for name in sorted(parts, key=place)}
    return one._replace(parts=ordered, provenance=provenance)
