"""`roofline-client export`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from roofline.answers.tables import TableChunk

from .options import (
    DEFAULT_SERVER,
    JobArgument,
    OptionalJobOption,
    Progress,
    ServerOption,
    one_job,
    resolve_job,
    tell,
)


def export(
    folder: Annotated[Path, typer.Option("-o", "--output", help="folder to write to; created if needed")],
    which: JobArgument = "",
    job: OptionalJobOption = "",
    server: ServerOption = DEFAULT_SERVER,
    force: Annotated[bool, typer.Option("--force", help="write into a folder that is not empty")] = False,
) -> None:
    """Write the raw data of a job as CSV.

    One file per dataset: ranks, marks, samples, spans, kernel calls, events, ...

    Times are on the server's UNIX clock in ns (node_ns: on the node's own); columns.csv explains the columns.
    """
    from ..api import connect
    from ..export import check_folder, write_folder

    asked, notes = one_job(which, job), list[str]()
    check_folder(folder, force)
    progress = Progress(f"export of job {asked}")
    with connect(server) as client, progress:
        chunks = _noting(client.export(resolve_job(client, asked)), notes)
        counts = write_folder(chunks, folder, force, lambda name, n: progress.say(f"{name}: {n:,} rows"))
    tell(notes)
    print(f"{sum(counts.values()):,} rows of {len(counts)} datasets written to {folder}", file=sys.stderr)


def _noting(chunks: Iterable[TableChunk], notes: list[str]) -> Iterator[TableChunk]:
    """The chunks; what they say to people is put into `notes`."""
    for chunk in chunks:
        notes += chunk.notes
        yield chunk
