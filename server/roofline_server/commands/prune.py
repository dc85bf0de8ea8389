"""`roofline-server prune`: remove old data now, by hand."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from ..errors import BadRequest, ConfigError, Unavailable
from ..records import CutLevel
from ..store.retention.plan import DAY_NS, Cut, Policy
from ..store.retention.requests import PruneRequest, ask, fulfil
from .options import CatalogOption, DataOption, FormatOption, readable_data_of, refuse_root_elsewhere

HELP = (
    "Remove data of jobs that are over: by age, by size, or of one job.\n\n"
    "Raw data (samples, marks, spans, kernel calls) are removed first, from the oldest job first. By default "
    "step deltas stay, and with them reports, steps and stragglers; see --leave. A running job is never cut. "
    "If the server is running, it does the work.\n\n"
    "Examples:\n\n"
    "\b\n"
    "  roofline-server prune --older-than 90d --dry-run\n"
    "  roofline-server prune --to-size 50GB --keep-tagged experiment=scaling\n"
    "  roofline-server prune --job 42 --leave report\n\n"
    "Exit codes: 0 done (also if there was nothing to do), 1 the job may still send data, 2 usage, 3 no data "
    "directory, 5 no such job, 6 the directory belongs to another user, or the running server did not answer."
)
LEAVE = {"steps": CutLevel.RAW, "report": CutLevel.STEPS, "nothing": CutLevel.REPORT}
GOES = {
    CutLevel.RAW: "raw data",
    CutLevel.STEPS: "raw data, steps",
    CutLevel.REPORT: "raw data, steps, report",
}
UNITS_NS = {"h": DAY_NS // 24, "d": DAY_NS, "w": 7 * DAY_NS}
UNITS_BYTES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
ANSWER_S = 3600.0  # of much data the removal takes long


def prune(
    context: typer.Context,
    older_than: Annotated[str, typer.Option(help="jobs that ended longer ago than this: 90d, 12h, 8w")] = "",
    to_size: Annotated[
        str, typer.Option(help="remove until all data take no more than this: 50GB, 800MB, 1.5TB")
    ] = "",
    job: Annotated[str, typer.Option(help="remove data of this job only, whatever its age")] = "",
    keep_tagged: Annotated[
        list[str] | None,
        typer.Option(help="NAME or NAME=VALUE: jobs with this tag stay whole; can be repeated"),
    ] = None,
    leave: Annotated[str, typer.Option(help="what to keep of a job: steps, report, nothing")] = "steps",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would be removed")] = False,
    output: FormatOption = "text",
    catalog: CatalogOption = "",
    data: DataOption = None,
) -> None:
    if leave not in LEAVE:
        raise typer.BadParameter(f"{leave!r} is not one of {', '.join(LEAVE)}", param_hint="--leave")
    if not (older_than or to_size or job):
        raise typer.BadParameter("say what to remove: --older-than, --to-size or --job")
    older_ns = _amount(older_than, UNITS_NS, "--older-than") if older_than else None
    policy = Policy(
        0 if job and not (older_than or to_size) else older_ns,
        _amount(to_size, UNITS_BYTES, "--to-size") if to_size else None,
        LEAVE[leave],
        tuple(keep_tagged or ()),
        job,
        dict.fromkeys(CutLevel, 1),
    )
    _show(_done(readable_data_of(data, context.obj), catalog, PruneRequest(policy, dry_run)), dry_run, output)


def _amount(text: str, units: dict[str, int], option: str) -> int:
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?) ?([A-Za-z]+)", text.strip())
    unit = found and {name.lower(): size for name, size in units.items()}.get(found[2].lower())
    if not found or not unit:
        *some, last = units
        example = f"a number and {', '.join(some)} or {last}, as 10{last}"
        raise typer.BadParameter(f"{text!r} is not {example}", param_hint=option)
    return round(float(found[1]) * unit)


def _done(data: Path, catalog: str, request: PruneRequest) -> list[Cut]:
    """What was removed, or would be: by this process, or by the server that works there."""
    if not (data / "inbox.db").exists():
        raise ConfigError(f"{data} is no data directory of a roofline-server; --data says which is")
    refuse_root_elsewhere(data)
    lock = _lock(data)
    if lock is None:
        return _asked(data, request)
    from ..ingest.service import decode_entry
    from ..query.answers import Answers
    from ..store.store import Store

    try:
        store = Store(data, decode_entry, catalog)
        try:
            return fulfil(request, store.retention, Answers(store).report_to_keep)
        finally:
            store.close()
    finally:
        os.close(lock)


def _asked(data: Path, request: PruneRequest) -> list[Cut]:
    def runs() -> bool:
        if (lock := _lock(data)) is None:
            return True
        os.close(lock)
        return False

    try:
        cuts = ask(data, request, runs, ANSWER_S)
    except ValueError as error:
        raise BadRequest(f"the server removed nothing: {error}") from None
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise Unavailable(
            f"the disk of {data} is full: a removal has to write a little before it frees anything. Free "
            "some MB there, or make the file system larger, then run this again"
        ) from None
    if cuts is None:
        raise Unavailable(f"the server that works with {data} did not answer; see its log, and try again")
    return cuts


def _lock(data: Path) -> int | None:
    """A descriptor of the directory's lock, or None while a server works there."""
    lock = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _show(cuts: list[Cut], dry_run: bool, output: str) -> None:
    if output == "json":
        rows = [{"job": cut.job, "removed": GOES[cut.level], "bytes": cut.bytes} for cut in cuts]
        print(json.dumps({"dry_run": dry_run, "jobs": rows}, indent=2))
        return
    width = max(min(shutil.get_terminal_size().columns - 50, max((len(c.job) for c in cuts), default=0)), 8)
    for cut in cuts:
        print(f"{cut.job:{width}}  {_size(cut.bytes):>9}  {GOES[cut.level]}")
    verb = "would be removed" if dry_run else "removed"
    count = f"{len(cuts)} job{'s' if len(cuts) > 1 else ''}"
    print(f"{count}, {_size(sum(cut.bytes for cut in cuts))} {verb}" if cuts else f"no data {verb}")


def _size(count: int) -> str:
    name, size = next(
        ((name, size) for name, size in reversed(UNITS_BYTES.items()) if count >= size), ("kB", 1000)
    )
    return f"{count / size:.1f} {name}"
