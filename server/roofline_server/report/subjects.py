"""What is known of the ranks that a question is about."""

from __future__ import annotations

from ..errors import BadRequest
from ..model.evidence import RankEvidence
from ..store.view import JobView
from .build import gather
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
    numbers = chosen(view, subject.ranks)
    everyone, _ = gather(view, subject.steps)
    return {number: everyone[number] for number in numbers}
