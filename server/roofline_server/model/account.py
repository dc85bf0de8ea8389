"""Where each step of a rank goes: parts that do not overlap and add up to its duration.

A part takes no more than is left of its step, and what nothing explains is `other`. Signals that cannot tell
two parts apart give one part with both names, "input|host". CPU time and waits for a CPU are exact, for each
step; kernel times are often those of a sample of the steps, so CPU time is what they divide up and never the
other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from roofline.answers.values import Provenance

from ..records import Bools, Floats, Ints
from .barrier import row_min
from .signals import RankSignals

# In the order in which they are shown. Merged parts stand where their first name does.
PARTS = (
    "input",
    "compute",
    "host",
    "gc",
    "contention",
    "stopped",
    "throttled",
    "paging",
    "disk",
    "transfer",
    "wait_ranks",
    "wait_ps",
    "blocked",
    "other",
)
HELD = "transfer|wait_ranks"  # of one rank alone: what it waits for is seen only beside the others
UNSEEN = "transfer|wait_ranks|blocked"  # of ranks that meet, in a step in which that was not seen
NOT_ITS_OWN = ("transfer", "wait_ranks", "wait_ps", HELD, UNSEEN)

COMPUTING_ELSEWHERE = 0.5  # of a step: from here on other threads than the main one do the computing
MOST_KNOWN = 0.5  # of the time of its steps that a sum over threads must be known of to speak for all
LEAST_MEASURED = 5  # steps whose main thread was measured; fewer do not speak for the others
SMOOTH_S = 1.0  # over which signals that are sampled a few times a second are compared with exact ones

MEASURED, ESTIMATED = Provenance.MEASURED, Provenance.ESTIMATED


class Account(NamedTuple):
    """Steps of one rank. All columns are (steps,), seconds; no NaN in `parts`."""

    rank: str
    role: str
    host: str
    duration: Floats
    parts: dict[str, Floats]  # in the order of PARTS
    provenance: dict[str, Provenance]  # of each part
    roof: Floats | None  # of compute, what the roof would need; NaN where not known

    @property
    def own(self) -> Floats:
        """What the rank itself took, until it waited for others."""
        return self.duration - _sum([self.parts[p] for p in NOT_ITS_OWN if p in self.parts], self.duration)


class _Ledger:
    """Gives away the time of steps, never more than there is."""

    def __init__(self, duration: Floats) -> None:
        self.whole: Floats = np.maximum(duration, 0.0)
        self.left = self.whole
        self.parts: dict[str, Floats] = {}
        self.provenance: dict[str, Provenance] = {}

    def take(self, part: str, seconds: Floats, provenance: Provenance = MEASURED) -> Floats:
        """Give `part` these seconds of what is left; returns what it got."""
        got = np.minimum(np.maximum(_known(seconds), 0.0), self.left)
        self.left = self.left - got
        self._add(part, got, provenance)
        return got

    def move(self, source: str, part: str, seconds: Floats, provenance: Provenance = MEASURED) -> Floats:
        """Give `part` what another had; returns how much that was."""
        if source not in self.parts:
            return np.zeros_like(self.left)
        got = np.minimum(np.maximum(_known(seconds), 0.0), self.parts[source])
        self.parts[source] = self.parts[source] - got
        self._add(part, got, provenance)
        return got

    def _add(self, part: str, seconds: Floats, provenance: Provenance) -> None:
        known = self.parts.get(part)
        self.parts[part] = seconds if known is None else known + seconds
        if self.provenance.get(part) != ESTIMATED:
            self.provenance[part] = provenance


def account(signals: RankSignals) -> Account:
    """The account of one rank; what it was held in collectives is `HELD`, see `with_waits`."""
    duration = signals.duration
    if signals.barrier == "join" and signals.held is not None:
        duration = duration + _known(signals.held)  # a coordinator holds it after its part of the step
    ledger = _Ledger(_known(duration))
    if signals.held is not None:
        ledger.take(HELD, signals.held, ESTIMATED if signals.barrier == "kernels" else MEASURED)
    measured = _measured(signals)
    if measured.sum() < LEAST_MEASURED:
        _input(ledger, signals, None)
        _by_threads(ledger, signals)
    else:
        _input(ledger, signals, signals.input_delay)
        _by_main_thread(ledger, signals, measured)
    _what_else_stopped_it(ledger, signals)
    if np.any(ledger.left > 0) or not ledger.parts:
        ledger.take("other", ledger.left.copy())
    # `input` and `compute` are shown as 0 where they were looked for and took nothing.
    nothing = 1e-9 * ledger.whole.sum()  # rounding
    shown = [p for p, values in ledger.parts.items() if values.sum() > nothing or p in ("input", "compute")]
    parts = {name: ledger.parts[name] for name in sorted(shown, key=place)}
    provenance = {name: ledger.provenance[name] for name in parts}
    return Account(signals.rank, signals.role, signals.host, ledger.whole, parts, provenance, signals.roof)


def with_waits(accounts: Sequence[Account], at: Ints) -> list[Account]:
    """Accounts of ranks that meet at a barrier, with what they were held divided into the communication
    itself and waiting for others: who was held shortest came last and waited for nobody.

    at: (steps, ranks), which of the rank's steps it is, -1: it took no part; as in `barrier.Grid`. Steps that
    fewer than two ranks share stay undivided.
    """
    held = np.full(at.shape, np.nan)
    for column, one in enumerate(accounts):
        if HELD in one.parts:
            there = at[:, column] >= 0
            held[there, column] = one.parts[HELD][at[there, column]]
    transfer = np.where(np.sum(~np.isnan(held), axis=1) >= 2, row_min(held), np.nan)
    return [_with_transfer(one, at[:, column], transfer) for column, one in enumerate(accounts)]


def _with_transfer(one: Account, at: Ints, transfer: Floats) -> Account:
    if HELD not in one.parts:
        return one
    held = one.parts[HELD]
    own = np.full(len(held), np.nan)
    own[at[at >= 0]] = transfer[at >= 0]
    known = ~np.isnan(own)
    own = np.minimum(np.where(known, own, 0.0), held)
    parts = {name: values for name, values in one.parts.items() if name != HELD}
    parts |= {"transfer": own, "wait_ranks": np.where(known, held - own, 0.0)}
    if not known.all():
        parts[HELD] = np.where(known, 0.0, held)
    origin = one.provenance[HELD]
    provenance = {name: one.provenance.get(name, origin) for name in parts}
    ordered = {name: parts[name] for name in sorted(parts, key=place)}
    return one._replace(parts=ordered, provenance=provenance)


# -- the parts ----------------------------------------------------------------------------------------------


def _input(ledger: _Ledger, signals: RankSignals, delay: Floats | None) -> None:
    if signals.input is None:
        return
    late = np.zeros_like(ledger.left) if delay is None else _known(spread_by(signals.input, delay))
    ledger.take("input", signals.input - late)
    if delay is not None:
        ledger.take("contention", late)


def _measured(signals: RankSignals) -> Bools:
    """Steps whose main thread was measured; that of a worker of parameter servers tells nothing."""
    if signals.waits_for_servers or signals.run is None or signals.delay is None:
        return np.zeros(len(signals.duration), np.bool_)
    return ~np.isnan(signals.run + signals.delay)


def _by_main_thread(ledger: _Ledger, signals: RankSignals, measured: Bools) -> None:
    """What is neither input nor held, by what the main thread and the kernels did."""
    run = _less(signals.run, signals.input_run, signals.held_run)
    delay = _less(signals.delay, signals.input_delay, signals.held_delay)
    rest = ledger.left
    origin = MEASURED if measured.all() else ESTIMATED
    run, delay = _like_measured(rest, run, delay, measured)
    run = np.minimum(run, rest)
    delay = np.minimum(delay, rest - run)
    # Where no hook sees input it is part of what the main thread does.
    host = "host" if signals.input is not None else "input|host"
    if signals.kernels is None:
        run, delay = _elsewhere(signals, rest, run, delay)
        ledger.take("compute|host" if signals.input is not None else "input|compute|host", run, origin)
        ledger.take("contention", delay, origin)
    elif signals.on_gpu:
        computing = ledger.take("compute", signals.kernels)
        idle = rest - computing
        waited = np.minimum(delay, np.maximum(0.0, idle - run))
        ledger.take(host, np.minimum(run, idle), ESTIMATED)
        ledger.take("contention", waited, ESTIMATED)
    else:
        lacking = _share(delay, run + delay)
        inside, clean = _kernels(signals, rest, np.maximum(lacking, _lacking_of_others(signals)))
        besides = np.maximum(0.0, run + delay - inside)
        ledger.take("compute", clean, MEASURED if signals.traced is None else ESTIMATED)
        ledger.take("contention", inside - clean + besides * lacking, origin)
        ledger.take(host, besides * (1 - lacking), origin)
    if signals.held is not None:
        ledger.take(UNSEEN, np.where(np.isnan(signals.held), ledger.left, 0.0), ESTIMATED)
    ledger.take("blocked" if signals.input is not None else "input|blocked", ledger.left.copy(), origin)
    if signals.gc is not None:
        source = next((name for name in ledger.parts if "host" in name.split("|")), host)
        ledger.move(source, "gc", spread_by(ledger.parts.get(source, rest), signals.gc))


def _like_measured(rest: Floats, run: Floats, delay: Floats, measured: Bools) -> tuple[Floats, Floats]:
    """Run and delay of all steps, where they were measured of some: a step that is longer has more of what
    longer steps among the measured ones have more of (their regressions on the length add up to it)."""
    if measured.all():
        return run, delay
    lasting = rest[measured]
    off = np.maximum(0.0, lasting - run[measured] - delay[measured])
    known = [np.minimum(run[measured], lasting), np.minimum(delay[measured], lasting), off]
    centred = lasting - lasting.mean()
    spread = float(centred @ centred)
    slopes = [max(0.0, float(centred @ part)) / spread if spread > 0 else 0.0 for part in known]
    scale = sum(slopes) or 1.0
    longer = rest - lasting.mean()
    filled = [
        np.maximum(0.0, part.mean() + slope / scale * longer)
        for part, slope in zip(known, slopes, strict=True)
    ]
    factor = _ratio(rest, filled[0] + filled[1] + filled[2])
    return np.where(measured, run, filled[0] * factor), np.where(measured, delay, filled[1] * factor)


def spread_by(whole: Floats, part: Floats) -> Floats:
    """A part of a time that is known of all steps; of steps of which it is not, as much as of the others."""
    known = ~np.isnan(part)
    if known.all() or not known.any():
        return part
    total = float(whole[known].sum())
    found: Floats = np.where(known, part, whole * (float(part[known].sum()) / total if total > 0 else 0.0))
    return found


def _elsewhere(signals: RankSignals, rest: Floats, run: Floats, delay: Floats) -> tuple[Floats, Floats]:
    """On a CPU and waiting for one, where other threads compute while the main one is blocked, as in JAX."""
    others = _others(signals)
    # Threads of communication run too, while the main one is held: only much more than these do computes.
    if others is None or others[0].mean() < COMPUTING_ELSEWHERE * max(
        rest.mean(), signals.duration.mean() / 2
    ):
        return run, delay
    active = np.minimum(rest - run - delay, others[0] + others[1])
    lacking = _share(others[1], others[0] + others[1])
    return run + active * (1 - lacking), delay + active * lacking


def _others(signals: RankSignals) -> tuple[Floats, Floats] | None:
    """What the other threads ran and waited for a CPU in a step, means over SMOOTH_S: sums over threads are
    read a few times a second, so of one step their difference to the main thread is mostly noise."""
    if signals.threads_run is None or signals.threads_delay is None:
        return None
    run, delay = signals.threads_run - signals.run, signals.threads_delay - signals.delay  # type: ignore[operator]
    known = ~(np.isnan(run) | np.isnan(delay))
    if not known.any():
        return None
    steps = _smoothed_steps(signals.duration)
    count = _smooth(known.astype(np.float64), steps)
    means = [_ratio(_smooth(np.where(known, column, 0.0), steps), count) for column in (run, delay)]
    return np.maximum(0.0, means[0]), np.maximum(0.0, means[1])


def _kernels(signals: RankSignals, rest: Floats, lacking: Floats) -> tuple[Floats, Floats]:
    """Time in kernels, and of it that on a CPU. lacking: the share of it in which they lacked one.

    The kernels of a sampled step were stretched as CPUs were lacking in that step, not in this one.
    """
    kernels = _known(signals.kernels)  # type: ignore[arg-type]
    traced: Bools = kernels > 0 if signals.traced is None else signals.traced & (kernels > 0)
    lasting = kernels[traced].sum()
    clean = kernels * (1 - lacking)
    if lasting > 0 and not traced.all():
        usual = float(clean[traced].sum() / lasting)
        clean = np.where(traced, clean, kernels * usual)
    inside = np.minimum(rest, clean / (1 - lacking))
    return inside, np.minimum(clean, inside * (1 - lacking))


def _lacking_of_others(signals: RankSignals) -> Floats:
    """Share of the time in which the other threads that compute lacked a CPU: a kernel is as late as its
    slowest thread. 0 where the main thread computes alone."""
    others = _others(signals) if signals.kernel_threads != 1 else None
    if others is None or others[0].mean() < COMPUTING_ELSEWHERE * _mean(signals.kernels):
        return np.zeros_like(signals.duration)  # what little the others do is communication
    return _share(others[1], others[0] + others[1])


def _by_threads(ledger: _Ledger, signals: RankSignals) -> None:
    """The same without a main thread that tells: sums over all threads, and kernels."""
    rest = ledger.left.copy()
    idle = "wait_ps" if signals.waits_for_servers else "host|blocked"
    if signals.input is None:
        idle = "input|" + idle
    if signals.threads_run is None or signals.threads_delay is None:
        if signals.kernels is not None:
            ledger.take("compute" if signals.on_gpu else "compute|contention", signals.kernels)
        return
    run, delay = (_of_most(signals.duration, one) for one in (signals.threads_run, signals.threads_delay))
    known = ~(np.isnan(run) | np.isnan(delay))
    rest = np.where(known, rest, 0.0)
    active = _known(run + delay)
    lacking = _share(_known(delay), active)
    if signals.kernels is None:
        busy = np.minimum(rest, active)
        ledger.take("compute|host", busy * (1 - lacking), ESTIMATED)
        ledger.take("contention", busy * lacking, ESTIMATED)
        ledger.take(idle if signals.waits_for_servers else "blocked", rest - busy, ESTIMATED)
        return
    if signals.on_gpu:
        inside = ledger.take("compute", np.where(known, signals.kernels, np.nan))
        besides = np.minimum(rest - inside, active)
    else:
        inside, clean = _kernels(signals, rest, _lacking_of_busiest(signals, lacking))
        ledger.take("compute", clean, ESTIMATED)
        ledger.take("contention", inside - clean, ESTIMATED)
        besides, lacking = _besides_kernels(signals, rest, inside, active, lacking)
    ledger.take("contention", besides * lacking, ESTIMATED)
    ledger.take("host" if signals.waits_for_servers else idle, besides * (1 - lacking), ESTIMATED)
    ledger.take(idle, np.where(known, ledger.left, 0.0), ESTIMATED)


def _lacking_of_busiest(signals: RankSignals, lacking: Floats) -> Floats:
    """Share of the time in which the thread that computes lacked a CPU: the busiest one, where it is known.
    Of the others many wake for a moment only, and wait for that."""
    if signals.busiest_run is None or signals.busiest_delay is None:
        return lacking
    run, delay = (spread_by(signals.duration, one) for one in (signals.busiest_run, signals.busiest_delay))
    steps = _smoothed_steps(signals.duration)
    return _share(_smooth(delay, steps), _smooth(run + delay, steps))


def _of_most(duration: Floats, part: Floats) -> Floats:
    """Spread over all steps, where it is known of most of the time: all threads are read every two seconds,
    and what passes between the last reading and the end of a rank is not known."""
    known = ~np.isnan(part)
    return spread_by(duration, part) if duration[known].sum() >= MOST_KNOWN * duration.sum() else part


def _besides_kernels(
    signals: RankSignals, rest: Floats, inside: Floats, active: Floats, lacking: Floats
) -> tuple[Floats, Floats]:
    """How long a rank was active outside of kernels, and the share of it that it lacked a CPU.

    Threads are active at the same time: the busiest one of them tells the least that it can have been, the
    sum over all of them (`active`) the most. The least is taken where it is known: what ranks wait for is not
    to be hidden behind threads that wait beside.
    """
    cores = max(1.0, signals.cores or 1.0)
    most: Floats = np.clip(
        active - cores * inside, 0.0, rest - inside
    )  # a kernel keeps that many threads busy
    if signals.busiest_run is None or signals.busiest_delay is None or signals.threads_run is None:
        return most, lacking
    busiest = signals.busiest_run + signals.busiest_delay
    known = ~np.isnan(busiest)
    least = np.maximum(_known(busiest), _known(signals.threads_run) / cores)
    besides = np.where(known, np.clip(least - inside, 0.0, most), most)
    return besides, np.where(known, _share(_known(signals.busiest_delay), _known(busiest)), lacking)


def _what_else_stopped_it(ledger: _Ledger, signals: RankSignals) -> None:
    """Time that was seen stopped, throttled or reading from a disk, taken from where it must have been
    counted."""
    idle = (name for name in ledger.parts if "blocked" in name.split("|") and name != UNSEEN)
    blocked = next(idle, "wait_ps")
    if signals.throttled is not None:
        got = _moved_smoothly(ledger, "contention", "throttled", signals.throttled, signals.duration)
        _moved_smoothly(ledger, blocked, "throttled", signals.throttled - got, signals.duration)
    if signals.stopped is not None:
        _take_stops(ledger, blocked, signals.stopped, signals.duration)
    for part, counts in (("paging", signals.faults), ("disk", signals.blocks)):
        if counts is None or blocked not in ledger.parts or blocked == "wait_ps":
            continue
        reading = counts > 0
        if reading.any():
            time = ledger.parts[blocked]
            usual = float(np.median(time[counts <= 0])) if (counts <= 0).any() else 0.0
            reads = np.where(reading, np.maximum(0.0, time - usual), 0.0)
            reads[np.isnan(counts)] = np.nan
            ledger.move(blocked, part, spread_by(time, reads), ESTIMATED)


def _take_stops(ledger: _Ledger, blocked: str, stopped: Floats, duration: Floats) -> None:
    """Time stopped was counted as blocked; where no part is that, as whatever went on when it was stopped."""
    if blocked in ledger.parts:
        _moved_smoothly(ledger, blocked, "stopped", stopped, duration)
        return
    sources = [name for name in ledger.parts if name != HELD]
    if not sources or not np.nansum(stopped) > 0:
        return
    # Read a few times a second: about that moment the steps that are longer than most had the stops in them.
    late = np.maximum(0.0, duration - float(np.median(duration)))
    got = _in_proportion(stopped, late if late.any() else duration, duration)
    share = _share(got, _sum([ledger.parts[name] for name in sources], duration))
    for name in sources:
        ledger.move(name, "stopped", ledger.parts[name] * share, ESTIMATED)


def _moved_smoothly(ledger: _Ledger, source: str, part: str, seconds: Floats, duration: Floats) -> Floats:
    """Move what a signal that is read a few times a second says, in proportion to the exact times of the
    source about that moment."""
    if source not in ledger.parts or not np.nansum(seconds) > 0:
        return np.zeros_like(duration)
    return ledger.move(source, part, _in_proportion(seconds, ledger.parts[source], duration), ESTIMATED)


def _in_proportion(seconds: Floats, exact: Floats, duration: Floats) -> Floats:
    """What a signal that is read a few times a second says, divided among the steps about that moment as
    these times are."""
    told = np.maximum(_spread_by_time(seconds, duration), 0.0)
    steps = _smoothed_steps(duration)
    got = exact * _share(_smooth(told, steps), _smooth(exact, steps))
    # Long steps stand in the middle of their own windows, which takes too little from them.
    return got * (float(told.sum() / got.sum()) if got.any() else 0.0)


def _spread_by_time(seconds: Floats, duration: Floats) -> Floats:
    """What is known of the steps in which a sample was taken, for all steps. Long steps have a sample more
    often, so that it is their shares of a step, and not the seconds, whose mean is that of the time."""
    known = ~np.isnan(seconds)
    if known.all():
        return seconds
    share = float(_ratio(seconds[known], duration[known]).mean())
    return duration * share


# -- arithmetic ---------------------------------------------------------------------------------------------


def _known(values: Floats) -> Floats:
    """0 where it is not known (several times as fast as nan_to_num)."""
    found: Floats = np.where(np.isnan(values), 0.0, values)
    return found


def _mean(values: Floats | None) -> float:
    """Of those that are known; 0 where none is."""
    known = np.zeros(0) if values is None else values[~np.isnan(values)]
    return float(known.mean()) if len(known) else 0.0


def _less(whole: Floats | None, *parts: Floats | None) -> Floats:
    """What is left of a time without parts of it."""
    assert whole is not None
    left = whole.astype(np.float64)
    for part in parts:
        if part is not None:
            left = left - _known(part)
    return np.maximum(left, 0.0)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole; 0 where there is no whole to speak of."""
    found: Floats = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 1e-12)
    return found


def _share(part: Floats, whole: Floats) -> Floats:
    """The same, from 0 to nearly 1."""
    return np.clip(_ratio(part, whole), 0.0, 0.999)


def _smooth(values: Floats, steps: int) -> Floats:
    """Sums over so many steps about each."""
    whole = np.concatenate(([0.0], np.cumsum(values)))
    middle = np.arange(len(values))
    first, last = np.maximum(0, middle - steps // 2), np.minimum(len(values), middle + steps // 2 + 1)
    found: Floats = whole[last] - whole[first]
    return found


def _smoothed_steps(duration: Floats) -> int:
    """How many steps SMOOTH_S lasts."""
    usual = float(np.median(duration)) if len(duration) else 0.0
    return int(np.clip(np.ceil(SMOOTH_S / usual) if usual > 0 else 1, 1, max(1, len(duration))))


def _sum(columns: Sequence[Floats], like: Floats) -> Floats:
    total: Floats = np.zeros_like(like)
    for column in columns:
        total = total + column
    return total


def place(part: str) -> tuple[int, str]:
    """In which order parts are shown."""
    return PARTS.index(part.partition("|")[0]), part
