"""What is known of the ranks that a question is about."""

from __future__ import annotations

from ..errors import BadRequest
from ..model.evidence import RankEvidence
from ..store.view import JobView
from .barriers import with_waits
from .build import mode_of
from .evidence import by_rank, evidence_of, unite, within
from .records import Steps, Subject
from .steps import chosen


def check(steps: Steps) -> None:
    """Raises BadRequest where the range of steps cannot be."""
    if steps.first is not None and steps.last is not None and steps.first > steps.last:
        raise BadRequest(f"steps {steps.first} to {steps.last}: the first comes after the last")


def evidence(view: JobView, subject: Subject) -> dict[int, RankEvidence]:
    """Of each rank asked for, in the order of roles. Who waited for whom is seen over all ranks of the job.

    Raises BadRequest for a range that cannot be, UnknownRank.
    """
    check(subject.steps)
    numbers = chosen(view, subject.ranks)
    tables = {name: within(table, subject.steps) for name, table in view.steps.items()}
    mode = mode_of(view)
    if mode == "synchronous":
        tables = {name: unite(table) for name, table in tables.items()}
    mine, lifetimes = by_rank(tables), by_rank(view.lifetimes)
    everyone = {n: evidence_of(view, n, mine.get(n, {}), lifetimes.get(n, {})) for n in view.ranks}
    waited = with_waits(everyone, mode)
    return {number: waited[number] for number in numbers}
