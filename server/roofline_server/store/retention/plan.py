"""Decides what is removed: from jobs and their sizes to a list of cuts. No I/O.

The raw data of all jobs are removed before any step deltas, and these before any report; within each kind the
oldest job's go first. A job that may still send data is never cut, nor one with a tag that is to be kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...records import CutLevel

DAY_NS = 86_400_000_000_000
# A job whose processes have all ended is over so long after its last data; one of which that is not known so
# long: its agents may be cut off, with data in their spools.
ENDED_NS, SILENT_NS = 600_000_000_000, DAY_NS
# Step deltas are kept so many times as long as raw data, reports so many times.
TIMES_AS_LONG: Mapping[CutLevel, int] = {CutLevel.RAW: 1, CutLevel.STEPS: 4, CutLevel.REPORT: 16}


class StoredJob(NamedTuple):
    """What is stored of a job. Server times."""

    job: str
    begin_ns: int
    end_ns: int
    bytes: Mapping[CutLevel, int]  # what a cut to each level alone would free
    ended: bool  # all its processes are known to have ended, or its last data are older than SILENT_NS
    unsealed: bool = False  # some of its data are in no segment yet
    tags: Mapping[str, str] = {}

    def is_over(self, now_ns: int) -> bool:
        """Whether nothing more of it is to be expected."""
        return not self.unsealed and now_ns - self.end_ns >= (ENDED_NS if self.ended else SILENT_NS)


class Policy(NamedTuple):
    """What is to be removed. A job is cut by its age, and beyond that where all data take too much room."""

    older_ns: int | None = None  # raw data of jobs that ended longer ago go; step deltas and reports by times
    most_bytes: int | None = None  # of all data together
    deepest: CutLevel = CutLevel.REPORT  # nothing beyond this goes
    tagged: Sequence[str] = ()  # "NAME" or "NAME=VALUE": jobs with such a tag stay whole
    job: str = ""  # this one alone; "": all
    times: Mapping[CutLevel, int] = TIMES_AS_LONG


class Cut(NamedTuple):
    """A job is to be cut to a level; so many bytes become free."""

    job: str
    level: CutLevel
    bytes: int


def plan(jobs: Sequence[StoredJob], policy: Policy, now_ns: int, other_bytes: int = 0) -> list[Cut]:
    """The cuts in the order in which they are to be made, one a job. other_bytes: what is stored besides the
    jobs, and stays."""
    levels: dict[str, CutLevel] = {}
    total = other_bytes + sum(sum(job.bytes.values()) for job in jobs)
    for job, level in _candidates(jobs, policy, now_ns):
        too_much = policy.most_bytes is not None and total > policy.most_bytes
        if too_much or _is_old(job, level, policy, now_ns):
            levels[job.job] = level
            total -= job.bytes.get(level, 0)
    by_name = {job.job: job for job in jobs}
    return [
        Cut(name, level, sum(size for at, size in by_name[name].bytes.items() if at <= level))
        for name, level in levels.items()
    ]


def _candidates(
    jobs: Sequence[StoredJob], policy: Policy, now_ns: int
) -> Iterator[tuple[StoredJob, CutLevel]]:
    """Every cut that may be made, those that cost least first."""
    allowed = [
        job
        for job in jobs
        if job.is_over(now_ns) and not is_tagged(job.tags, policy.tagged) and policy.job in ("", job.job)
    ]
    for level in CutLevel:
        if level <= policy.deepest:
            for job in sorted(allowed, key=lambda job: (job.end_ns, job.job)):
                # A report is made when the step deltas go: it has no size before.
                if job.bytes.get(level) or (level == CutLevel.REPORT and job.bytes):
                    yield job, level


def _is_old(job: StoredJob, level: CutLevel, policy: Policy, now_ns: int) -> bool:
    if policy.older_ns is None:
        return False
    return now_ns - job.end_ns >= policy.older_ns * policy.times[level]


def is_tagged(tags: Mapping[str, str], wanted: Sequence[str]) -> bool:
    """Whether a job has one of these tags: "NAME" with any value, or "NAME=VALUE"."""
    for one in wanted:
        name, equals, value = one.partition("=")
        if name in tags and (not equals or tags[name] == value):
            return True
    return False


class Stretch(NamedTuple):
    """Server time from begin to end, both with it."""

    begin_ns: int
    end_ns: int


def useless(events: Sequence[Stretch], jobs: Iterable[Stretch], before_ns: int, slack_ns: int) -> list[bool]:
    """Of events of nodes, whether they are older than before_ns and no part of the report of any of these
    jobs: those that can still be asked for."""
    merged: list[Stretch] = []
    for job in sorted(jobs):
        begin, end = job.begin_ns - slack_ns, job.end_ns + slack_ns
        if merged and begin <= merged[-1].end_ns:
            merged[-1] = Stretch(merged[-1].begin_ns, max(end, merged[-1].end_ns))
        else:
            merged.append(Stretch(begin, end))
    begins = [one.begin_ns for one in merged]

    def is_useless(one: Stretch) -> bool:
        at = bisect_right(begins, one.end_ns)  # the last that begins before its end
        return one.end_ns < before_ns and (at == 0 or merged[at - 1].end_ns < one.begin_ns)

    return [is_useless(one) for one in events]
