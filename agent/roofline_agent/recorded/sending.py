"""Sends what was found in a file: for which rank, from which machine, and what is to be said of it."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from roofline.texts import printable

from ..machine import Machine, read_machine
from ..ranks.names import name_of
from .batches import Target, duration_s, places_something
from .collector import Collector
from .document import warning
from .request import ImportRequest
from .upload import upload

DEFAULT_JOB = "recorded"
MAX_HOST = 256  # characters of a node's name
LATEST_NS = 2**61  # UNIX time, in 2043: a recording of a file that names a later begin has none


def send(
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
