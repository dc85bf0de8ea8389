"""What a job in which nothing is named would gain most from: the part without which steps are shortest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...records import Floats
from ..account.account import Account
from ..account.replay import Replay
from ..account.signals import RankSignals
from ..account.synchronous_job import job_of
from ..barrier import Grid
from ..columns import known_mean
from .cause import LEAST_GAIN

NOT_TO_SHORTEN = ("wait_ranks", "other")  # parts that are no next gain
LEAST_LEFT = 0.01  # of a step: it is never nothing


class NextGain(NamedTuple):
    """Seconds are of a step of the job."""

    part: str  # of the account
    gain: float  # s, by which steps are shorter without it
    step: float  # mean, s


def next_gain(
    signals: Sequence[RankSignals], accounts: Sequence[Account], grid: Grid | None
) -> NextGain | None:
    """The part that a step would shorten by most without it; of kernels, and of a part that may be kernels,
    without what they take beyond what their roof needs, where that is known, or without all of them on a GPU.
    None: no part is worth it. grid: of ranks that meet at barriers; None: they step independently."""
    pairs = [(s, a) for s, a in zip(signals, accounts, strict=True) if len(a.duration) and a.duration.any()]
    if not pairs:
        return None
    signals, accounts = [s for s, _ in pairs], [a for _, a in pairs]
    names = dict.fromkeys(name for one in accounts for name in one.parts if name not in NOT_TO_SHORTEN)
    shares = {name: _to_save(name, signals, accounts) for name in names}
    job = job_of(signals, accounts, grid) if grid is not None else None
    if grid is not None:
        step, gains = _replayed(Replay(job), accounts, shares) if job is not None else (0.0, {})
    else:
        step, gains = _of_independent(accounts, shares)
    most = max(gains, key=lambda name: gains[name], default=None)
    if most is None or gains[most] < LEAST_GAIN * step:
        return None
    return NextGain(most, gains[most], step)


def _to_save(part: str, signals: Sequence[RankSignals], accounts: Sequence[Account]) -> Floats:
    """The share of a part that each rank could do without, (ranks,)."""
    found = np.ones(len(accounts))
    if "compute" not in part.split("|"):
        return found
    for rank, (one, own) in enumerate(zip(signals, accounts, strict=True)):
        roof, taken = known_mean(own.roof), own.mean(part)
        if roof is not None:
            found[rank] = max(0.0, 1 - roof / taken) if taken > 0 else 0.0
        elif not one.on_gpu:
            found[rank] = 0.0
    return found


def _replayed(
    replay: Replay, accounts: Sequence[Account], shares: Mapping[str, Floats]
) -> tuple[float, dict[str, float]]:
    """(mean step, part -> gain): what `what-if --fix PART` says."""
    job, played = replay.job, replay.job.played
    if not len(played):
        return 0.0, {}
    places = {one.rank: rank for rank, one in enumerate(accounts)}
    own = [places[rank] for rank in job.ranks]
    gains = {}
    for part, share in shares.items():
        if part == "transfer":
            then = replay.without_transfer()
        elif (share == 1).all():
            then = replay.without_parts([part])
        else:
            then = replay.without([part], share[own])
        gains[part] = float((played - then).mean())
    if "transfer" in gains:
        # A rank that took part in few steps is not played: waiting for it looks like communication.
        usual = max(accounts[rank].mean("transfer") for rank in own)
        gains["transfer"] = min(gains["transfer"], usual)
    return float(played.mean()), gains


def _of_independent(
    accounts: Sequence[Account], shares: Mapping[str, Floats]
) -> tuple[float, dict[str, float]]:
    """The same of ranks whose rates add up."""
    lasting = np.array([float(one.duration.mean()) for one in accounts])
    step = len(lasting) / float((1 / lasting).sum())
    gains = {}
    for part, share in shares.items():
        spent = np.array([one.mean(part) for one in accounts]) * share
        left = np.maximum(lasting - spent, LEAST_LEFT * lasting)
        gains[part] = step - len(left) / float((1 / left).sum())
    return step, gains
