"""The steps of a synchronous job side by side: when each rank came to the barrier, and what its time until
then is made of. replay.py plays them again.

The time from the last arrival at the barrier of one step to that of the next is D = max over ranks of
(transfer + own): a rank leaves the barrier some time after the last one came (transfer), and then takes its
own time to get to the next one. This holds for every step, so a job played with nothing fixed is the job as
it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...records import Floats, Ints
from ..barrier import Grid
from ..columns import added, share_of, smooth, smoothed_steps, spread_by, spread_by_time
from ..intervals import LEAST_STEPS
from .account import NOT_ITS_OWN, Account
from .signals import RankSignals

MOST_STEPS = 2000  # that are played, drawn from all those there are
MOST_TIMES = 600_000  # of steps x ranks
PLACED_AT_ONCE = 16  # ranks
GAP_S = 1e-3  # between two steps of a rank: more is something that belongs to neither, ...
USUAL_GAPS = 8  # ... unless there is as much between most steps: so many times as much is then a break
BESIDE = "beside"  # part: what a rank does between the end of a step and the begin of the next
PRESENT = 0.5  # of the steps that a rank must have taken part in
CLOCKS = 0.02  # of a step: where clocks are known no better, ends of steps of two nodes are not compared
KEPT_OFF = ("stopped", "throttled")  # signals and parts of that name: counted whatever the rank was at
LACKING = "cpus_lacking"  # the group of waits for a CPU


class _JobColumns(NamedTuple):
    ranks: list[str]  # of the columns
    hosts: list[str]
    left: Floats  # (steps, ranks), from the last arrival at the barrier before until the rank left it
    own: Floats  # (steps, ranks), from then until it came to the next
    parts: dict[str, Floats]  # (steps, ranks) each, of the rank's own time
    measured: Floats  # (steps,) durations, means over the ranks
    aligned: int  # steps that all ranks did together, also those that are not played
    exact: bool  # rows are from arrival to arrival; else transfer is the least time held in a step
    # Group -> (steps, ranks), of `left` what a rank was kept from running in: that holds up all of them.
    in_transfer: dict[str, Floats]


class Job(_JobColumns):
    """Steps of all ranks that meet at barriers, one row for each step that is played."""

    @cached_property
    def arrival(self) -> Floats:
        """When each rank came, since the last arrival before; (steps, ranks). Not to be written to."""
        return self.left + self.own

    @cached_property
    def played(self) -> Floats:
        """Steps as they were, (steps,). Not to be written to."""
        longest: Floats = self.arrival.max(axis=1)
        return longest


def played_columns(grid: Grid) -> Sequence[int]:
    """Of which ranks steps are played: of those that took part in enough of them. grid: with steps."""
    if grid.is_whole:
        return range(grid.at.shape[1])
    found: list[int] = np.flatnonzero((grid.at >= 0).mean(axis=0) >= PRESENT).tolist()
    return found


def job_of(signals: Sequence[RankSignals], accounts: Sequence[Account], grid: Grid) -> Job | None:
    """What ranks did side by side; None where they share no steps. grid: over the steps of these signals."""
    if not len(grid.at):
        return None
    columns = played_columns(grid)
    signals, accounts = [signals[c] for c in columns], [accounts[c] for c in columns]
    if not len(columns) or (len(columns) > 1 and any(one.held is None for one in signals)):
        return None
    at = grid.at if grid.is_whole else grid.at[:, columns]
    whole = (at >= 0).all(axis=1)
    following = np.flatnonzero(np.diff(grid.step) == 1) + 1 if grid.is_whole else _following(grid.step, at)
    between = _between(signals)
    rows, left, own = _from_arrivals(signals, between, at, _drawn(following, grid, len(columns)))
    exact = 2 * len(rows) >= min(int(whole.sum()), _most(len(columns))) and len(rows) >= LEAST_STEPS
    exact = exact and grid.clock_error <= CLOCKS * float(np.median(accounts[0].duration))
    if not exact:
        some = _drawn(np.flatnonzero(whole), grid, len(columns))
        rows, left, own = _from_windows(signals, accounts, between, at, some)
    played = at[rows]
    names = dict.fromkeys(name for one in accounts for name in one.parts if name not in NOT_ITS_OWN)
    measured = _placed([one.duration for one in accounts], played).mean(axis=1)
    parts = {name: _placed([one.parts.get(name) for one in accounts], played) for name in names}
    if between.is_usual:
        parts[BESIDE] = between.at(played)
        measured = measured + parts[BESIDE].mean(axis=1)
    if exact and signals[0].barrier == "join":
        # What the coordinator does between a join and the next step is in no rank's step.
        measured = (left + own).max(axis=1)
    return Job(
        ranks=[one.rank for one in accounts],
        hosts=[one.host for one in accounts],
        left=left,
        own=own,
        parts=parts,
        measured=measured,
        aligned=int(whole.sum()),
        exact=exact,
        in_transfer={
            name: _in_transfer([getattr(one, name) for one in signals], accounts, name, left)
            for name in KEPT_OFF
        }
        | {LACKING: _lacking_in_transfer(signals, accounts, played, left)},
    )


def _in_transfer(
    counted: Sequence[Floats | None], accounts: Sequence[Account], part: str, left: Floats
) -> Floats:
    """What was counted of a rank beyond its own part of that name fell into what it was held; of this the
    communication itself has its share. As it is read a few times a second only, steps have it in proportion
    to their transfer."""
    found = np.zeros_like(left)
    transfer = left.clip(min=0)
    for rank, (column, one) in enumerate(zip(counted, accounts, strict=True)):
        if column is None or np.isnan(column).all() or not len(one.duration):
            continue
        usual = float(transfer[:, rank].mean()) if len(left) else 0.0
        if not usual > 0:
            continue
        beyond = float(spread_by_time(column, one.duration).mean()) - one.mean(part)
        held = sum(map(one.mean, NOT_ITS_OWN))
        share = one.mean("transfer") / held if held > 0 else 0.0
        found[:, rank] = transfer[:, rank] * min(1.0, max(0.0, beyond * share / usual))
    return found


def _lacking_in_transfer(
    signals: Sequence[RankSignals], accounts: Sequence[Account], at: Ints, left: Floats
) -> Floats:
    """The same of waits for a CPU: what all threads of a rank waited beyond the contention in its own time,
    its threads of communication waited. Foreign load comes and goes, so it is compared second by second."""
    columns: list[Floats | None] = []
    for one, mine in zip(signals, accounts, strict=True):
        if one.threads_delay is None or np.isnan(one.threads_delay).all() or "transfer" not in mine.parts:
            columns.append(None)
            continue
        transfer, steps = mine.parts["transfer"], smoothed_steps(mine.duration)
        counted = [p for p in mine.parts if p == "throttled" or p.startswith("contention")]
        own = added([mine.parts[p] for p in counted], mine.duration)
        beyond = spread_by(mine.duration, one.threads_delay) - own
        if one.throttled is not None:
            beyond = beyond - np.maximum(0.0, spread_by_time(one.throttled, mine.duration) - own)
        held = added([mine.parts[p] for p in NOT_ITS_OWN if p in mine.parts], mine.duration)
        while_held = share_of(smooth(beyond.clip(min=0), steps), smooth(held, steps))
        columns.append(transfer * while_held)
    found: Floats = np.minimum(_placed(columns, at), left.clip(min=0))
    return found


def _following(step: Ints, at: Ints) -> Ints:
    """Rows that all ranks took part in, after a row that is the step before for all of them."""
    follows = np.zeros(len(at), np.bool_)
    together = (at[1:] >= 0).all(axis=1) & (at[:-1] >= 0).all(axis=1)
    follows[1:] = together & (np.diff(step) == 1) & (np.diff(at, axis=0) == 1).all(axis=1)
    return np.flatnonzero(follows)


class _Between(NamedTuple):
    """What ranks do between two steps in a row."""

    seconds: list[Floats]  # before each step of each rank
    most: Floats  # (ranks,) more is a break
    is_usual: bool  # some rank does something there before most steps

    def at(self, at: Ints) -> Floats:
        """Of these steps, breaks left out; (steps, ranks)."""
        gaps = _placed(self.seconds, at)
        return np.where(gaps > self.most, 0.0, gaps.clip(min=0))


def _between(signals: Sequence[RankSignals]) -> _Between:
    # Between a join and the next step lies what the coordinator does: a part of all steps.
    if signals[0].barrier == "join":
        return _Between([np.zeros(len(one.end_ns)) for one in signals], np.full(len(signals), np.inf), False)
    seconds = []
    for one in signals:
        gaps = np.zeros(len(one.end_ns))
        gaps[1:] = (one.begin_ns[1:] - one.end_ns[:-1]) / 1e9
        seconds.append(gaps)
    usual = np.array([float(np.median(gaps[1:])) if len(gaps) > 1 else 0.0 for gaps in seconds])
    most = GAP_S + np.where(usual > GAP_S, USUAL_GAPS * usual, 0.0)
    return _Between(seconds, most, bool((usual > GAP_S).any()))


def _from_windows(
    signals: Sequence[RankSignals], accounts: Sequence[Account], between: _Between, at: Ints, rows: Ints
) -> tuple[Ints, Floats, Floats]:
    """(rows that are known, left, own), by durations alone: all leave the barrier at once."""
    held = _placed([_held(one) for one in signals], at[rows])
    known = ~np.isnan(held).any(axis=1)
    rows, held = rows[known], held[known]
    own = _placed([one.duration for one in accounts], at[rows]) - held
    if between.is_usual:
        own += between.at(at[rows])
    return rows, np.repeat(held.min(axis=1, keepdims=True, initial=np.inf), own.shape[1], axis=1), own


def _held(one: RankSignals) -> Floats:
    return np.zeros_like(one.duration) if one.held is None else one.held


def _from_arrivals(
    signals: Sequence[RankSignals], between: _Between, at: Ints, rows: Ints
) -> tuple[Ints, Floats, Floats]:
    """(rows that are known, left, own), by the ends of steps on the server's clock."""
    origin = int(min(one.end_ns[0] for one in signals))
    ends = [(one.end_ns - origin) / 1e9 for one in signals]
    held = [_held(one) for one in signals]
    # A coordinator's join holds ranks after their part of the step, a collective within it.
    joined = signals[0].barrier == "join"
    left_at = [end + h for end, h in zip(ends, held, strict=True)] if joined else ends
    came_at = [end - h for end, h in zip(left_at, held, strict=True)]
    these, ones_before = at[rows], at[rows - 1]
    came, before, left = _placed(came_at, these), _placed(came_at, ones_before), _placed(left_at, ones_before)
    known = ~np.isnan(came + before + left).any(axis=1)
    known &= (_placed(between.seconds, these) <= between.most).all(axis=1)
    since = before.max(axis=1, keepdims=True, initial=-np.inf)
    return rows[known], (left - since)[known], (came - left)[known]


def _drawn(rows: Ints, grid: Grid, ranks: int) -> Ints:
    """At most so many of the rows as are played: in the order of how long they took, one at random of each of
    so many equal parts. Rows at equal distances may all be of one kind, as every tenth that writes a log."""
    most = _most(ranks)
    if len(rows) <= most:
        return rows
    ordered = rows[np.argsort((grid.end_ns - grid.begin_ns)[rows], kind="stable")]
    within = np.random.default_rng(0).random(most)
    return np.sort(ordered[((np.arange(most) + within) * (len(rows) / most)).astype(np.int64)])


def _most(ranks: int) -> int:
    return min(MOST_STEPS, max(200, MOST_TIMES // max(1, ranks)))


def _placed(columns: Sequence[Floats | None], at: Ints) -> Floats:
    """Columns by rank as (steps, ranks); what a rank has no column of is 0 there."""
    found = np.zeros(at.shape)
    if not len(at):
        return found
    same = at[:, 0].copy() if (at == at[:, :1]).all() else None  # steps of all ranks, as is usual
    # Times of some ranks go to their places together: those of one rank alone lie far apart in memory.
    for first in range(0, len(columns), PLACED_AT_ONCE):
        some = columns[first : first + PLACED_AT_ONCE]
        rows = np.zeros((len(some), len(at)))
        for rank, column in enumerate(some):
            if column is not None:
                rows[rank] = column.take(at[:, first + rank] if same is None else same)
        found[:, first : first + PLACED_AT_ONCE] = rows.T
    return found
