"""`roofline-agent import`: reads files one by one, shows or sends each; a bad one stops no other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import IO, NamedTuple

from ..machine import Machine, read_machine
from .batches import Target, duration_s
from .collect import Collector
from .document import warning, write_json
from .errors import RecordedError
from .reader import head_of, read
from .summary import summarise

DEFAULT_JOB = "recorded"


class Order(NamedTuple):
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


def carry_out(order: Order, out: IO[str], say: Callable[[str], None]) -> int:
    """Do it; how many files could not be read, or all of them if none gave a value. Raises Unreachable."""
    # Only files can be read twice; a pipe would be empty the second time.
    heads = {path: head_of(path) for path in order.files if os.path.isfile(path) and len(order.files) > 1}
    failed = gave = 0
    for path in order.files:
        companions = [head for other, head in heads.items() if other != path]
        try:
            found = read(path, companions, keep_launches=not order.dry_run)
        except RecordedError as error:
            say(printable(str(error)))
            failed += 1
            continue
        except OSError as error:
            say(printable(f"{path}: what was read finds no room ({error.strerror or error}); set TMPDIR"))
            failed += 1
            continue
        _show(found, path, order, out)
        gave += not found.is_empty
        if not found.is_empty and not order.dry_run:
            _send(found, path, order, say)
        found.close()
    return failed if gave else len(order.files)


def _show(found: Collector, path: str, order: Order, out: IO[str]) -> None:
    if order.output == "json":
        write_json(found, path, out)
    else:
        out.writelines(f"{printable(line)}\n" for line in summarise(found, path))
    out.flush()


def _send(found: Collector, path: str, order: Order, say: Callable[[str], None]) -> None:
    from .upload import upload  # loads grpc, which a dry run does without

    target = target_of(found, path, order)
    known = set(found.warnings)
    sent = upload(found, target, order.server, _machine(order.host))
    for one in found.warnings:
        if one not in known:
            say(printable(f"{path}: {warning(one)}"))
    where = f"job {target.job}, {target.role}:{target.index}"
    refused = f"; the server refused {sent.refused}" if sent.refused else ""
    say(printable(f"{path} is at {order.server} as {where} ({sent.batches} batches{refused})"))


def printable(text: str) -> str:
    """Names in a file may hold anything; a terminal gets nothing that steers it."""
    return "".join(c if c.isprintable() else "?" for c in text)


def target_of(found: Collector, path: str, order: Order) -> Target:
    """Whose it is and when it began: as the file says, else so that it ended when the file was written."""
    said = found.facts.get("rank")
    index = order.rank if order.rank is not None else said if isinstance(said, int) else 0
    begin = found.started_ns
    if begin is None:
        begin = _written_ns(path) - round(duration_s(found) * 1e9)
    return Target(order.job or DEFAULT_JOB, order.role, index, begin + round(order.offset_s * 1e9))


def _written_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return time.time_ns()


def _machine(host: str | None) -> Machine:
    """This machine; of another one nothing but its name is known."""
    if host is None:
        return read_machine()
    return Machine(host, "", 0, 0, 0, 0, "")
