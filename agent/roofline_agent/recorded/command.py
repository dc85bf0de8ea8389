"""`roofline-agent import`: reads files one by one, shows or sends each; a bad one stops no other."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import IO, NamedTuple

from ..machine import Machine, read_machine
from .batches import Target, duration_s
from .collector import Collector
from .document import warning, write_json
from .errors import RecordedError
from .reader import head_of, read
from .summary import summarise

DEFAULT_JOB = "recorded"


class ImportRequest(NamedTuple):
    """What the user asked for."""

    files: tuple[str, ...]
    job: str
    role: str
    rank: int | None
    offset_s: float
    host: str | None
    dry_run: bool
    output: str  # "text" or "json"
    server: str


def import_files(request: ImportRequest, out: IO[str], report: Callable[[str], None]) -> int:
    """How many files could not be read, or all of them if none gave a value. Raises Unreachable."""
    # Only files can be read twice; a pipe would be empty the second time.
    heads = {path: head_of(path) for path in request.files if os.path.isfile(path) and len(request.files) > 1}
    failed = gave = 0
    for path in request.files:
        companions = [head for other, head in heads.items() if other != path]
        try:
            found = read(path, companions, keep_launches=not request.dry_run)
        except RecordedError as error:
            report(printable(str(error)))
            failed += 1
            continue
        except OSError as error:
            report(printable(f"{path}: what was read finds no room ({error.strerror or error}); set TMPDIR"))
            failed += 1
            continue
        if request.output == "json":
            write_json(found, path, out)
        else:
            out.writelines(f"{printable(line)}\n" for line in summarise(found, path))
        out.flush()
        gave += not found.is_empty
        if not found.is_empty and not request.dry_run:
            _send(found, path, request, report)
        found.close()
    return failed if gave else len(request.files)


def _send(found: Collector, path: str, request: ImportRequest, report: Callable[[str], None]) -> None:
    from .upload import upload  # loads grpc, which a dry run does without

    target = target_of(found, path, request)
    known = set(found.warnings)
    # Of another machine nothing but its name is known.
    machine = read_machine() if request.host is None else Machine(request.host, "", 0, 0, 0, 0, "")
    sent = upload(found, target, request.server, machine)
    for one in found.warnings:
        if one not in known:
            report(printable(f"{path}: {warning(one)}"))
    where = f"job {target.job}, {target.role}:{target.index}"
    refused = f"; the server refused {sent.refused}" if sent.refused else ""
    report(printable(f"{path} is at {request.server} as {where} ({sent.batches} batches{refused})"))


def printable(text: str) -> str:
    """Names in a file may hold anything; a terminal gets nothing that steers it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def target_of(found: Collector, path: str, request: ImportRequest) -> Target:
    """Its rank and begin: those in the file, else 0 and so that it ended when the file was written."""
    index, recorded = request.rank, found.facts.get("rank")
    if index is None:
        index = recorded if isinstance(recorded, int) else 0
    begin = found.started_ns
    if begin is None:
        written_ns = time.time_ns()
        with contextlib.suppress(OSError):
            written_ns = os.stat(path).st_mtime_ns
        begin = written_ns - round(duration_s(found) * 1e9)
    return Target(request.job or DEFAULT_JOB, request.role, index, begin + round(request.offset_s * 1e9))
