"""What can still be answered of a job of which retention removed data, and what is said about the rest."""

from __future__ import annotations

import zlib
from typing import Any

from roofline.texts import utc
from roofline.v1 import query_pb2

from ..errors import RemovedData
from ..records import CutLevel, Removed
from ..sentences import notes

LEFT = {
    CutLevel.RAW: "report, steps, stragglers and what-if can still be asked",
    CutLevel.STEPS: "report and jobs can still be asked",
    CutLevel.REPORT: "jobs still lists it",
}
WHAT = {CutLevel.RAW: "raw data", CutLevel.STEPS: "step deltas", CutLevel.REPORT: "report"}
SHORT = {CutLevel.RAW: "raw data", CutLevel.STEPS: "raw data, steps", CutLevel.REPORT: "all data"}


def check_left(job: str, removed: Removed | None, needed: CutLevel) -> None:
    """Raises RemovedData where what a question needs was removed."""
    if removed is not None and removed.level >= needed:
        left, what = LEFT[removed.level], WHAT[needed]
        raise RemovedData(notes.cannot_answer(job, utc(removed.at_ns), what, left))


def note(job: str, removed: Removed | None) -> list[str]:
    """What an answer that is computed of the rest has to say: nothing, or a note."""
    if removed is None:
        return []
    return [notes.removed(job, removed.rows, utc(removed.at_ns), removed.level >= CutLevel.STEPS)]


def short(removed: Removed | None) -> str:
    """For the list of jobs: "raw data", ..., "" where nothing was removed."""
    return SHORT[removed.level] if removed else ""


def pack(report: Any) -> bytes:
    """A report as it is kept."""
    return zlib.compress(report.SerializeToString(), 9)


def unpack(data: bytes, job: str, removed: Removed, bounded: bool) -> Any:
    """The report that was kept. bounded: some steps only are asked for, and these cannot be told apart."""
    report = query_pb2.Report.FromString(zlib.decompress(data))
    report.job = job  # another run may have followed since
    (said,) = note(job, removed)
    report.notes.insert(0, notes.removed_kept_whole(said) if bounded else said)
    report.running = False
    return report
