"""What is known of the ranks that a question is about."""

from __future__ import annotations

from ...model.evidence import RankEvidence
from ...store.view import JobView
from ..questions import Subject
from ..ranks.members import chosen
from .gathering import check_seen, gather


def evidence(view: JobView, subject: Subject) -> dict[int, RankEvidence]:
    """Evidence about each rank asked for, in the order of roles. Who waited for whom is seen over all ranks
    of the job.

    Raises BadRequest for a range that cannot be, UnknownRank, UnknownSteps.
    """
    check_seen(view, subject.steps)
    numbers = chosen(view, subject.ranks)
    everyone = gather(view, subject.steps).evidence
    return {number: everyone[number] for number in numbers}
