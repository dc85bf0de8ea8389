"""`roofline-server backup`: a copy of all data, also while the server runs."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from roofline.signals import ending_signals

from ..errors import Unavailable
from .check import lines
from .options import DataOption, readable_data_of, refuse_root_elsewhere

HELP = (
    "Copy the data directory to DIR, which must not exist yet. The server may be running.\n\n"
    "Everything in the copy is read before it gets its name, so DIR is always complete. An interrupted "
    "backup is called DIR.partial; run the command again to continue it. To restore, start a server with "
    "--data DIR.\n\n"
    "Examples:\n\n"
    "\b\n"
    "  roofline-server backup /backup/roofline-monday\n"
    "  roofline-server backup --copy /backup/roofline   no links to its files\n\n"
    "Exit codes: 0 done, 1 something is damaged and DIR is not made, 2 usage, 6 a directory cannot be used."
)


def backup(
    context: typer.Context,
    target: Annotated[Path, typer.Argument(metavar="DIR", help="where the copy goes")],
    copy: Annotated[
        bool,
        typer.Option("--copy", help="copy all bytes; without it, files that never change are hard-linked"),
    ] = False,
    catalog: Annotated[str, typer.Option(envvar="ROOFLINE_CATALOG", hidden=True)] = "",
    data: DataOption = None,
) -> None:
    from ..store.backup import ELSEWHERE, PARTIAL, back_up

    os.umask(0o077)
    for number in ending_signals():
        signal.signal(number, _stop)  # else its links would keep removed data on the disk
    root = readable_data_of(data, context.obj)
    if catalog:  # of the server, as its environment says
        raise Unavailable(ELSEWHERE.format(root=root))
    if root.is_dir():
        refuse_root_elsewhere(root)
    try:
        made = back_up(root, target, copy)
    except SystemExit as stopped:
        why = signal.Signals(int(stopped.code or 0) - 128).name
        print(
            f"roofline-server: {why} ended the backup; run the command again to continue it from "
            f"{target}{PARTIAL}",
            file=sys.stderr,
        )
        raise
    print("\n".join(lines(made.place, made.checked)))
    if not made.is_whole:
        print(
            f"{target} is not made: stop the server, run `roofline-server check --repair`, and back up again"
        )
        raise typer.Exit(1)
    print(f"backup of {root} in {made.place}; to restore, start `roofline-server --data {made.place}`")


def _stop(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
