"""Repairs a data directory: takes in again what is sound, and sets aside what is not.

Only what is known to be in the store, or can be rebuilt from what is there, is deleted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ...errors import Unavailable
from ..catalog.catalog import Catalog, Progress, Sealing, sqlite_url
from ..catalog.integrity import integrity
from ..catalog.versions import COPY
from ..identity import (
    CATALOGS,
    agree,
    copy_of,
    identity_of_inbox,
    set_foreign_copy_apart,
)
from ..intake.inbox import Inbox
from ..segments.files import STEPS, Segment, fsync
from ..segments.unknown import QUARANTINE, free_place, set_apart, tidy
from ..taking import begin_taking, end_taking
from ..usable import usable
from .adopt import adopt, can_be_made_anew
from .apart import Origin, take_again
from .findings import Repaired
from .reading import CATALOG, INBOX, LOST, apart_of, problem_of, segments_of, sound_copy

NOT_MADE_ANEW = (
    "no sound copy of the catalog is left, so nothing says what the numbers in the files of segments/ stand "
    "for (ranks, kernels, nodes, clocks, ceilings of machines): they are kept in quarantine/"
)


def repair(root: Path, catalog_url: str = "", origin_of: Origin | None = None) -> Repaired:
    """origin_of: of batches that were set apart; None: these stay. Raises Unavailable where a file must be
    put back first, or the disk does not let it."""
    with usable(root):
        return _repair(root, catalog_url, origin_of)


def _repair(root: Path, catalog_url: str, origin_of: Origin | None) -> Repaired:
    repaired = Repaired([], [])
    if (root / INBOX).exists() and (why := integrity(root / INBOX)):
        raise Unavailable(
            f"{root / INBOX} is damaged ({why}): put it back from a backup together with {CATALOG}; or move "
            "it away, and the batches that were not in segments/ yet are lost"
        )
    if not catalog_url:
        _mend_catalog(root, repaired)
    catalog = Catalog(catalog_url or sqlite_url(root / CATALOG))
    try:
        inbox = Inbox(root / INBOX)
        try:
            _join(root, catalog, inbox, repaired)
            end_taking(root, catalog)
            _mend_inbox(root, catalog, inbox, repaired)
            for path in sorted((root / CATALOGS).glob("*.db*")):
                if (
                    not path.name.endswith(("-wal", "-shm"))
                    and not integrity(path)
                    and copy_of(path).identity
                ):
                    _adopt(root, catalog, inbox, path, repaired)
            if not catalog_url and (copy := sound_copy(root)) and (root / QUARANTINE).exists():
                # Files that were sealed after the copy was made, from which the catalog has been rebuilt.
                younger = adopt(root, catalog, inbox, copy).done
                repaired.done.extend(younger)
                if younger:
                    catalog.copy(root / COPY)
            if origin_of is not None:
                take_again(catalog, inbox, origin_of, repaired)
        finally:
            inbox.close()
        _mend_segments(root, catalog, repaired)
    finally:
        catalog.close()
    return repaired


def _mend_catalog(root: Path, found: Repaired) -> None:
    """Have a sound catalog: the one that is there, else one made of its copy, else a new one."""
    path, why = root / CATALOG, ""
    if path.exists():
        why = integrity(path)
        if not why:
            return
    copy = sound_copy(root)
    was_there = path.exists()
    place = _move_apart(root)
    if was_there:
        found.done.append(f"{CATALOG} is damaged ({why}): it is set apart as {place}")
    if copy is None or not _belongs(root, copy):
        found.left.append(NOT_MADE_ANEW)
        return
    temporary = path.with_name(f"{CATALOG}.tmp")
    shutil.copyfile(copy, temporary)
    temporary.chmod(0o600)
    fsync(temporary)
    temporary.rename(path)
    fsync(root)
    found.done.append(
        f"{CATALOG} is made anew of {copy.name}, as it was at batch {copy_of(copy).sealed_through}"
    )


def _move_apart(root: Path) -> str:
    """Move what is there of a catalog to quarantine, with its log: both are needed to read it. Returns where
    it is now."""
    (root / CATALOGS).mkdir(parents=True, exist_ok=True)
    place = free_place(root, f"{CATALOGS}/{CATALOG}", ("", "-wal"))
    for end in ("", "-wal"):
        with contextlib.suppress(FileNotFoundError):
            (root / f"{CATALOG}{end}").rename(root / f"{place}{end}")
    (root / f"{CATALOG}-shm").unlink(missing_ok=True)
    return place


def _join(root: Path, catalog: Catalog, inbox: Inbox, found: Repaired) -> None:
    """As a start of the server does. Raises Unavailable where catalog and inbox do not belong together."""
    if place := set_foreign_copy_apart(root, catalog, agree(root, catalog, inbox)):
        found.done.append(f"{COPY} is of another catalog than {CATALOG}: it is set apart as {place}")


def _belongs(root: Path, copy: Path) -> bool:
    """Whether a copy of a catalog is of the store that the inbox is of."""
    if not (root / INBOX).exists():
        return True
    inbox = Inbox(root / INBOX)
    try:
        theirs = identity_of_inbox(inbox)
    finally:
        inbox.close()
    return theirs is None or theirs == copy_of(copy).identity


def _mend_inbox(root: Path, catalog: Catalog, inbox: Inbox, found: Repaired) -> None:
    """Forget damaged rows that a start has set apart; set files apart that the catalog does not know."""
    sealed, damaged = catalog.sealed_through(), [row for row in inbox.damaged() if not row.is_sound]
    if damaged:
        inbox.drop(damaged)
        named = ", ".join(f"{row.sequence} of agent {row.agent[:8]}" for row in damaged)
        found.done.append(f"{len(damaged)} damaged batches are dropped: {named}")
    for entry, is_sound in inbox.read(sealed):
        if not is_sound:
            found.left.append(
                f"batch {entry.sequence} of agent {entry.agent[:8]} in {INBOX} is damaged: the next start of "
                "the server sets it apart, and has reports of its node's jobs say so"
            )
    in_inbox = {number for number in inbox.ids() if number > sealed}
    unknown = tidy(root, catalog.paths(), in_inbox)
    if unknown.removed:
        found.done.append(f"{unknown.removed} unfinished or replaced files are removed")
    if unknown.set_apart:
        found.done.append(f"{len(unknown.set_apart)} files that the catalog does not know are set apart")


def _mend_segments(root: Path, catalog: Catalog, found: Repaired) -> None:
    by_job: dict[str, list[Segment]] = {}
    for segment in segments_of(catalog):
        by_job.setdefault(segment.job, []).append(segment)
    for job, segments in by_job.items():
        bad = [(segment, why) for segment in segments if (why := problem_of(root, segment))]
        steps = [segment for segment, _ in bad if segment.dataset.startswith(STEPS)]
        has_marks = not any(segment.dataset == "marks" for segment, _ in bad)
        if steps and has_marks and can_be_made_anew(segments):
            every = [segment.path for segment in segments if segment.dataset.startswith(STEPS)]
            begin_taking(catalog, {}, every)
            catalog.seal(Sealing([], every, {job: Progress()}, {}, catalog.sealed_through()))
            end_taking(root, catalog)
            found.done.append(f"job {job!r}: its step deltas are damaged, and are made anew of its marks")
            bad = [(segment, why) for segment, why in bad if segment not in steps]
        for segment, why in bad:
            _set_segment_apart(root, catalog, segment, why, found)


def _set_segment_apart(root: Path, catalog: Catalog, segment: Segment, why: str, found: Repaired) -> None:
    """The catalog knows it still: so reports go on saying what is missing."""
    what = f"{segment.path} ({segment.rows:,} rows of job {segment.job!r})"
    better = [path for path in apart_of(root, segment.path) if not problem_of(root, _at(segment, path, root))]
    if (root / segment.path).exists():
        place = set_apart(root, segment.path)
        catalog.put_state(f"{LOST} {segment.path}", why)
        found.done.append(f"{what} is damaged ({why}): it is set apart as {place}")
    elif not better:
        catalog.put_state(f"{LOST} {segment.path}", why)
        found.left.append(
            f"{what} is missing: put it back from a backup, else reports say that it is missing"
        )
    if better:
        (root / segment.path).parent.mkdir(parents=True, exist_ok=True)
        os.rename(better[0], root / segment.path)
        found.done.append(f"{what} is put back from quarantine")


def _at(segment: Segment, path: Path, root: Path) -> Segment:
    return segment._replace(path=str(path.relative_to(root)))


def _adopt(root: Path, catalog: Catalog, inbox: Inbox, source: Path, found: Repaired) -> None:
    through = copy_of(source).sealed_through
    taken = adopt(root, catalog, inbox, source)
    found.done.extend(taken.done)
    found.left.extend(taken.left)
    if not taken.left:
        # Until the next sealing nothing else would know what the files hold that were taken in.
        catalog.copy(root / COPY)
        for end in ("", "-wal", "-shm"):
            source.with_name(source.name + end).unlink(missing_ok=True)
        found.done.append(f"{source.relative_to(root)} (through batch {through}) is not needed any more")
