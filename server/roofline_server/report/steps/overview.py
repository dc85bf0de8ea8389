"""How long steps took and which ranks were late, in as few numbers as pictures need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from roofline.answers.step_overview import LatenessRow, RecentSteps, StepLine, StepOverview

from ...correlate.spans import COMMUNICATE
from ...correlate.steps import OWN
from ...errors import BadRequest
from ...model import stretches as model
from ...model.evidence import NS
from ...model.stretches import Extremes, StepTimes, Stretches
from ...records import ABSENT, Floats, Ints, Table, rows
from ...store.view import JobView
from ..evidence.mode import mode_of
from ..evidence.ranks import NEEDED as OF_REPORT
from ..evidence.steady import are_left_out, steady_of
from ..evidence.tables import by_rank, where, within
from ..questions import Steps
from ..ranks.members import in_order, is_running, name_of, roles_aside
from .newest import trained

BLOCKED = f"{COMMUNICATE}.ns"  # column: how long a rank was blocked by others in a step
NEEDED: Mapping[str, Sequence[str] | None] = {"steps": OF_REPORT["steps"], "steps_spans": [BLOCKED]}
STRETCHES, MOST_STRETCHES = 400, 2000
MOST_LINES, MOST_ROWS = 12, 64  # ranks that are shown one by one
AGO_S, RECENT_S = (0.0, 10.0, 60.0, 600.0), 10.0


def step_overview(
    view: JobView,
    steps: Steps,
    now_ns: int,
    most: int = 0,
    first_rank: int | None = None,
    last_rank: int | None = None,
) -> StepOverview:
    """most: stretches; 0: STRETCHES. first_rank, last_rank: of the ranks in order, both ends inclusive.
    Raises BadRequest for ranks that cannot be."""
    own, training = where(view.steps.get("steps", {}), "window", OWN), trained(view)
    recent = list(_recent(training)) if rows(training) else []
    found, left = _times(view, within(own, steps))
    aside = roles_aside({key.role for key in view.ranks.values()})  # of which nobody is late
    numbers = [number for number in in_order(view, found) if view.ranks[number].role not in aside]
    which = _chosen(len(numbers), first_rank, last_rank)
    times = _together([found[number] for number in numbers])
    cut = model.stretches(times.step, min(most or STRETCHES, MOST_STRETCHES))
    shown = numbers[which.start : which.stop]
    roles = [view.ranks[number].role for number in shown]
    lines = _groups(roles, 1 if len(shown) <= MOST_LINES else len(shown))
    groups = _groups(roles, -(-len(shown) // MOST_ROWS))
    extremes, late, mean = model.look(times, cut, len(numbers), which, lines, groups)
    names = [name_of(view, number) for number in shown]
    return StepOverview(
        job=view.job,
        mode=mode_of(view),
        ranks=len(numbers),
        firsts=cut.first.tolist(),
        lasts=cut.last.tolist(),
        left_out=_left_out(view, cut, [left[number] for number in numbers]),
        lines=list(_lines(extremes, lines, names, roles)),
        lateness=list(_rows(late, mean, groups, names, roles, which.start)),
        recent=recent,
        running=is_running(view, now_ns),
        notes=[],
        newest_ns=int(training["end_ns"].max()) if rows(training) else 0,
    )


def _chosen(count: int, first: int | None, last: int | None) -> slice:
    begin, end = first or 0, count if last is None else min(last + 1, count)
    if begin >= max(end, 1):
        until = "the last" if last is None else last
        raise BadRequest(f"ranks {begin} to {until}: the job has {count} that step, counted from 0")
    return slice(begin, end)


def _times(view: JobView, own: Table) -> tuple[dict[int, StepTimes], dict[int, Ints]]:
    """Rank -> its steps, each once: the newest attempt; and the numbers of those that are left out."""
    every = view.steps.get("steps_spans", {})
    spans, is_seen = by_rank({"spans": every}), BLOCKED in every and bool((every[BLOCKED] != ABSENT).any())
    if rows(own):
        own = {**own, "left_out": are_left_out(own, steady_of(view)[1])}
    found, left = {}, {}
    for number, tables in by_rank({"steps": own}).items():
        table = tables["steps"]
        held = _held(table, spans.get(number, {}).get("spans", {})) if is_seen else np.zeros(rows(table))
        order = np.lexsort((table["end_ns"], table["step"]))
        step = table["step"][order].astype(np.int64)
        newest = order[np.append(step[1:] != step[:-1], True)] if len(step) else order
        duration = ((table["end_ns"] - table["begin_ns"]) / NS)[newest]
        mine = table["step"][newest].astype(np.int64)
        found[number] = StepTimes(mine, np.zeros(len(mine), np.int64), duration, duration - held[newest])
        left[number] = mine[table["left_out"][newest]]
    return found, left


def _held(table: Table, spans: Table) -> Floats:
    """How long the rank was blocked by others in each step, s; NaN where that is not known."""
    held: Floats = np.full(rows(table), np.nan)
    if not rows(spans):
        return held
    order = np.argsort(spans["end_ns"], kind="stable")
    at = order[np.minimum(np.searchsorted(spans["end_ns"][order], table["end_ns"]), len(order) - 1)]
    known = (spans["end_ns"][at] == table["end_ns"]) & (spans[BLOCKED][at] != ABSENT)
    held[known] = spans[BLOCKED][at][known] / NS
    return held


def _together(found: Sequence[StepTimes]) -> StepTimes:
    """In order of steps; rank: the place in the list."""
    if not found:
        none: Ints = np.zeros(0, np.int64)
        return StepTimes(none, none, np.zeros(0), np.zeros(0))
    rank = np.repeat(np.arange(len(found)), [len(one.step) for one in found])
    step, _, duration, own = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.argsort(step, kind="stable")
    return StepTimes(step[order], rank[order], duration[order], own[order])


def _groups(roles: Sequence[str], size: int) -> list[int]:
    """The first of each group of at most so many neighbours of one role."""
    groups: list[int] = []
    for at, role in enumerate(roles):
        if not groups or role != roles[groups[-1]] or at - groups[-1] >= size:
            groups.append(at)
    return groups


def _left_out(view: JobView, cut: Stretches, left: Sequence[Ints]) -> list[bool]:
    """Of synchronous training a step is left out that one rank leaves out, else one that half of them do.
    left: of each rank the numbers of such steps."""
    if not left or not len(cut.first):
        return [False] * len(cut.first)
    step, ranks = np.unique(np.concatenate(left), return_counts=True)
    out = step[ranks >= (1 if mode_of(view) == "synchronous" else len(left) / 2)]
    share = np.add.reduceat(np.isin(cut.numbers, out), cut.begin, dtype=np.float64)
    steps = np.diff(np.append(cut.begin, len(cut.numbers)))
    most: list[bool] = (share > steps / 2).tolist()
    return most


def _lines(
    found: Extremes, firsts: Sequence[int], names: Sequence[str], roles: Sequence[str]
) -> Iterator[StepLine]:
    for column, (first, last) in enumerate(_ends(firsts, len(names))):
        name = names[first] if last == first else roles[first]
        numbers = (table[:, column].tolist() for table in found)
        yield StepLine(name, roles[first], last - first + 1, *numbers)


def _rows(
    late: Floats, mean: Floats, firsts: Sequence[int], names: Sequence[str], roles: Sequence[str], before: int
) -> Iterator[LatenessRow]:
    for column, (first, last) in enumerate(_ends(firsts, len(names))):
        name = names[first] if last == first else f"{names[first]} to {names[last]}"
        each = mean[first : last + 1]
        known = each[~np.isnan(each)]
        latest = names[first + int(np.nanargmax(each))] if len(known) else ""
        whole = float(known.mean()) if len(known) else float("nan")
        place = (before + first, before + last)
        yield LatenessRow(name, roles[first], *place, whole, latest, late[:, column].tolist())


def _ends(firsts: Sequence[int], count: int) -> Iterator[tuple[int, int]]:
    """First and last of each group."""
    return zip(firsts, [first - 1 for first in (*firsts[1:], count)], strict=False)


def _recent(training: Table) -> Iterator[RecentSteps]:
    begins, newest = training["begin_ns"], int(training["begin_ns"].max())
    for ago in AGO_S:
        until = newest - int(ago * NS)
        found = training["step"][(begins <= until) & (begins > until - int(RECENT_S * NS))]
        if len(found):
            yield RecentSteps(ago, int(found.min()), int(found.max()))
