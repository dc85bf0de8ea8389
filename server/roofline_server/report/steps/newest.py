"""The newest steps of a job, by time: numbers come again with each epoch, ranks that step on their own are at
different ones, and an evaluator numbers its own."""

from __future__ import annotations

import numpy as np

from ...correlate.steps import OWN
from ...model.evidence import NS
from ...records import Table, rows, take
from ...store.view import JobView
from ..evidence.tables import picked, where
from ..questions import Steps
from ..ranks.members import RUNNING_NS, roles_aside

NEWEST = 10  # steps of each rank
LEAST_S, MOST_S = 1.0, 120.0  # before the newest step ended


def trained(view: JobView) -> Table:
    """The steps of the ranks that train; where there are none, of who else has steps of its own."""
    own = where(view.steps.get("steps", {}), "window", OWN)
    if not rows(own):
        return own
    aside = roles_aside({key.role for key in view.ranks.values()})
    training = picked(
        own, np.isin(own["rank"], [n for n, key in view.ranks.items() if key.role not in aside])
    )
    return training if rows(training) else own


def newest_steps(view: JobView) -> Steps:
    """The NEWEST steps of each rank that still steps, and what the others did meanwhile; of a job without
    steps all."""
    table = trained(view)
    if not rows(table):
        return Steps()
    table = take(table, np.lexsort((table["end_ns"], table["rank"])))
    last = np.flatnonzero(np.append(np.diff(table["rank"]) != 0, True))
    first = np.maximum(np.append(0, last[:-1] + 1), last + 1 - NEWEST)
    begin, end = table["begin_ns"][first], table["end_ns"][last]
    newest = int(end.max())
    # Who has ended nothing for longer than its newest steps took has left, or hangs; nodes report late, too.
    still = newest - end <= np.maximum(end - begin, RUNNING_NS)
    since = min(int(begin[still].min()), newest - int(LEAST_S * NS))
    return Steps(since_ns=max(since, newest - int(MOST_S * NS)))
