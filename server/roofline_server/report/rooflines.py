"""Points against roofs: classic, hierarchical and network rooflines of a job."""

from __future__ import annotations

from ..model.records import Roofline
from ..store.store import Store
from ..store.view import JobView
from .evidence import NEEDED as OF_REPORT
from .records import Subject

NEEDED = OF_REPORT


def roofline(store: Store, view: JobView, subject: Subject, kind: str, points: str) -> Roofline:
    """Raises BadRequest for a kind, points or range that cannot be, UnknownRank."""
    raise NotImplementedError
