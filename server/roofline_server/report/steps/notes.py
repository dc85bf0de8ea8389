"""What to know about a table of steps, in words: which rows are blurred, which ranks have none and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...correlate.steps import SERVING_ROLES, TIME_WINDOW
from ...records import ABSENT, Bools, Incarnation, Table
from ...store.view import JobView
from ..evidence.collectives import FAMILIES, names_of
from ..evidence.replays import replayed_steps
from ..questions import Steps

HOOK = "hook."
ADVICE = "mark steps with roofline_step.step(k) or give `roofline-agent run --step-regex`"


def write_notes(
    view: JobView, numbers: Sequence[int], tables: Sequence[tuple[int, Table]], steps: Steps, mode: str
) -> list[str]:
    """numbers: the ranks asked for; tables: of those that have steps, as `steps.rank_tables` gives them."""
    stepping = {number for number, table in tables if not _by_time(table)}
    notes = _short_steps(view, tables) + _served(view, tables, mode) + _some_told(view, tables)
    notes += [f"ncu replayed {said}: its time means nothing" for said in replayed_steps(view, numbers)]
    lacking = [number for number in numbers if number not in stepping]
    if steps.first is None and steps.last is None:
        return notes + _stepless(view, lacking) + _windows(view, tables)
    return notes + _outside(view, lacking, steps)


def _by_time(table: Table) -> bool:
    return bool((table["window"] == TIME_WINDOW).any())


def _windows(view: JobView, tables: Sequence[tuple[int, Table]]) -> list[str]:
    some = [(number, table) for number, table in tables if _by_time(table)]
    if not some:
        return []
    length = max(int((table["end_ns"] - table["begin_ns"]).max()) for _, table in some)
    who = ", ".join(_name(view, number) for number, _ in some)
    return [f"rows of {who} are no steps but windows of {length / 1e9:g} s at most (column window_of: time)"]


def _short_steps(view: JobView, tables: Sequence[tuple[int, Table]]) -> list[str]:
    short = total = 0
    intervals = set()
    for number, table in tables:
        interval = _interval_ns(view, number)
        if interval and "samples" in table:
            brief = int(np.count_nonzero(table["end_ns"] - table["begin_ns"] < interval))
            short, total = short + brief, total + len(table["step"])
            intervals |= {interval} if brief else set()
    if not short:
        return []
    share = "all" if short == total else f"{short / total:.0%}"
    each = " and ".join(f"{interval / 1e6:g} ms" for interval in sorted(intervals))
    return [
        f"{share} of the steps are shorter than the sampling interval ({each}): "
        "their counters are averages over the samples around them (column samples: how many lie inside)"
    ]


def _interval_ns(view: JobView, number: int) -> int:
    nodes = {who.node for who in view.process_lifetimes if who.rank == number}
    return max((view.machines[node].interval_ns for node in nodes), default=0)


def _served(view: JobView, tables: Sequence[tuple[int, Table]], mode: str) -> list[str]:
    serving = [_name(view, number) for number, table in tables if (table["window"] >= 0).any()]
    if not serving:
        return []
    who = ", ".join(serving)
    if mode == "synchronous":
        union = "a row lasts from the first worker's begin of a step to the last one's end"
        return [f"no steps of their own, {who}: {union}"]
    overlap = "a row is one worker's step (column window_of), and these overlap"
    return [f"no steps of their own, {who}: {overlap}"]


def _some_told(view: JobView, tables: Sequence[tuple[int, Table]]) -> list[str]:
    lacking = {n: max(int(_unknown(table, f).sum()) for f in FAMILIES) for n, table in tables}
    some = [(number, table) for number, table in tables if lacking[number]]
    if not some:
        return []
    total = sum(len(table["step"]) for _, table in some)
    told = total - sum(lacking.values())
    who = ", ".join(_name(view, number) for number, _ in some[:8]) + (", ..." if len(some) > 8 else "")
    blocked = "of the others the framework tells only how long the rank was blocked"
    return [f"collectives of {who}: known in {told} of {total} steps; {blocked}"]


def _unknown(table: Table, family: str) -> Bools:
    """Steps whose collectives are absent though the rank has some elsewhere."""
    counts = [table[f"{name}.count"] for name in names_of(table, family)]
    some = [count for count in counts if (count != ABSENT).any()]
    return np.all([count == ABSENT for count in some], axis=0) if some else np.zeros(len(table["step"]), bool)


def _outside(view: JobView, lacking: Sequence[int], steps: Steps) -> list[str]:
    if not lacking:
        return []
    every = view.steps.get("steps", {}).get("step", np.zeros(0, np.int64))
    has = f"the job has steps {every.min()} to {every.max()}" if len(every) else "the job has no steps"
    who = ", ".join(_name(view, number) for number in lacking)
    first = "the first" if steps.first is None else steps.first
    last = "the last" if steps.last is None else steps.last
    return [f"{who}: no step from {first} to {last}; {has}"]


def _stepless(view: JobView, lacking: Sequence[int]) -> list[str]:
    """One note per reason."""
    reasons: dict[str, list[str]] = {}
    for number in lacking:
        reasons.setdefault(_why(view, number), []).append(_name(view, number))
    return [f"no steps of {', '.join(who)}: {why}" for why, who in reasons.items()]


def _why(view: JobView, number: int) -> str:
    if view.ranks[number].role in SERVING_ROLES:
        return "it has none of its own, and no worker's steps are known"
    hooks = {n.removeprefix(HOOK): v for n, v in view.facts.get(number, {}).items() if n.startswith(HOOK)}
    failed = [f"hook {name} {value}" for name, value in hooks.items() if value.startswith("failed")]
    if failed:
        return f"{'; '.join(failed)}; {ADVICE}"
    if hooks:
        names = ", ".join(hooks)
        several = "hooks" if len(hooks) > 1 else "hook"
        were = "were" if len(hooks) > 1 else "was"
        return f"{several} {names} {were} installed but no step happened that they see; {ADVICE}"
    if not _lives(view, number):
        return "only its coordinator spoke of it, and of no step"
    return f"nobody marked any; start it with `roofline-agent run`, or {ADVICE}"


def _lives(view: JobView, number: int) -> list[Incarnation]:
    return [who for who in view.process_lifetimes if who.rank == number]


def _name(view: JobView, number: int) -> str:
    key = view.ranks[number]
    return f"{key.role}:{key.index}"
