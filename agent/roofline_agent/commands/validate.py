"""`roofline-agent validate`: what is to be checked, and where the result goes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import Unavailable
from .options import load_config
from .progress import ProgressLine

if TYPE_CHECKING:
    from ..validate.node import ValidateRequest

MOST_REPEATS = 1000


def validate(
    context: typer.Context,
    repeat: Annotated[int, typer.Option(min=1, max=MOST_REPEATS, help="how often each work is done")] = 10,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="check this source only; can be repeated"),
    ] = None,
    output: Annotated[
        str, typer.Option("--format", help="text, json, or md: a table for docs/accuracy.md")
    ] = "text",
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="write the result to FILE")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="check even while a training runs, which disturbs both")
    ] = False,
) -> None:
    """Check this node's counters with a known amount of work.

    A process computes, sleeps, writes, sends and touches memory, a known amount each, ten times; kernels have
    known FLOPs by precision and width, and known bytes from DRAM. The table shows how far each source was
    off: least, median, most. Takes about three minutes: run it while the node is idle.

    A source whose median is off by more than its tolerance is named by `roofline-agent doctor` and in
    reports, and its values are marked as estimated from then on, until it is validated again. What cannot be
    checked here, and why, is listed too.

    Examples:

    \b
      roofline-agent validate
      roofline-agent validate --only perf --only process --repeat 3
      roofline-agent validate --format json -o node.json
      roofline-agent validate --format md           a table for docs/accuracy.md

    Results of metrics that are not checked stay as they were; Ctrl-C keeps the old results. docs/accuracy.md
    explains how each true value is known.
    Exit codes: 1 a source is off by more than its tolerance, or nothing could be checked; 6 a training runs
    on this node (see --force), or a file cannot be written.
    """
    from ..validate import command

    if output not in command.FORMATS:
        raise typer.BadParameter(f"one of {', '.join(command.FORMATS)}", param_hint="--format")
    request = _request(context, tuple(dict.fromkeys(only or ())), repeat)
    _check_file(file)
    line = ProgressLine()
    # Lines are shown as they are known, unless the document itself goes to standard output.
    stream = sys.stdout if output == "text" or file is not None else sys.stderr

    def show(text: str) -> None:
        line.clear()
        print(text, file=stream, flush=True)

    _exit_on_signals()
    try:
        outcome = command.run(request, output, force, show, line.show)
    except (KeyboardInterrupt, SystemExit):
        print("roofline-agent validate: interrupted; the stored result is unchanged", file=sys.stderr)
        raise
    finally:
        line.clear()
    if file is not None:
        file.write_text(outcome.document, encoding="utf-8")
    elif output != "text":
        print(outcome.document, end="")
    if outcome.status:
        raise typer.Exit(outcome.status)


def _exit_on_signals() -> None:
    """As on Ctrl-C, so that nothing stays in the state directory."""

    def leave(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # else as under nohup
            signal.signal(number, leave)


def _request(context: typer.Context, names: tuple[str, ...], repeat: int) -> ValidateRequest:
    """names: what to check; (): all that this node has. Raises BadParameter for one that is not known."""
    from ..records import SourceSettings
    from ..sources import SOURCES, make_sources
    from ..validate.node import ValidateRequest
    from ..validate.works import HOOKS, NCU, SOFTWARE

    known = (*SOURCES, HOOKS, NCU, SOFTWARE)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}", param_hint="--only")
    config = load_config(context)
    settings = SourceSettings(interval_ns=100_000_000, environ=os.environ)
    wanted = [name for name in names if name in SOURCES] if names else config.sources
    sources = make_sources(wanted, settings) if wanted or not names else {}
    return ValidateRequest(sources, names, repeat, settings, config.state_directory())


def _check_file(file: Path | None) -> None:
    """Before anything is measured: a result that cannot be written would be lost minutes later."""
    if file is None:
        return
    if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
        raise Unavailable(f"cannot write to {file}; choose another --output")
