"""Cumulative counters of a rank over its windows, from what step tables read at their borders."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ...model.evidence import CounterEvidence
from ...records import Bools, Table, is_constant, rows, take

INSTRUCTIONS = "instructions"
MANY = 1e9  # instructions: some of so many do floating-point arithmetic, in an interpreter too


def counter(table: Table, name: str) -> CounterEvidence | None:
    """A cumulative counter over the windows of a step table of one rank; None where it has no reading."""
    if not rows(table) or f"{name}.begin" not in table:
        return None
    begin, end = f"{name}.begin", f"{name}.end"
    grown = table[end] - table[begin]
    read = {n: table[n] for n in (begin, end, "begin_ns", "end_ns", "start_ns")}
    has_reading = ~np.isnan(grown)
    windows = int(np.count_nonzero(has_reading))
    if not windows:
        return None
    if has_reading[:windows].all():  # nearly always the last windows alone have none
        growth = float(grown[:windows].sum())
        stretches = [{n: column[:windows] for n, column in read.items()}]
    else:
        growth = float(grown[has_reading].sum())
        stretches = _unbroken(take(read, has_reading), has_reading)
    total = seconds = 0.0
    for stretch in stretches:
        for one in _between_restarts(stretch, name):
            total += float(one[end].max() - one[begin][0])
            seconds += float(one["end_ns"].max() - one["begin_ns"].min()) / 1e9
    return CounterEvidence(total, seconds, windows, growth / windows)


def _unbroken(read: Table, known: Bools) -> list[Table]:
    """The windows that were read, cut where between two of them some were not: what was counted there is not
    known, and its time does not count. known: which of all windows these are."""
    holes = np.flatnonzero(np.diff(np.flatnonzero(known)) > 1) + 1
    ended = np.maximum.accumulate(read["end_ns"])
    edges = [0, *(at for at in holes.tolist() if read["begin_ns"][at] >= ended[at - 1]), rows(read)]
    return [{n: column[a:b] for n, column in read.items()} for a, b in pairwise(edges)]


def _between_restarts(table: Table, name: str) -> list[Table]:
    """The windows cut where the counter started again: with its process, or with the agent that counts. In
    none of these does it fall."""
    at_begin, starts = table[f"{name}.begin"], table["start_ns"]
    one_process = is_constant(starts) or np.count_nonzero(starts != starts[0]) == 0
    if one_process and not np.count_nonzero(at_begin[1:] < at_begin[:-1]):
        return [table]
    table = take(table, np.lexsort((table["begin_ns"], starts)))
    starts = table["start_ns"]
    anew = (np.diff(table[f"{name}.begin"]) < 0) | (np.diff(starts) != 0)
    edges = [0, *(np.flatnonzero(anew) + 1).tolist(), rows(table)]
    return [{n: column[a:b] for n, column in table.items()} for a, b in pairwise(edges)]


def added(table: Table, names: Sequence[str]) -> Table:
    """The table with the readings of several counters added up as `added`; none if one is missing."""
    if not names or any(f"{name}.end" not in table for name in names):
        return {}
    both = dict(table)
    for border in ("begin", "end"):
        both[f"added.{border}"] = np.sum([table[f"{name}.{border}"] for name in names], axis=0)
    return both


def coverage_of(table: Table, names: Sequence[str]) -> float | None:
    """Share of the time that the least covered of these counters counted, in windows in which it was read."""
    shares = [table[f"{name}.coverage"] for name in names if f"{name}.coverage" in table]
    return min((float(np.nanmean(share)) for share in shares if not np.isnan(share).all()), default=None)


def read_zero(table: Table, flops: Sequence[str]) -> bool:
    """Whether a rank executed many instructions and these counters of FLOPs always read 0: virtual machines
    may offer such events and not count them."""
    if not flops or f"{INSTRUCTIONS}.end" not in table:
        return False
    executed = np.fmax.reduce(table[f"{INSTRUCTIONS}.end"], initial=0.0)
    return bool(executed >= MANY) and not any(np.nan_to_num(table[f"{name}.end"]).any() for name in flops)
