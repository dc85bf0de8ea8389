"""What is stored of each job, as retention's plan asks for it."""

from __future__ import annotations

from collections.abc import Mapping

from ...records import NODE_JOB, CutLevel
from ..catalog.catalog import Catalog
from ..catalog.tags import Tags
from ..intake.tail import Tail
from ..segments.files import is_derived
from .plan import SILENT_NS, StoredJob

# Raw data that reports read in addition to step deltas, and so go with them; they are small.
KEPT_WITH_STEPS = ("events", "between")


def stored_jobs(catalog: Catalog, tail: Tail, tags: Tags, now_ns: int, only: str = "") -> list[StoredJob]:
    """All jobs of which anything is stored that could be removed; only: this one, if it is one of them.
    now_ns: server time."""
    unsealed = tail.jobs()  # first: what is sealed meanwhile is seen twice, and not never
    sizes: dict[str, dict[CutLevel, int]] = {}
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for one in catalog.extents(only):
        if one.job == NODE_JOB:
            continue
        raw = not is_derived(one.dataset) and one.dataset not in KEPT_WITH_STEPS
        mine = sizes.setdefault(one.job, {})
        level = CutLevel.RAW if raw else CutLevel.STEPS
        mine[level] = mine.get(level, 0) + one.bytes
        begins[one.job] = min(one.begin_ns, begins.get(one.job, one.begin_ns))
        ends[one.job] = max(one.end_ns, ends.get(one.job, one.end_ns))
    removed = catalog.all_removed(only)
    for job, size in catalog.kept_report_bytes(only).items():
        sizes.setdefault(job, {})[CutLevel.REPORT] = size
        if job not in ends:
            begins[job] = ends[job] = removed[job].end_ns if job in removed else 0
    # Of others it says nothing whether they have ended, and of all jobs ever there are many thousands.
    recent = {job for job in sizes if now_ns - ends[job] < SILENT_NS}
    ended = sizes.keys() - recent | _ended(tail, catalog.job_of_ranks(recent))
    return [
        StoredJob(job, begins[job], ends[job], mine, job in ended, job in unsealed, tags.of(job))
        for job, mine in sizes.items()
    ]


def _ended(tail: Tail, job_of: Mapping[int, str]) -> set[str]:
    """Jobs all of whose processes are known to have ended. job_of: by the ids of ranks."""
    lifetimes = tail.lifetimes_of(job_of.keys())
    alive = {job_of[who.rank] for who, life in lifetimes.items() if not life.exited}
    return set(job_of.values()) - alive
