"""`roofline-agent import`: reads files one by one, shows or sends each; a bad one stops no other."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, NamedTuple

from ..machine import Machine, read_machine
from ..ranks.names import name_of
from .batches import Target, duration_s, places_something
from .collector import Collector
from .document import warning, write_json
from .errors import RecordedError
from .reader import head_of, read
from .summary import summarise

if TYPE_CHECKING:
    from roofline.joining import Access

DEFAULT_JOB = "recorded"
MAX_HOST = 256  # characters of a node's name
LATEST_NS = 2**61  # UNIX time, in 2043: a recording of a file that names a later begin has none


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
    access: Access | None = None  # of a server that was joined
    launches: bool = False  # every single one in the JSON


def import_files(
    request: ImportRequest,
    out: IO[str],
    report: Callable[[str], None],
    progress: Callable[[str], None] = lambda text: None,
) -> int:
    """How many files could not be read, or all of them if none gave a value. Raises Unreachable.

    progress: called with how far it is, many times.
    """
    # Only files can be read twice; a pipe would be empty the second time.
    heads = {path: head_of(path) for path in request.files if os.path.isfile(path) and len(request.files) > 1}
    failed = gave = 0
    for path in request.files:
        companions = [head for other, head in heads.items() if other != path]
        try:
            keeps = not request.dry_run or request.launches
            shows_counters = not request.dry_run or request.output == "json"
            found = read(
                path, companions, keeps, _reading(path, progress), not request.dry_run, shows_counters
            )
        except RecordedError as error:
            report(printable(str(error)))
            failed += 1
            continue
        except OSError as error:
            report(printable(f"{path}: what was read finds no room ({error.strerror or error}); set TMPDIR"))
            failed += 1
            continue
        for one in (found, *found.parts):
            if request.output == "json":
                write_json(one, path, out, request.launches)
            else:
                out.writelines(f"{printable(line)}\n" for line in summarise(one, path))
        out.flush()
        if found.is_empty:
            report(printable(f"{path}: no value could be read of it{_reasons(found)}"))
        sends = not found.is_empty and not request.dry_run
        sent = [_send(one, path, request, report, progress) for one in asked(found, request.rank) if sends]
        gave += any(sent) if sends else not found.is_empty
        found.close()
    return failed if gave else len(request.files)


def asked(found: Collector, rank: int | None) -> list[Collector]:
    """Those to be sent: of a file of several ranks that which was asked for, or all."""
    all_ranks = [found, *found.parts]
    if rank is None or not found.parts:
        return all_ranks
    return [one for one in all_ranks if one.facts.get("rank") == rank]


def _reasons(found: Collector) -> str:
    return "".join(f"; {warning(one)}" for one in found.warnings[:3])


def _reading(path: str, progress: Callable[[str], None]) -> Callable[[int], None]:
    """What is called with the bytes of the file that were read so far."""
    size = os.path.getsize(path) if os.path.isfile(path) else 0

    def say(done: int) -> None:
        whole = f" of {size / 1e6:.0f}" if done <= size else ""  # of a packed file it is not known
        progress(printable(f"{path}: {done / 1e6:.0f}{whole} MB read"))

    return say


def _send(
    found: Collector,
    path: str,
    request: ImportRequest,
    report: Callable[[str], None],
    progress: Callable[[str], None],
) -> bool:
    """Whether anything of it could be sent. Raises Unreachable."""
    target = target_of(found, path, request)
    if not places_something(found, target):
        report(printable(f"{path}: nothing is sent, as it does not say when or for how long anything ran"))
        return False
    from .upload import upload  # loads grpc, which a dry run does without

    known = set(found.warnings)
    sent = upload(
        found,
        target,
        request.server,
        _machine(found, request),
        lambda n: progress(printable(f"{path}: {n} batches sent")),
        request.access,
    )
    new = [one for one in found.warnings if one not in known]
    where = f"job {target.job}, {target.role}:{target.index}"
    refused = f"; the server refused {sent.refused}" if sent.refused else ""
    for one in new:
        report(printable(f"{path}: {warning(one)}"))
    part = "in part, without what was named above, " if new else ""
    report(printable(f"{path} is {part}at {request.server} as {where} ({sent.batches} batches{refused})"))
    return True


def _machine(found: Collector, request: ImportRequest) -> Machine:
    """Where it was recorded, as the user or the file says, else here. Of another machine only the name is
    known."""
    here = read_machine()
    host = request.host or str(found.facts.get("host") or here.host)[:MAX_HOST]
    return here if request.host is None and host == here.host else Machine(host, "", 0, 0, 0, 0, "")


def printable(text: str) -> str:
    """Names in a file may hold anything; a terminal gets nothing that steers it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def target_of(found: Collector, path: str, request: ImportRequest) -> Target:
    """Its rank and begin: those in the file, else 0 and so that it ended when the file was written."""
    index, recorded = request.rank, found.facts.get("rank")
    if index is None:
        index = recorded if isinstance(recorded, int) else 0
    begin = found.started_ns
    if begin is None or not 0 < begin <= LATEST_NS:
        written_ns = time.time_ns()
        with contextlib.suppress(OSError):
            written_ns = os.stat(path).st_mtime_ns
        begin = written_ns - round(duration_s(found) * 1e9)
    begin += round(request.offset_s * 1e9)
    role = str(found.facts.get("role") or request.role)
    return Target(request.job or DEFAULT_JOB, role, index, begin, name_of(os.getuid()))
