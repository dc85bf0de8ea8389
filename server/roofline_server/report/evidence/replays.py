"""Steps that Nsight Compute replayed (`run --ncu`): what their kernels did counts, how long it took does not.

A replayed step lasts as long as all the runs of its kernels. So its time, and what counters counted then, is
left out; its kernels' FLOPs and bytes are compared with the mean time of the rank's other steps. In
synchronous training the others wait for the rank that is replayed: the step is left out of all ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...correlate.steps import OWN
from ...model.evidence import RankEvidence
from ...records import Ints, Table, concatenate, rows, take
from ...sentences import notes as texts
from ...sentences.reasons import REPLAYED
from ...store.view import JobView
from ..ranks.members import name_of
from .tables import by_rank, where

FACT = "ncu.steps"
KERNELS = "steps_kernels"

Tables = Mapping[str, Table]


def replayed(view: JobView) -> dict[int, Ints]:
    """rank -> numbers of its steps that ncu replayed, of ranks that have any."""
    found = {number: parsed_steps(facts[FACT]) for number, facts in view.facts.items() if FACT in facts}
    return {number: steps for number, steps in found.items() if len(steps)}


def parsed_steps(text: str) -> Ints:
    """The steps that "5,100-102" names; what is no range is passed over."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ends = [end for end in (first, last or first) if end.isascii() and end.isdigit() and len(end) < 16]
        if len(ends) == 2 and 0 <= int(ends[1]) - int(ends[0]) < 10_000:
            found += range(int(ends[0]), int(ends[1]) + 1)
    return np.unique(np.array(found, np.int64))


def without_replays(view: JobView, mine: Mapping[int, Tables], mode: str) -> dict[int, dict[str, Table]]:
    """mine: rank -> its step tables in the range that was asked for. The same without what replays drew out;
    kernels of replayed steps are kept, whichever steps were asked for, with the mean time of the others."""
    slow = replayed(view)
    found = {number: dict(tables) for number, tables in mine.items()}
    if not slow:
        return found
    everyone = np.unique(np.concatenate(list(slow.values())))
    whole = by_rank({name: view.steps[name] for name in ("steps", KERNELS) if name in view.steps})
    for number in set(found) | set(slow):
        drawn = everyone if mode == "synchronous" else slow.get(number, everyone[:0])
        tables = found.setdefault(number, {})
        kernels = _with_kernels(tables, whole.get(number, {}), slow.get(number, everyone[:0]), drawn)
        for name, table in tables.items():
            slowed = np.isin(table["step"], drawn)
            if not slowed.any():
                continue
            # Counters have no reading in replayed steps; other tables lose these rows.
            borders = [column for column in table if column.endswith((".begin", ".end"))]
            if borders:
                tables[name] = {**table, **{c: np.where(slowed, np.nan, table[c]) for c in borders}}
            else:
                tables[name] = take(table, ~slowed)
        if rows(kernels):
            tables[KERNELS] = kernels
    return found


def _with_kernels(tables: Tables, whole: Tables, own: Ints, drawn: Ints) -> Table:
    """Kernels of the rank's steps that were asked for and of all those that ncu replayed of it."""
    asked = tables.get(KERNELS, {})
    others = take(asked, ~np.isin(asked["step"], drawn)) if rows(asked) else {}
    every = where(whole.get(KERNELS, {}), "window", OWN)
    mine = take(every, np.isin(every["step"], own)) if rows(every) else {}
    if rows(mine):
        mine = {**mine, "begin_ns": mine["end_ns"] - _mean_step_ns(tables, whole, drawn)}
    return concatenate([table for table in (others, mine) if rows(table)])


def _mean_step_ns(tables: Tables, whole: Tables, drawn: Ints) -> int:
    """Mean time of the steps that were asked for and not drawn out, else of all such; 0: there are none."""
    for one in (tables, whole):
        steps = where(one.get("steps", {}), "window", OWN)
        if rows(steps):
            lasted = (steps["end_ns"] - steps["begin_ns"])[~np.isin(steps["step"], drawn)]
            if len(lasted):
                return round(float(lasted.mean()))
    return 0


def marked(view: JobView, evidence: Mapping[int, RankEvidence]) -> dict[int, RankEvidence]:
    """The evidence of `without_replays`, marked where its FLOPs are those of replayed steps."""
    found = dict(evidence)
    for number in replayed(view).keys() & found.keys():
        rank = found[number]
        if rank.kernels is not None:
            rank = rank._replace(kernels=rank.kernels._replace(profiled=True))
        if not len(rank.steps.step):
            rank = rank._replace(reasons={**rank.reasons, "steps": REPLAYED})
        found[number] = rank
    return found


def notes(view: JobView, ranks: Iterable[int]) -> list[str]:
    """Which steps of these ranks were replayed, and what that means for a report."""
    return [texts.ncu_replayed(steps) for steps in replayed_steps(view, ranks)]


def replayed_steps(view: JobView, ranks: Iterable[int]) -> list[str]:
    """ "steps 5,100-102 of worker:0, worker:1", of these ranks."""
    known = replayed(view)
    names: dict[str, list[str]] = {}
    for number in ranks:
        if number in known:
            names.setdefault(view.facts[number][FACT], []).append(name_of(view, number))
    return [texts.replayed(steps, ranks) for steps, ranks in names.items()]
