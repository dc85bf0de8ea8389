"""Reads every page of every file of a data directory, and changes nothing.

A database is opened only after SQLite has found it whole: opening one that is missing would create it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ...errors import Unavailable
from ..catalog.catalog import Catalog, sqlite_url
from ..catalog.integrity import integrity
from ..catalog.versions import COPY
from ..identity import CATALOGS, copy_of, why_apart
from ..intake.inbox import Inbox
from ..later import refuse_later
from ..segments.files import Origin, Segment, origin_of
from ..segments.reader import DamagedSegment, batches
from ..segments.unknown import NOTE, QUARANTINE, unknown_files
from ..usable import usable
from ..wal import lost_transactions
from .findings import Checked, Finding

CATALOG, INBOX = "catalog.db", "inbox.db"
LOST = "lost"  # begin of the name of a state of the catalog: a repair found this file missing
PUT_BACK = "put back both of one backup"
PIECE_ROWS = 1 << 17


def check(root: Path, catalog_url: str = "") -> Checked:
    """Read all of a data directory. Raises Unavailable where nothing was ever kept, or by a later release."""
    if not any((root / name).exists() for name in (CATALOG, INBOX, "segments")):
        raise Unavailable(f"{root} is no data directory of a roofline-server: choose another --data")
    with usable(root):
        refuse_later(root)
        return _check(root, catalog_url)


def _check(root: Path, catalog_url: str) -> Checked:
    findings: list[Finding] = []
    for name in (CATALOG, INBOX):
        if not (name == CATALOG and catalog_url):
            findings += database_findings(root, name)
    broken = {finding.what for finding in findings if finding.kind in ("damaged", "missing")}
    inbox = Inbox(root / INBOX) if INBOX not in broken else None
    catalog = Catalog(catalog_url or sqlite_url(root / CATALOG)) if CATALOG not in broken else None
    known: list[Segment] = []
    count = 0
    try:
        if inbox is not None:
            count, damaged = _inbox_findings(inbox, catalog)
            findings += damaged
        if catalog is not None:
            known = segments_of(catalog)
            findings += _segment_findings(root, catalog, known)
            if inbox is not None:
                findings += _foreign_findings(catalog, inbox)
        in_inbox = set(inbox.ids()) if inbox is not None else set()
        if catalog is not None:
            findings += _unknown_findings(root, {segment.path for segment in known}, in_inbox)
        findings += _apart_findings(root, {segment.path for segment in known})
    finally:
        if inbox is not None:
            inbox.close()
        if catalog is not None:
            catalog.close()
    return Checked(findings, len(known), sum(s.rows for s in known), sum(s.bytes for s in known), count)


def segments_of(catalog: Catalog) -> list[Segment]:
    """All segments that a catalog knows."""
    return [one for job in sorted(catalog.jobs_with_segments()) for one in catalog.segments(job)]


def database_findings(root: Path, name: str) -> list[Finding]:
    path = root / name
    if not path.exists():
        return [Finding("missing", name, "there is no such file")]
    found = []
    if lost := lost_transactions(path.with_name(f"{name}-wal")):
        why = f"its log is damaged: {lost} transactions after the damage are lost"
        found.append(Finding("damaged log", f"{name}-wal", why))
    why = integrity(path)
    return [*found, Finding("damaged", name, why)] if why else found


def problem_of(root: Path, segment: Segment) -> str:
    """What is wrong with the file of a segment; empty: nothing."""
    if not (root / segment.path).exists():
        return "there is no such file"
    try:
        found = sum(len(next(iter(piece.values()))) for piece in batches(root, segment, PIECE_ROWS))
    except DamagedSegment as error:
        return str(error).partition(" is damaged: ")[2]
    return "" if found == segment.rows else f"it has {found} rows and had {segment.rows}"


def _segment_findings(root: Path, catalog: Catalog, segments: list[Segment]) -> Iterator[Finding]:
    for segment in segments:
        if why := problem_of(root, segment):
            kind = "damaged" if (root / segment.path).exists() else "missing"
            if kind == "missing" and (
                apart_of(root, segment.path) or catalog.state(f"{LOST} {segment.path}")
            ):
                kind, why = "lost", "a repair found it damaged or missing; reports say what is missing"
            yield Finding(kind, segment.path, why, segment.job, segment.rows)


def _inbox_findings(inbox: Inbox, catalog: Catalog | None) -> tuple[int, list[Finding]]:
    jobs = _jobs_on(catalog) if catalog is not None else {}
    found, count = [], 0
    for entry, is_sound in inbox.read(0):
        count += 1
        if not is_sound:
            what = f"{INBOX} batch {entry.id} of agent {entry.agent[:8]}"
            why = "it is not as it was written"
            found.append(Finding("damaged batch", what, why, jobs.get(entry.node)))
    for row in inbox.damaged():
        what = f"{INBOX} batch {row.id} of agent {row.agent[:8]}"
        if row.is_sound:
            found.append(Finding("lost", what, f"the catalog did not know its node: {READ_AGAIN}"))
        else:
            found.append(Finding("apart", what, "it was damaged, and set apart", jobs.get(row.node)))
    return count, found


READ_AGAIN = "`check --repair` reads it, once its agent has connected again"


def _jobs_on(catalog: Catalog) -> dict[int, str]:
    """Node -> its jobs, as far as the catalog knows."""
    _, ranks, _ = catalog.name_ids()
    job_of = {rank: key.job for key, rank in ranks.items()}
    found: dict[int, set[str]] = {}
    for who in catalog.process_lifetimes():
        found.setdefault(who.node, set()).add(job_of.get(who.rank, ""))
    return {node: ", ".join(sorted(jobs)[-3:]) for node, jobs in found.items()}


def _foreign_findings(catalog: Catalog, inbox: Inbox) -> Iterator[Finding]:
    if why := why_apart(catalog, inbox):
        yield Finding("foreign", INBOX, f"it does not belong to the catalog: {why}; {PUT_BACK}")
    last, sealed = inbox.last_id(), catalog.sealed_through()
    if 0 < last < sealed:
        why = f"it is older than the catalog (batch {last}, the catalog has {sealed})"
        yield Finding("foreign", INBOX, f"{why}; {PUT_BACK}")


def _unknown_findings(root: Path, known: set[str], in_inbox: set[int]) -> Iterator[Finding]:
    for path, is_rubbish in unknown_files(root, known, in_inbox):
        relative = str(path.relative_to(root))
        if is_rubbish:
            yield Finding("left-over", relative, "the next start removes it")
        else:
            yield _of_file(path, "unknown", relative, "the catalog does not know it")


def apart_of(root: Path, path: str) -> list[Path]:
    """Files in quarantine that were at this place once."""
    place = root / QUARANTINE / path
    return sorted(place.parent.glob(f"{place.name}*"))


def _apart_findings(root: Path, known: set[str]) -> Iterator[Finding]:
    lost = {file for path in known if not (root / path).exists() for file in apart_of(root, path)}
    for path in sorted((root / QUARANTINE).rglob("*")):
        relative = str(path.relative_to(root))
        if not path.is_file() or path.name == NOTE or path in lost:
            continue
        if relative.startswith(f"{CATALOGS}/"):
            if not path.name.endswith(("-wal", "-shm")):
                why = integrity(path)
                kind = "lost" if why else "apart"
                yield Finding(kind, relative, why or "a catalog that was here before")
        else:
            yield _of_file(path, "apart", relative, "it is in quarantine")


def _of_file(path: Path, kind: str, relative: str, why: str) -> Finding:
    try:
        rows, origin = read_through(path)
    except DAMAGE as error:
        return Finding(kind, relative, f"{why}, and it is damaged: {str(error).partition(chr(10))[0]}")
    return Finding(kind, relative, why, origin.job if origin else None, rows)


DAMAGE = (OSError, pa.ArrowException, ValueError, TypeError, LookupError, OverflowError)


def read_through(path: Path) -> tuple[int, Origin | None]:
    """Rows of a file, all pages of which are read, and what it says of itself. Raises what DAMAGE lists."""
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        origin = origin_of(file.schema_arrow.metadata)
        return sum(batch.num_rows for batch in file.iter_batches(PIECE_ROWS)), origin


def sound_copy(root: Path) -> Path | None:
    """The copy of the catalog, if it is whole and says of which store it is."""
    path = root / COPY
    if path.exists() and not integrity(path) and copy_of(path).identity:
        return path
    return None
