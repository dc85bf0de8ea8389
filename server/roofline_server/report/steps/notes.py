"""What to know about a table of steps: which rows are blurred, which ranks have none and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...correlate.steps import TIME_WINDOW
from ...records import ABSENT, Table
from ...sentences import steps as texts
from ...sentences.notes import damaged
from ...store.view import JobView
from ..evidence.collectives import FAMILIES, names_of
from ..evidence.no_steps import why_none
from ..evidence.replays import replayed_steps
from ..questions import Steps
from ..ranks.members import name_of


def write_notes(
    view: JobView, numbers: Sequence[int], tables: Sequence[tuple[int, Table]], steps: Steps, mode: str
) -> list[str]:
    """numbers: the ranks asked for; tables: of those that have steps, as `steps.rank_tables` gives them."""
    # In the order in which a reader needs them: rows that are missing or blurred, then ranks without rows.
    notes = [damaged(view.damaged)] if view.damaged else []
    notes += _short_steps(view, tables)
    serving = [name_of(view, number) for number, table in tables if (table["window"] >= 0).any()]
    if serving and mode == "synchronous":
        notes.append(texts.united_steps(serving))
    elif serving:
        notes.append(texts.overlapping_steps(serving))
    notes += _unknown_collectives(view, tables)
    notes += [texts.replayed(replayed) for replayed in replayed_steps(view, numbers)]

    by_time = {number: table for number, table in tables if (table["window"] == TIME_WINDOW).any()}
    stepping = {number for number, _ in tables} - by_time.keys()
    stepless = [number for number in numbers if number not in stepping]
    if not steps.is_bounded:
        return notes + _without_steps(view, stepless, by_time)
    if stepless:
        every = view.steps.get("steps", {}).get("step", np.zeros(0, np.int64))
        known = (int(every.min()), int(every.max())) if len(every) else None
        ranks = [name_of(view, number) for number in stepless]
        notes.append(texts.none_in_range(ranks, steps.first, steps.last, known))
    return notes


def _without_steps(view: JobView, stepless: Sequence[int], by_time: Mapping[int, Table]) -> list[str]:
    """Why ranks have no step at all, and of which there are windows of time (by_time) instead."""
    reasons: dict[str, list[str]] = {}
    for number in stepless:
        reasons.setdefault(why_none(view, number), []).append(name_of(view, number))
    notes = [texts.no_steps_of(ranks, why) for why, ranks in reasons.items()]
    if by_time:
        longest = max(int((table["end_ns"] - table["begin_ns"]).max()) for table in by_time.values())
        ranks = [name_of(view, number) for number in by_time]
        notes.append(texts.windows_of_time(ranks, longest / 1e9))
    return notes


def _short_steps(view: JobView, tables: Sequence[tuple[int, Table]]) -> list[str]:
    short = steps = 0
    intervals = set()
    for number, table in tables:
        nodes = {who.node for who in view.process_lifetimes if who.rank == number}
        interval = max((view.machines[node].interval_ns for node in nodes), default=0)
        if not interval or "samples" not in table:
            continue
        brief = int(np.count_nonzero(table["end_ns"] - table["begin_ns"] < interval))
        steps += len(table["step"])
        short += brief
        if brief:
            intervals.add(interval)
    return [texts.shorter_than_sampling(short, steps, sorted(intervals))] if short else []


def _unknown_collectives(view: JobView, tables: Sequence[tuple[int, Table]]) -> list[str]:
    """Steps in which collectives are absent though the rank has some elsewhere."""
    ranks, steps, unknown = [], 0, 0
    for number, table in tables:
        most = 0
        for family in FAMILIES:
            counts = [table[f"{name}.count"] for name in names_of(table, family)]
            absent = [count == ABSENT for count in counts if (count != ABSENT).any()]
            if absent:
                most = max(most, int(np.all(absent, axis=0).sum()))
        if most:
            ranks.append(name_of(view, number))
            steps += len(table["step"])
            unknown += most
    return [texts.collectives_of_some(ranks, steps - unknown, steps)] if ranks else []
