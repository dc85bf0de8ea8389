"""Takes in again segments that another catalog knows: one that was here before, or a copy of it.

Ids in files become those of the present catalog; where all are the same, files stay as they are. Step deltas
hold ids in a way of their own: where they change, or the job has data already, they are left out, and made
again from raw data when asked for. Files appear first, then one transaction makes them true.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from ...records import NODE_JOB, Incarnation, Lifetime
from ..catalog.catalog import Catalog, Progress, Sealing, sqlite_url
from ..catalog.run_choice import job_and_number
from ..identity import identity_of_catalog
from ..intake.inbox import Inbox
from ..segments.files import (
    STEPS,
    Piece,
    Segment,
    StoreIdentity,
    directory_name,
    footer_checksum,
    fsync,
    origin_of,
    write,
)
from ..segments.reader import batches
from ..segments.unknown import QUARANTINE, numbers_of, set_apart
from ..taking import begin_taking, end_taking
from .findings import Repaired
from .ids import Ids, match
from .reading import DAMAGE, problem_of, segments_of
from .younger import younger_files

ROWS = 1 << 17
CLOCK_NS = 1_000_000_000  # by which two estimates of a clock may differ
FORK = "fork"  # state of a catalog: files up to this number are those of the catalog that it was copied from


class Waiting(NamedTuple):
    """A file, and what the source says of it."""

    segment: Segment
    file: Segment  # the same, where it is now
    replaced: Sequence[str]  # missing files of the target whose rows it has


class _JobPlan(NamedTuple):
    """What becomes of the files of one job."""

    name: str  # of the job in the target
    is_whole: bool  # the target gets the job as the source has it, with its step deltas
    taken: list[Waiting]
    old_steps: list[str]  # step deltas of the target that no longer hold
    done_with: list[str]  # files that nobody needs then


def adopt(root: Path, target: Catalog, inbox: Inbox, source_path: Path) -> Repaired:
    """Take in all sound files in quarantine that the catalog at source_path knows."""
    source = Catalog(sqlite_url(source_path))
    try:
        return _Adoption(root, target, inbox, source).run()
    finally:
        source.close()


class _Adoption:
    def __init__(self, root: Path, target: Catalog, inbox: Inbox, source: Catalog) -> None:
        self._root, self._target, self._inbox, self._source = root, target, inbox, source
        self._unsealed = set(inbox.ids())  # the next sealing gets the highest of these numbers
        self._known = segments_of(target)
        self._paths = {segment.path for segment in self._known}
        self._known_files = {(segment.path, segment.footer) for segment in self._known}
        identity = identity_of_catalog(target)
        self._identity = identity or StoreIdentity()
        self._left: list[str] = []
        self._lasts: dict[str, int | None] = {}
        self._merged: dict[str, list[str]] = {}  # job -> files whose rows are in others that are taken in

    def run(self) -> Repaired:
        by_job: dict[str, list[Waiting]] = {}
        for one in self._waiting():
            by_job.setdefault(one.segment.job, []).append(one)
        if not by_job:
            return Repaired([], self._left)
        ids = match(self._source, self._target, by_job.keys() - {NODE_JOB})
        self._add_times(ids)
        done = [self._take(job, some, ids) for job, some in sorted(by_job.items())]
        return Repaired([text for text in done if text], self._left)

    def _waiting(self) -> Iterator[Waiting]:
        """Sound files in quarantine that the source knows, or that were sealed when it had been copied, and
        whose rows the target does not have."""
        found = list(self._known_to_source())
        others = {file.path for _, file in found}
        younger = younger_files(self._root, self._source, others)
        # One that the target knows and lacks is put back as it is (`repair`), or has been damaged.
        lacking = {path for path in self._paths if not (self._root / path).exists()}
        found += [
            one
            for one in younger
            if (one[0].path, one[0].footer) not in self._known_files and one[0].path not in lacking
        ]
        judged = []
        for segment, file in found:
            doubles = self._doubled(segment, file)
            why = problem_of(self._root, file) or self._why_not(segment, file, doubles)
            judged.append((segment, file, doubles, why))
        holds = {(os.path.dirname(s.path), self._holds(s.path, f.path)) for s, f, _, why in judged if not why}
        for segment, file, doubles, why in judged:
            if why:
                self._left.append(f"{file.path} ({segment.rows:,} rows of job {segment.job!r}): {why}")
            elif self._is_within(segment, file, holds):
                self._merged.setdefault(segment.job, []).append(file.path)
            else:
                yield Waiting(segment, file, doubles)

    def _known_to_source(self) -> Iterator[tuple[Segment, Segment]]:
        for segment in segments_of(self._source):
            if (segment.path, segment.footer) in self._known_files:
                continue
            folder = (self._root / QUARANTINE / segment.path).parent
            name = os.path.basename(segment.path)
            for path in sorted(folder.glob(f"{name}*")):
                if _is_that(path, segment):
                    yield segment, segment._replace(path=str(path.relative_to(self._root)))
                    break

    def _why_not(self, segment: Segment, file: Segment, doubles: Sequence[str]) -> str:
        """Why it is not taken in; empty: it is. It takes the place of files that are missing."""
        first, last = self._holds(segment.path, file.path)
        for path in doubles:
            begin, end = self._may_hold(path, path)
            if (self._root / path).exists() or not first <= begin <= end <= last:
                return f"its rows may be in {path} too"
        return ""

    def _doubled(self, segment: Segment, file: Segment) -> list[str]:
        """Files of the target that may have some of its rows. Up to where one catalog was copied from the
        other, both have the same files, perhaps merged in another way."""
        ours, theirs = identity_of_catalog(self._target), identity_of_catalog(self._source)
        shared = int(self._target.state(FORK) or 0)
        if ours == theirs:
            shared = max((self._may_hold(path, path)[1] for path in self._paths), default=0)
        first, last = self._may_hold(segment.path, file.path)
        folder, found = os.path.dirname(segment.path), []
        for path in self._paths:
            if os.path.dirname(path) != folder:
                continue
            begin, end = self._may_hold(path, path)
            if begin <= last and first <= end and begin <= shared:
                found.append(path)
        return found

    def _is_within(
        self, segment: Segment, file: Segment, holds: Collection[tuple[str, tuple[int, int]]]
    ) -> bool:
        """Whether another of these files, by folder and sealings, was merged of this one and others."""
        first, last = self._may_hold(segment.path, file.path)
        return any(
            folder == os.path.dirname(segment.path)
            and begin <= first
            and last <= end
            and (begin, end) != (first, last)
            for folder, (begin, end) in holds
        )

    def _may_hold(self, path: str, place: str) -> tuple[int, int]:
        """First and last sealing of which a file can have rows."""
        first, last = numbers_of(os.path.basename(path)) or (0, 0)
        if first == last:
            return first, last
        # What a sealing merges was there before it.
        return first, self._last_of(place) or last - 1

    def _holds(self, path: str, place: str) -> tuple[int, int]:
        """First and last sealing of which a file certainly has all rows."""
        first, last = numbers_of(os.path.basename(path)) or (0, 0)
        if first == last:
            return first, last
        return first, self._last_of(place) or first

    def _last_of(self, place: str) -> int | None:
        """What a merged file says; None: nothing, or it cannot be read."""
        if place not in self._lasts:
            self._lasts[place] = None
            with contextlib.suppress(*DAMAGE):
                origin = origin_of(pq.read_schema(self._root / place).metadata)
                self._lasts[place] = origin.last if origin else None
        return self._lasts[place]

    # -- what the source says besides its segments ----------------------------------------------------------

    def _add_times(self, ids: Ids) -> None:
        source, target = self._source, self._target
        samples = [(ids.nodes[n], one) for n, some in source.clock_samples().items() for one in some]
        before = target.arrivals()
        arrivals = {
            ids.nodes[node]: offset for node, offset in source.arrivals().items() if node in ids.nodes
        }
        least = {node: min(offset, before.get(node, offset)) for node, offset in arrivals.items()}
        target.put_clocks(samples, arrivals=least)
        of_jobs = target.job_clocks()
        for (job, node), kept in source.job_clocks().items():
            key = ids.jobs.get(job, ""), ids.nodes.get(node, -1)
            if job in ids.jobs and key not in of_jobs:
                target.put_job_clock(*key, kept.tolist())
        known = target.machine_states()
        target.add_machine_states(
            (agent, state, False)
            for agent, states in source.machine_states().items()
            if agent not in known
            for state in states
        )
        target.put_tags(
            (ids.jobs[job], name, value, at_ns)
            for job, name, value, at_ns in source.tags()
            if job in ids.jobs
        )
        self._add_run_processes(ids)

    def _add_run_processes(self, ids: Ids) -> None:
        known = self._target.run_processes()
        new = {}
        for (job, node, pid, start_ns), (number, launch) in self._source.run_processes().items():
            for name, other in ids.jobs.items():
                if job_and_number(name) == (job, number):
                    key = job, ids.nodes[node], pid, start_ns
                    if key not in known:
                        new[key] = job_and_number(other)[1], launch
        self._target.add_run_processes(new)

    def _lifetimes(self, job: str, ids: Ids) -> dict[Incarnation, Lifetime]:
        """Of the processes of a job; of one that both know, all that either does."""
        known = self._target.process_lifetimes()
        _, ranks, _ = self._source.name_ids()
        mine = {rank for key, rank in ranks.items() if key.job == job}
        found = {}
        for who, life in self._source.process_lifetimes().items():
            if who.rank in mine:
                other = known.get(ids.incarnation(who), life)
                found[ids.incarnation(who)] = Lifetime(
                    min(life.first_ns, other.first_ns),
                    max(life.last_ns, other.last_ns),
                    life.exited or other.exited,
                    life.ending.with_later(other.ending),
                )
        return found

    # -- segments ------------------------------------------------------------------------------------------

    def _take(self, job: str, some: Sequence[Waiting], ids: Ids) -> str:
        """Take in files of one job; returns what was done. Empty: there were step deltas alone."""
        plan = self._plan(job, some, ids)
        places = {self._place_of(plan.name, one): one for one in plan.taken}
        begin_taking(self._target, {path: one.file.path for path, one in places.items()}, plan.done_with)
        segments = [self._fill(plan.name, path, one, ids) for path, one in places.items()]
        progress = {} if job == NODE_JOB else {plan.name: Progress()}
        if plan.is_whole and job != NODE_JOB:
            progress = {plan.name: self._source.progress(job)}
            settled = self._source.settled().get(job, {})
            self._target.put_settled(plan.name, {ids.nodes[node]: error for node, error in settled.items()})
        replaced = sorted({*plan.old_steps, *(path for one in plan.taken for path in one.replaced)})
        self._target.seal(
            Sealing(segments, replaced, progress, self._lifetimes(job, ids), self._target.sealed_through())
        )
        end_taking(self._root, self._target)
        for path in plan.old_steps:
            if (self._root / path).exists():
                set_apart(self._root, path)
        return _taken_in(job, plan.name, segments) if segments else ""

    def _plan(self, job: str, some: Sequence[Waiting], ids: Ids) -> _JobPlan:
        name = ids.jobs.get(job, job)
        _, ranks, _ = self._source.name_ids()
        mine = [rank for key, rank in ranks.items() if key.job == job]
        present = [segment for segment in self._known if segment.job == name]
        is_whole = (
            ids.is_same(job, mine)
            and not (present and job != NODE_JOB)
            and {one.segment.path for one in some} == {s.path for s in self._source.segments(job)}
        )
        taken = [one for one in some if is_whole or not _holds_steps(one.segment)]
        old_steps = [] if is_whole else [s.path for s in present if _holds_steps(s)]
        done_with = [one.file.path for one in taken] + self._merged.get(job, [])
        # Step deltas are rebuilt from the marks that are there.
        if can_be_made_anew([*present, *(one.segment for one in some)]):
            done_with += [one.file.path for one in some if one not in taken]
        if can_be_made_anew(present):
            done_with += old_steps
        return _JobPlan(name, is_whole, taken, old_steps, done_with)

    def _place_of(self, name: str, one: Waiting) -> str:
        """Where the file of a segment will be."""
        folder = f"segments/{directory_name(name)}/{one.segment.dataset}"
        path = f"{folder}/{os.path.basename(one.segment.path)}"
        last = (numbers_of(os.path.basename(path)) or (0, 0))[1]
        if path in self._paths or (self._root / path).exists() or last in self._unsealed:
            last = self._free_number(folder, last)
            path = f"{folder}/{last:012d}.parquet"
        self._paths.add(path)
        self._inbox.begin_after(last)  # no sealing gets its number
        return path

    def _fill(self, name: str, path: str, one: Waiting, ids: Ids) -> Segment:
        """The file of a segment at its place, with the ids of the target."""
        file, place = self._root / one.file.path, self._root / path
        if name == one.segment.job and self._is_same(ids):
            place.parent.mkdir(parents=True, exist_ok=True)
            os.link(file, place)
            fsync(place.parent)
            return one.segment._replace(path=path)
        number = numbers_of(place.name) or (0, 0)
        first = number[0] if number[0] != number[1] else None
        pieces = _pieces(self._root, one.file, ids)
        last = self._may_hold(path, one.file.path)[1] if first is not None else None
        made = write(self._root, name, one.segment.dataset, number[1], pieces, first, self._identity, last)
        # As the source knew them: the clocks have not changed.
        return made._replace(begin_ns=one.segment.begin_ns, end_ns=one.segment.end_ns)

    @staticmethod
    def _is_same(ids: Ids) -> bool:
        maps: tuple[Mapping[int, int], ...] = (ids.nodes, ids.ranks, ids.kernels)
        return all(one == other for names in maps for one, other in names.items())

    def _free_number(self, folder: str, last: int) -> int:
        """A number that no file of a folder has, and no sealing will get, as near before `last` as it can."""
        taken = {number for path in self._paths if os.path.dirname(path) == folder for number in _span(path)}
        taken |= self._unsealed
        before = (number for number in range(last, -1, -1) if number not in taken)
        return next(before, 1 + max(self._inbox.last_id(), *taken))


def can_be_made_anew(segments: Sequence[Segment]) -> bool:
    """Whether there are marks from the first step delta on. Both were put on the server's clock, perhaps by
    different estimates of that of the node."""
    marks = [segment.begin_ns for segment in segments if segment.dataset == "marks"]
    steps = [segment.begin_ns for segment in segments if _holds_steps(segment)]
    return not steps or (bool(marks) and min(marks) <= min(steps) + CLOCK_NS)


def _holds_steps(segment: Segment) -> bool:
    return segment.dataset.startswith(STEPS)


def _span(path: str) -> range:
    first, last = numbers_of(os.path.basename(path)) or (0, 0)
    return range(first, last + 1)


def _is_that(path: Path, segment: Segment) -> bool:
    """Whether a file is the one that a catalog means."""
    try:
        return path.stat().st_size == segment.bytes and footer_checksum(path) == segment.footer
    except (OSError, ValueError):
        return False


def _pieces(root: Path, file: Segment, ids: Ids) -> Iterator[Piece]:
    for table in batches(root, file, ROWS):
        yield Piece(ids.table(table), file.begin_ns, file.end_ns)


def _taken_in(job: str, name: str, segments: Sequence[Segment]) -> str:
    count = sum(segment.rows for segment in segments)
    what = f"job {job!r}" if job else "what concerns nodes"
    where = f" as {name!r}, since there is another job of its name" if name != job else ""
    return f"{what} is taken in again{where}: {len(segments)} files, {count:,} rows"
