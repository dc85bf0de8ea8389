"""What the work, the traffic and the time of ranks are made of."""

from __future__ import annotations

from ..model.records import Breakdown
from ..store.store import Store
from ..store.view import JobView
from .evidence import NEEDED as OF_REPORT
from .records import Subject

NEEDED = OF_REPORT


def breakdown(store: Store, view: JobView, subject: Subject, by: str) -> Breakdown:
    """The answer to GetBreakdown. Raises BadRequest for a range or `by` that cannot be, UnknownRank."""
    raise NotImplementedError
