"""`roofline-server check`: reads all that is kept, says what is damaged, and repairs it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..data_directory import lock_directory
from ..errors import Unavailable
from ..store.check.findings import Checked, Finding, Repaired
from .options import CatalogOption, DataOption, FormatOption, readable_data_of, refuse_root_elsewhere

HELP = (
    "Read all files and report what is damaged, missing or unknown. The server must be "
    "stopped. Run it as the user of the server.\n\n"
    "--repair takes in sound files again, restores a lost catalog from its last copy, and moves damaged "
    "files to quarantine/. It deletes only what is known to be kept elsewhere.\n\n"
    "Examples:\n\n"
    "\b\n"
    "  roofline-server check\n"
    "  roofline-server check --repair\n"
    "  roofline-server check --data /srv/roofline --format json\n\n"
    "Exit codes: 0 no problems, 1 problems (with --repair: remaining ones), 2 usage, 6 the directory cannot "
    "be used, or a server works with it."
)
MOST_LINES = 50  # of findings, as text


def check(
    context: typer.Context,
    repair: Annotated[bool, typer.Option("--repair", help="repair what can be repaired")] = False,
    output: FormatOption = "text",
    catalog: CatalogOption = "",
    data: DataOption = None,
) -> None:
    from ..store.backup import ELSEWHERE as BACKUP_ELSEWHERE
    from ..store.identity import catalog_is_elsewhere

    root = readable_data_of(data, context.obj)
    if not root.is_dir():
        raise Unavailable(f"there is no directory {root}: choose another --data")
    refuse_root_elsewhere(root)
    if not catalog and catalog_is_elsewhere(root):
        raise Unavailable(f"the catalog of {root} is in another database: say with --catalog in which")
    os.umask(0o077)
    lock = lock_directory(root)
    try:
        found, done = _run(root, catalog, repair)
    finally:
        os.close(lock)
    if catalog:
        print(f"note: {BACKUP_ELSEWHERE.format(root=root)}", file=sys.stderr)
    print(_as_json(found, done) if output == "json" else "\n".join(lines(root, found, done)))
    if found.problems:
        raise typer.Exit(1)


def _run(root: Path, catalog: str, mends: bool) -> tuple[Checked, Repaired]:
    """What is found (after the repair, where it is asked for), and what was done. Raises Unavailable."""
    from ..ingest.decode import origin_of
    from ..store.check.reading import check as read
    from ..store.check.repair import repair

    done = Repaired([], [])
    found = read(root, catalog)
    if mends and found.findings:
        done = repair(root, catalog, origin_of)
        found = read(root, catalog)
    return found, done


def lines(root: Path, found: Checked, done: Repaired | None = None) -> Iterator[str]:
    """What was found, and done, as text."""
    done = done or Repaired([], [])
    yield (
        f"{root}: {found.segments:,} files with {found.rows:,} rows ({found.bytes / 1e6:,.1f} MB), "
        f"{found.batches:,} batches in the inbox"
    )
    yield from (f"  repaired: {text}" for text in done.done)
    yield from (f"  not repaired: {text}" for text in done.left)
    yield from (f"  {_line(finding)}" for finding in found.findings[:MOST_LINES])
    if len(found.findings) > MOST_LINES:
        yield f"  and {len(found.findings) - MOST_LINES:,} more: --format json lists all"
    if not found.problems:
        yield "no problems found"
        return
    yield _sum(found.problems)
    if not (done.done or done.left):
        yield "`roofline-server check --repair` repairs what can be repaired"


def _line(finding: Finding) -> str:
    affected = "" if finding.rows is None else f"{finding.rows:,} rows"
    if finding.job is not None:
        affected += f"{' of ' if affected else ''}job {finding.job!r}" if finding.job else " of nodes"
    return f"{finding.kind}: {finding.what}{f' ({affected.strip()})' if affected else ''}: {finding.why}"


def _sum(problems: Sequence[Finding]) -> str:
    rows = sum(finding.rows or 0 for finding in problems)
    jobs = {finding.job for finding in problems if finding.job}
    return f"problems: {len(problems):,}, with {rows:,} rows of {len(jobs):,} jobs"


def _as_json(found: Checked, done: Repaired) -> str:
    counts = {name: value for name, value in found._asdict().items() if name != "findings"}
    findings = [{**one._asdict(), "is_problem": one.is_problem} for one in found.findings]
    whole = {**counts, "findings": findings, "repaired": done.done, "not_repaired": done.left}
    return json.dumps(whole, indent=2)
