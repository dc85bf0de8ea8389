"""What parameter servers compute: the updates of the variables they hold, by the rule of the optimizer.

A server runs no kernels that a library prints. The chief reports, of each server, what one update of all its
variables takes (`update.ps:0`, docs/metrics.md). Each step of a worker brings one update.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...correlate import windows as step_windows
from ...model.evidence import NS, KernelEvidence, RankEvidence
from ...model.times import union_seconds
from ...records import ABSENT, Ints, Table
from ...sentences.reasons import NO_UPDATE_RULE
from ...sentences.wording import joined
from ...store.view import JobView
from .tables import where

FACT = "update."  # and the name of the server's rank
PAYLOAD = "payload.{}.total"  # a fact of each server whose chief has the hooks


class Update(NamedTuple):
    """What an update of all variables of a server costs, once."""

    flops: int
    bytes: int
    precision: str
    rule: str


def with_updates(view: JobView, evidence: Mapping[int, RankEvidence], mode: str) -> dict[int, RankEvidence]:
    """This evidence, with the updates of parameter servers as what they compute; others stay as they are."""
    reported = {name: text for facts in view.facts.values() for name, text in facts.items()}
    found = dict(evidence)
    for number, rank in evidence.items():
        if not rank.serving or rank.kernels is not None or rank.role != "ps":
            continue
        update = parsed(reported.get(FACT + rank.key, ""))
        if update is None and PAYLOAD.format(rank.key) in reported:
            why = joined(NO_UPDATE_RULE, rank.reasons.get("perf", ""))
            found[number] = rank._replace(reasons={**rank.reasons, "flops": why})
        if update is not None:
            updates = _in_rounds(view, number, rank) if mode == "synchronous" else _one_each(rank)
            found[number] = rank._replace(kernels=_kernels(rank, update, updates))
    return found


def parsed(text: str) -> Update | None:
    """FLOPS/BYTES/PRECISION RULE; None where it is anything else."""
    amounts, _, rule = text.partition(" ")
    flops, _, rest = amounts.partition("/")
    moved, _, precision = rest.partition("/")
    if not (flops.isdecimal() and moved.isdecimal() and precision and rule) or len(amounts) > 48:
        return None
    return Update(int(flops), int(moved), precision, rule)


def _one_each(rank: RankEvidence) -> Ints:
    """Updates in its windows where workers step on their own: each window is a step of one of them."""
    return np.ones(len(rank.steps.step), np.int64)


def _in_rounds(view: JobView, number: int, rank: RankEvidence) -> Ints:
    """Updates in its windows where workers step together: one of each worker that took part in the round."""
    windows: Table = where(view.steps.get("steps", {}), "rank", number)
    key = step_windows.joined(windows["step"], step_windows.attempts(windows, "window", "step"))
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    ends, counts = np.maximum.reduceat(windows["end_ns"][order], first), np.diff(np.append(first, len(key)))
    by_end = np.argsort(ends)
    at = np.minimum(np.searchsorted(ends[by_end], rank.steps.end_ns), len(ends) - 1)
    found: Ints = counts[by_end][at].astype(np.int64)
    return found


def _kernels(rank: RankEvidence, update: Update, updates: Ints) -> KernelEvidence:
    none = np.zeros(len(updates), np.int64)
    flops = update.flops * updates
    return KernelEvidence(
        flops=flops,
        bytes=update.bytes * updates,
        duration_ns=_durations(rank),
        kernel_ns=none,
        complete=np.ones(len(updates), bool),
        unmodelled=none,
        dram=np.full(len(updates), ABSENT, np.int64),
        by_precision={update.precision: flops},
        step=rank.steps.step,
        rule=update.rule,
    )


def _durations(rank: RankEvidence) -> Ints:
    """Of its windows, which overlap where workers step on their own: their sum is as long as any lasted."""
    begin, end = rank.steps.begin_ns, rank.steps.end_ns
    together = union_seconds([np.stack([begin, end], axis=1)]) * NS
    return np.round((end - begin) * (together / max(1, int((end - begin).sum())))).astype(np.int64)
