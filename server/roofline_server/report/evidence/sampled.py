"""Ranks whose kernels were recorded in a sample of the steps: other steps get the kernels of similar steps.

Everything computed from kernels goes through here, so that every answer fills the same steps in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...correlate.kernels import counted_calls
from ...correlate.sampling import ESTIMATED, LIKE, RECORDED, SampledSteps
from ...correlate.steps import OWN
from ...model.evidence import RankEvidence
from ...model.roofline.compose import sampled
from ...records import ABSENT, Floats, Ints, Table, rows
from ...sentences.breakdowns import kernels_of_sample
from ...store.view import JobView
from ..questions import Steps
from .reasons import SAMPLED
from .steady import kept, traced_steps
from .tables import by_rank, within

ORIGIN = "origin"  # column of a filled table: RECORDED, LIKE, ESTIMATED
KERNELS = "steps_kernels"
# What is no number of kernels: it stays as it is, or is absent where kernels were not recorded.
KEYS = frozenset(("rank", "window", "step", "begin_ns", "end_ns", "complete"))
MOMENTS = ("first_ns", "last_ns")
TIMES = ("kernel_ns",)
WORK = ("flops", "bytes")  # what steps that are alike share
# What is needed of step tables in addition to the kernels.
NEEDED = ("examples", "like")


class Sample(NamedTuple):
    """The recorded steps of a rank that stand for those asked for. stretches: when they were, one after the
    other; weights: for how many steps each stands; steps: how many of those asked for are known by a
    recording, by their like, and by an estimate."""

    stretches: tuple[Ints, Ints]
    weights: Floats
    steps: Sequence[int]


class _Sampled(NamedTuple):
    """steps: which of its steps were recorded and what the others are like, in the order of `table`."""

    table: Table
    steps: SampledSteps


def one_in(view: JobView, number: int) -> int:
    """In how many steps of a rank kernels were recorded once, by what it reported last, "1/64"; 1: in all."""
    first, _, second = view.facts.get(number, {}).get(SAMPLED, "").partition("/")
    return max(1, int(second)) if first == "1" and second.isdecimal() and len(second) < 9 else 1


def are_sampled(view: JobView) -> list[int]:
    """Ranks that recorded kernels in a sample of their steps, or had some steps traced."""
    return [number for number in view.ranks if one_in(view, number) > 1 or len(traced_steps(view, number))]


def notes(evidence: Iterable[RankEvidence]) -> list[str]:
    """How many steps of these ranks were recorded, and how the kernels of the others are known."""
    _, how = sampled([rank.kernels for rank in evidence if rank.kernels is not None])
    return [kernels_of_sample(how)] if how else []


def with_filled(
    view: JobView, mine: Mapping[int, Mapping[str, Table]], steps: Steps
) -> dict[int, dict[str, Table]]:
    """mine: rank -> its step tables of the steps asked for. The same with kernels in all steps of the ranks
    that recorded some: those asked for have those of their like among all steps of the job."""
    found = {number: dict(tables) for number, tables in mine.items()}
    for number, known in _of_ranks(view, mine, steps).items():
        tables = found.get(number, {})
        if rows(tables.get(KERNELS, {})):
            tables[KERNELS] = _asked_for(_filled(known), number, steps)
    return found


def samples_of(view: JobView, mine: Mapping[int, Mapping[str, Table]], steps: Steps) -> dict[int, Sample]:
    """Samples of the ranks that recorded some of their steps; mine: as for `with_filled`."""
    found = {}
    for number, known in _of_ranks(view, mine, steps).items():
        asked = {**known.table, "at": np.arange(rows(known.table))}
        wanted = np.zeros(rows(known.table), bool)
        wanted[_asked_for(asked, number, steps)["at"]] = True
        weight = known.steps.weights(wanted)
        begin, end = (known.table[name].astype(np.int64) for name in ("begin_ns", "end_ns"))
        order = np.argsort(begin, kind="stable")
        order = order[weight[order] > 0]
        begin, end = begin[order], end[order]
        # Neighbours that touch must not become one stretch: each ends a moment before the next begins.
        end[:-1] = np.minimum(end[:-1], begin[1:])
        some = end > begin + 1
        counts = [int((known.steps.origin[wanted] == how).sum()) for how in (RECORDED, LIKE, ESTIMATED)]
        found[number] = Sample((begin[some], end[some] - 1), weight[order][some], counts)
    return found


def _of_ranks(view: JobView, mine: Mapping[int, Mapping[str, Table]], steps: Steps) -> dict[int, _Sampled]:
    """Of the ranks that recorded kernels in some of their own steps, not in all."""
    numbers = are_sampled(view)
    if not numbers:
        return {}
    whole = mine
    if steps.is_bounded or steps.left_out:
        whole = by_rank({name: view.steps[name] for name in ("steps", KERNELS) if name in view.steps})
    found = {}
    for number in numbers:
        tables = whole.get(number, {})
        kernels = tables.get(KERNELS, {})
        if not rows(kernels) or (kernels["window"] != OWN).any():
            continue
        recorded = kernels["complete"] > 0
        traced = np.isin(kernels["step"], traced_steps(view, number))
        asked = within({**kernels, "traced": traced}, steps)
        if not (steps.is_bounded and asked["traced"].all()) and (recorded & ~traced).any():
            # What a profiler calls a kernel is not what a library does, and its time is longer.
            recorded = recorded & ~traced
        if recorded.any() and not recorded.all():
            known = [_aligned(tables["steps"], kernels, name) for name in NEEDED]
            work = [kernels[name] for name in WORK if name in kernels]
            examples, like = known
            found[number] = _Sampled(kernels, SampledSteps(recorded, np.maximum(0, like), examples, work))
    return found


def _asked_for(table: Table, number: int, steps: Steps) -> Table:
    return kept({KERNELS: within(table, steps)}, number, steps)[KERNELS]


def _aligned(steps: Table, kernels: Table, name: str) -> Ints:
    """A column of a rank's steps for each row of its kernels; ABSENT where there is none."""
    if name not in steps:
        return np.full(rows(kernels), ABSENT, np.int64)
    column: Ints = steps[name].astype(np.int64, copy=False)
    if np.array_equal(steps["end_ns"], kernels["end_ns"]):  # nearly always
        return column
    order = np.argsort(steps["end_ns"], kind="stable")
    ends = steps["end_ns"][order]
    at = np.minimum(np.searchsorted(ends, kernels["end_ns"]), len(ends) - 1)
    return np.where(ends[at] == kernels["end_ns"], column[order][at], ABSENT)


def _filled(sampled: _Sampled) -> Table:
    table, steps = dict(sampled.table), sampled.steps
    if "counted_calls" in table:
        table["counted_calls"] = counted_calls(table)
    for name, column in list(table.items()):
        if name in MOMENTS:
            table[name] = np.where(steps.origin == RECORDED, column, ABSENT)
        elif name not in KEYS:
            table[name] = steps.filled(column, mean=name in TIMES)
    table["complete"] = np.ones(rows(table), np.int64)
    table[ORIGIN] = steps.origin
    return table
