"""What to know about a table of steps: which rows are blurred, which ranks have none and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...correlate.steps import SERVING_ROLES, TIME_WINDOW
from ...records import ABSENT, Bools, Table
from ...sentences import steps as texts
from ...store.view import JobView
from ..evidence.collectives import FAMILIES, names_of
from ..evidence.reasons import HOOK
from ..evidence.replays import replayed_steps
from ..questions import Steps
from ..ranks.members import name_of


def write_notes(
    view: JobView, numbers: Sequence[int], tables: Sequence[tuple[int, Table]], steps: Steps, mode: str
) -> list[str]:
    """numbers: the ranks asked for; tables: of those that have steps, as `steps.rank_tables` gives them."""
    notes = _short_steps(view, tables)
    serving = [name_of(view, number) for number, table in tables if (table["window"] >= 0).any()]
    if serving and mode == "synchronous":
        notes.append(texts.united_steps(serving))
    elif serving:
        notes.append(texts.overlapping_steps(serving))
    notes += _unknown_collectives(view, tables)
    notes += [texts.replayed(replayed) for replayed in replayed_steps(view, numbers)]

    by_time = [(number, table) for number, table in tables if (table["window"] == TIME_WINDOW).any()]
    stepping = {number for number, _ in tables} - {number for number, _ in by_time}
    lacking = [number for number in numbers if number not in stepping]
    if steps.first is not None or steps.last is not None:
        return notes + _none_in_range(view, lacking, steps)
    reasons: dict[str, list[str]] = {}
    for number in lacking:
        reasons.setdefault(_why_none(view, number), []).append(name_of(view, number))
    notes += [texts.no_steps_of(ranks, why) for why, ranks in reasons.items()]
    if by_time:
        longest = max(int((table["end_ns"] - table["begin_ns"]).max()) for _, table in by_time)
        ranks = [name_of(view, number) for number, _ in by_time]
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
    ranks, steps, unknown = [], 0, 0
    for number, table in tables:
        lacking = max(int(_unknown(table, family).sum()) for family in FAMILIES)
        if lacking:
            ranks.append(name_of(view, number))
            steps += len(table["step"])
            unknown += lacking
    return [texts.collectives_of_some(ranks, steps - unknown, steps)] if ranks else []


def _unknown(table: Table, family: str) -> Bools:
    """Steps whose collectives are absent though the rank has some elsewhere."""
    counts = [table[f"{name}.count"] for name in names_of(table, family)]
    some = [count for count in counts if (count != ABSENT).any()]
    return np.all([count == ABSENT for count in some], axis=0) if some else np.zeros(len(table["step"]), bool)


def _none_in_range(view: JobView, lacking: Sequence[int], steps: Steps) -> list[str]:
    if not lacking:
        return []
    every = view.steps.get("steps", {}).get("step", np.zeros(0, np.int64))
    known = (int(every.min()), int(every.max())) if len(every) else None
    ranks = [name_of(view, number) for number in lacking]
    return [texts.none_in_range(ranks, steps.first, steps.last, known)]


def _why_none(view: JobView, number: int) -> str:
    if view.ranks[number].role in SERVING_ROLES:
        return texts.NOTHING_SERVED
    facts = view.facts.get(number, {})
    hooks = {name.removeprefix(HOOK): state for name, state in facts.items() if name.startswith(HOOK)}
    failed = [(name, state) for name, state in hooks.items() if state.startswith("failed")]
    if failed:
        return texts.failed_hooks(failed)
    if hooks:
        return texts.idle_hooks(list(hooks))
    if not any(who.rank == number for who in view.process_lifetimes):
        return texts.NO_AGENT
    return texts.NOT_MARKED
