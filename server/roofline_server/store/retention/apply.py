"""Removes what a plan says. It can be killed at any point, and nothing that is being read is removed.

Steps that exist only as raw data are turned into step deltas first. A removal is one transaction of the
catalog, which remembers the files that are to go: they are deleted when its copy knows of the removal and the
last earlier reader has gone, or at the next start.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from pathlib import Path

from roofline.limits import MAX_TIME_NS
from sqlalchemy.exc import SQLAlchemyError

from ...errors import BadRequest, unknown_job
from ...records import NODE_JOB, CutLevel, Removed, Table
from ..catalog.catalog import Catalog, Progress
from ..catalog.clocks import ClockRegistry
from ..catalog.removals import Removal
from ..catalog.tags import Tags
from ..catalog.versions import COPY
from ..intake.tail import Tail
from ..segments.backup_links import remove_abandoned
from ..segments.files import CLOCK_REVISION_NS, STEPS, Piece, Segment, StoreIdentity, path_of, write
from ..segments.leases import Lease, Leases
from ..steps.deltas import Deltas
from ..steps.sealed import NewData, NewSteps, SealedSteps
from .plan import DAY_NS, Cut, Policy, StoredJob, Stretch, plan, useless
from .stored import KEPT_WITH_STEPS, stored_jobs

log = logging.getLogger(__name__)

WAIT = "ages wait"  # name of a state of the catalog

# The report of a job as it is to be kept, encoded; b"": there is nothing to say.
MakeReport = Callable[[str], bytes]


class Retention:
    """What is removed from one data directory. One thread at a time applies."""

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        tail: Tail,
        clocks: ClockRegistry,
        deltas: Deltas,
        steps: SealedSteps,
        leases: Leases,
        tags: Tags,
        sealing: threading.Lock,
        now_ns: Callable[[], int],
        run_called: Callable[[str], str | None],
        keep_copy: Callable[[], bool],
        identity: StoreIdentity,
    ) -> None:
        """sealing: held while segments change. run_called: see `Store.run_called`. keep_copy: called when the
        catalog has changed and before files go, so that its copy knows of none that are not there; False: it
        failed, and they stay."""
        self._root, self._catalog, self._tail, self._clocks = root, catalog, tail, clocks
        self._deltas, self._steps, self._leases, self._tags = deltas, steps, leases, tags
        self._failed: set[Cut] = set()
        self._applying, self._closed = threading.Lock(), False
        self._sealing, self._now_ns, self._run_called = sealing, now_ns, run_called
        self._keep_copy, self._identity = keep_copy, identity
        self._held: Lease | None = None  # of files that the copy of the catalog still knows

    def plan(self, policy: Policy) -> list[Cut]:
        """What `apply` would do now. Raises UnknownJob, and BadRequest for a job that is not over."""
        return self._plan(policy, self._stored())

    def _stored(self, job: str = "") -> list[StoredJob]:
        return stored_jobs(self._catalog, self._tail, self._tags, self._now_ns(), job)

    def _plan(self, policy: Policy, jobs: Sequence[StoredJob]) -> list[Cut]:
        now_ns = self._now_ns()
        if policy.job:
            run = self._run_called(policy.job)
            if run is None:
                newest_first = sorted(jobs, key=lambda job: job.begin_ns, reverse=True)
                raise unknown_job(policy.job, [job.job for job in newest_first])
            if not all(job.is_over(now_ns) for job in jobs if job.job == run):
                raise BadRequest(
                    f"job {policy.job} may still send data, so nothing was removed: try again 10 minutes "
                    "after its last process has ended, or a day after its last data"
                )
            policy = policy._replace(job=run)
        return plan(jobs, policy, now_ns, self._bytes_of_needed_events(jobs) if self._is_over(policy) else 0)

    def _is_over(self, policy: Policy) -> bool:
        return policy.most_bytes is not None and self._catalog.stored_bytes() > policy.most_bytes

    def apply(self, policy: Policy, make_report: MakeReport) -> list[Cut]:
        """Cut what is to be cut; some files may stay until their readers are done. A job that cannot be cut
        is logged and stays as it is."""
        fits = policy.older_ns is None and not self._is_over(policy)
        if fits and self._held is None:
            return []  # as on most servers most of the time
        with self._applying:
            return self._apply(policy, make_report)

    def newest_ns(self) -> int | None:
        """End of the newest data that are sealed, server time; None: there are none."""
        return self._catalog.newest_ns()

    def noted_wait(self) -> int:
        """See `note_wait`; 0: nothing was noted."""
        return int(self._catalog.state(WAIT) or 0)

    def note_wait(self, until_ns: int) -> None:
        """Keep until when nothing is to be removed because of its age, server time."""
        if until_ns != self.noted_wait():
            self._catalog.put_state(WAIT, str(until_ns))

    def close(self) -> None:
        """Wait until the job that is being cut is done, and cut no other."""
        self._closed = True
        with self._applying:
            pass

    def _apply(self, policy: Policy, make_report: MakeReport) -> list[Cut]:
        stored = {job.job: job for job in self._stored()}
        plan = self._plan(policy, list(stored.values()))
        is_over, failed_before = self._is_over(policy), self._held is not None
        self._held = self._held or self._leases.take()
        if plan:
            remove_abandoned(self._root)  # else what is removed would stay on the disk
        cuts = self._cut_all(plan, stored, make_report)
        if self._closed:
            return cuts
        events = 0 if policy.job else self._cut_node_events(is_over)
        if not (cuts or events or failed_before) or self._keep_copy():
            self._held = None
        self._delete_free()
        return cuts

    def _cut_all(
        self, plan: Sequence[Cut], stored: Mapping[str, StoredJob], make_report: MakeReport
    ) -> list[Cut]:
        cuts: list[Cut] = []
        for cut in plan:
            if self._closed:
                break
            try:
                if not self._cut(cut, stored[cut.job], make_report):
                    log.warning("job %s: it has changed since it was to be cut; it stays for now", cut.job)
                    continue
            except Exception:
                if cut not in self._failed:  # once, though it is tried again
                    log.exception("job %s: its data cannot be removed; they stay", cut.job)
                self._failed.add(cut)
                continue
            log.info("job %s: %s removed (%.1f MB)", cut.job, WORDS[cut.level], cut.bytes / 1e6)
            cuts.append(cut)
        return cuts

    # -- one job -----------------------------------------------------------------------------------

    def _cut(self, cut: Cut, planned: StoredJob, make_report: MakeReport) -> bool:
        """Whether the job was cut: it stays if it is not as it was planned to be cut."""
        before = self._catalog.removed(cut.job)
        level, report = cut.level, None
        known = before is not None and before.level >= CutLevel.STEPS
        if level >= CutLevel.STEPS or not self._has_steps(cut.job):
            level = max(level, CutLevel.STEPS)  # without step deltas nothing could be computed of the rest
            # Whatever is asked of the job from now on is answered by this.
            if level == CutLevel.REPORT:
                report = b""
            elif not known:
                report = _made(make_report, cut.job)
        with self._sealing:
            # What has come since is not in the report, or says that the job goes on.
            if self._stored(cut.job) != [planned]:
                return False
            new = self._finished_steps(cut.job) if level == CutLevel.RAW else None
            gone = [s for s in self._catalog.segments(cut.job) if level >= CutLevel.STEPS or is_raw(s)]
            rows, size = sum(s.rows for s in gone if not s.is_derived), sum(s.bytes for s in gone)
            end_ns = max((s.end_ns for s in gone), default=0)
            removed = Removed(level, self._now_ns(), end_ns, rows, size)
            paths = [s.path for s in gone] + (new.replaced if new else [])
            made, progress = (new.segments, new.progress) if new else ([], None)
            self._remove(Removal(cut.job, removed, paths, made, report), progress)
        return True

    def _remove(self, removal: Removal, progress: Progress | None = None) -> None:
        with self._tail.lock:  # so that a view sees segments and progress of one moment
            self._catalog.remove(removal, progress)
        self._leases.replaced(removal.gone)

    def _has_steps(self, job: str) -> bool:
        segments = self._catalog.segments(job)
        return any(s.dataset == "marks" or s.dataset.startswith(STEPS) for s in segments)

    def _finished_steps(self, job: str) -> NewSteps:
        """Step deltas of all windows that are not stored yet, written."""
        segments = self._catalog.segments(job)
        lifetimes = self._deltas.lifetimes_of(job, self._tail.now().process_lifetimes)
        clocks = self._clocks.of_job(job, lifetimes)
        number = self._catalog.sealed_through()

        def put(dataset: str, table: Table) -> Segment:
            # A name that no sealing gives; known as unwanted until the catalog knows the file.
            self._catalog.add_unwanted([str(path_of(job, dataset, number, number))])
            begin = table["time_ns"] if "time_ns" in table else table["begin_ns"]
            piece = Piece(table, int(begin.min()), int(table.get("end_ns", begin).max()))
            return write(self._root, job, dataset, number, [piece], number, self._identity)

        through = max(s.end_ns for s in segments) + CLOCK_REVISION_NS
        made = self._steps.make(NewData(job, [], {}, clocks, {}, {}), put, through)
        if made.settled is not None:
            self._clocks.settle(job, made.settled)
        # What comes late is read whole: of the time before there are no raw data to be left out.
        return made._replace(progress=made.progress._replace(resume_ns=1))

    # -- events of nodes ---------------------------------------------------------------------------

    def _bytes_of_needed_events(self, jobs: Sequence[StoredJob]) -> int:
        gone = sum(s.bytes for s in self._useless_events(jobs))
        return sum(s.bytes for s in self._catalog.segments(NODE_JOB)) - gone

    def _useless_events(self, jobs: Sequence[StoredJob]) -> list[Segment]:
        """Events of nodes that no report can ask for any more."""
        removed = self._catalog.all_removed()
        before = self._now_ns() - DAY_NS  # younger ones may be of jobs that have not reported yet
        whole = [
            Stretch(job.begin_ns, MAX_TIME_NS if job.unsealed else job.end_ns)
            for job in jobs
            if job.job not in removed or removed[job.job].level < CutLevel.STEPS
        ]
        segments = self._catalog.segments(NODE_JOB)
        stretches = [Stretch(s.begin_ns, s.end_ns) for s in segments]
        return list(compress(segments, useless(stretches, whole, before, CLOCK_REVISION_NS)))

    def _cut_node_events(self, is_over: bool) -> int:
        """Remove those; returns how many bytes. is_over: all data take too much room, so that they go also if
        no job was cut yet."""
        if not is_over and not self._catalog.all_removed():
            return 0
        with self._sealing:
            gone = self._useless_events(self._stored())
            if gone:
                size, paths = sum(s.bytes for s in gone), [s.path for s in gone]
                end_ns, rows = max(s.end_ns for s in gone), sum(s.rows for s in gone)
                noted = Removed(CutLevel.RAW, self._now_ns(), end_ns, rows, size)
                self._remove(Removal(NODE_JOB, noted, paths))
        return sum(s.bytes for s in gone)

    # -- files -------------------------------------------------------------------------------------

    def _delete_free(self) -> None:
        with self._sealing:
            self._leases.remove()
        gone = [path for path in self._catalog.unwanted() if not (self._root / path).exists()]
        self._catalog.forget_unwanted(gone)


WORDS = {
    CutLevel.RAW: "raw data",
    CutLevel.STEPS: "raw data and step deltas",
    CutLevel.REPORT: "raw data, step deltas and the report",
}


def _made(make_report: MakeReport, job: str) -> bytes:
    try:
        return make_report(job)
    except Exception:
        # Else a job that cannot be understood would stay forever, and fill the disk in the end.
        log.exception("job %s: no report can be made of it, and none is kept", job)
        return b""


def is_raw(segment: Segment) -> bool:
    """Whether it goes first: events, and spans between steps, are small and part of every report."""
    return not segment.is_derived and segment.dataset not in KEPT_WITH_STEPS


def finish(root: Path, catalog: Catalog) -> int:
    """Delete what a removal left that was cut short; returns how many files. Raises OSError. Before anything
    else looks at the files of a directory."""
    unwanted, known = catalog.unwanted(), catalog.paths()
    count = 0
    if unwanted:
        try:
            catalog.copy(root / COPY)  # if the catalog is lost, its copy must not know files that are gone
        except (OSError, SQLAlchemyError) as error:
            log.warning("cannot copy the catalog (%s)", error)
    for path in unwanted:
        if path not in known and (root / path).exists():
            (root / path).unlink()
            count += 1
    catalog.forget_unwanted(unwanted)
    for folder in _folders(root, unwanted):
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
    return count


def _folders(root: Path, paths: Sequence[str]) -> list[Path]:
    """The folders of these files, and those of their jobs, the inner ones first."""
    inner = {(root / path).parent for path in paths}
    return [*sorted(inner), *sorted({folder.parent for folder in inner})]
