"""Synchronous jobs of known parts: what the tests of replays and causes are played on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from roofline_server.model.account.account import Account, account, with_waits
from roofline_server.model.account.signals import RankSignals
from roofline_server.model.barrier import Grid
from roofline_server.records import Floats, Ints

INPUT, COMPUTE, HOST, DELAY, BLOCKED = 0.005, 0.060, 0.010, 0.0005, 0.0003
TRANSFER = 0.010


class Played(NamedTuple):
    signals: list[RankSignals]
    accounts: list[Account]
    grid: Grid
    step: Floats  # from the last arrival of each step to that of the next, as it was


def usual_parts(random: np.random.Generator, steps: int, ranks: int, noise: float) -> dict[str, Floats]:
    """Seconds of each part of each step, (steps, ranks), independent of each other."""

    def about(mean: float, spread: float) -> Floats:
        found: Floats = mean * np.exp(random.normal(0, spread, (steps, ranks)) - spread * spread / 2)
        return found

    return {
        "input": about(INPUT, 0.3),
        "kernels": about(COMPUTE, noise),
        "host": about(HOST, 2 * noise),
        "delay": random.exponential(DELAY, (steps, ranks)),
        "blocked": random.exponential(BLOCKED, (steps, ranks)),
    }


def job(
    steps: int = 200,
    ranks: int = 2,
    plant: Mapping[str, Mapping[int, float | Floats]] | None = None,
    noise: float = 0.02,
    seed: int = 0,
    transfer: float = TRANSFER,
    hosts: Sequence[str] = (),
    columns: Mapping[str, Mapping[int, float | Floats]] | None = None,
) -> Played:
    """plant: part -> rank -> seconds more, a number or one of each step. columns: signal -> rank -> its
    value; the ranks that are not named have 0."""
    random = np.random.default_rng(seed)
    parts = usual_parts(random, steps, ranks, noise)
    for part, extra in (plant or {}).items():
        for rank, seconds in extra.items():
            parts[part][:, rank] += seconds
    own = sum(parts.values())
    assert not isinstance(own, int)
    came, left = np.zeros((steps, ranks)), np.zeros((steps, ranks))
    now = np.zeros(ranks)
    for at in range(steps):
        came[at] = now + own[at]
        now = came[at].max() + transfer * random.uniform(0.8, 1.2) + np.abs(random.normal(0, 2e-4, ranks))
        left[at] = now
    begin = np.vstack([np.zeros((1, ranks)), left[:-1]])
    signals = []
    for rank in range(ranks):
        known = {name: np.zeros(steps) + values.get(rank, 0.0) for name, values in (columns or {}).items()}
        host = hosts[rank] if hosts else "node"
        signals.append(
            RankSignals(
                f"ddp:{rank}",
                "ddp",
                host,
                np.arange(steps, dtype=np.int64),
                nanoseconds(begin[:, rank]),
                nanoseconds(left[:, rank]),
                left[:, rank] - begin[:, rank],
                barrier="communicate",
                cores=1.0,
                input=parts["input"][:, rank],
                held=left[:, rank] - came[:, rank],
                kernels=parts["kernels"][:, rank],
                run=parts["kernels"][:, rank] + parts["host"][:, rank],
                delay=parts["delay"][:, rank],
            )._replace(**known)
        )
    last = came.max(axis=1)
    at = np.repeat(np.arange(steps, dtype=np.int64)[:, None], ranks, axis=1)
    grid = Grid(at[:, 0], nanoseconds(begin.min(axis=1)), nanoseconds(left.max(axis=1)), at)
    accounts = with_waits([account(one) for one in signals], grid)
    return Played(signals, accounts, grid, np.diff(last, prepend=0.0))


def nanoseconds(seconds: Floats) -> Ints:
    return np.round(seconds * 1e9).astype(np.int64)
