"""`roofline-agent import`: reads files one by one, shows or sends each; a bad one stops no other."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO

from roofline.texts import printable

from .collector import Collector
from .document import warning, write_json
from .errors import RecordedError
from .passes import join
from .reader import head_of, read
from .request import ImportRequest
from .summary import summarise


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
    passes = join(heads)
    if passes.why_not:
        report(printable(passes.why_not))
    files, heads = passes.to_read(request.files), passes.heads(heads)
    failed = gave = 0
    for path in files:
        companions = {other: head for other, head in heads.items() if other != path}
        before = files[: files.index(path)]
        table = passes.table_of(path)
        try:
            keeps = not request.dry_run or request.launches
            shows_counters = not request.dry_run or request.output == "json"
            collector = read(
                path=path,
                companions=[*companions.values()],
                keep_launches=keeps,
                progress=_reading(path, progress),
                has_digest=not request.dry_run,
                keep_counters=shows_counters,
                earlier=sum(other in before for other in companions),
                table=table,
            )
        except RecordedError as error:
            report(printable(str(error)))
            failed += 1
            continue
        except OSError as error:
            report(printable(f"{path}: what was read finds no room ({error.strerror or error}); set TMPDIR"))
            failed += 1
            continue
        if table is not None:
            collector.warn(passes.note)
        for one in (collector, *collector.parts):
            if request.output == "json":
                write_json(one, path, out, request.launches)
            else:
                out.writelines(f"{printable(line)}\n" for line in summarise(one, path))
        out.flush()
        if collector.is_empty:
            report(printable(f"{path}: no value could be read of it{_reasons(collector)}"))
        sends = not collector.is_empty and not request.dry_run
        sent = [
            _send(one, path, request, report, progress) for one in asked(collector, request.rank) if sends
        ]
        gave += any(sent) if sends else not collector.is_empty
        collector.close()
    return failed if gave else len(files)


def asked(found: Collector, rank: int | None) -> list[Collector]:
    """The ranks to be sent: of a file of several that which was asked for, or all."""
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
    from .sending import send  # loads what a dry run does without, gRPC among it

    return send(found, path, request, report, progress)
