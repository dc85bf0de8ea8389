"""`roofline-client report`."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ..errors import NotFound, UsageError
from ..step_range import parse_steps
from ..tables.names import is_number
from .options import (
    DEFAULT_SERVER,
    JobArgument,
    OptionalJobOption,
    ServerOption,
    StepsOption,
    check_choice,
    check_ending,
    check_seconds,
    draw,
    one_job,
    reader_may_leave,
    resolve_job,
    safe,
    show,
)

REPORT_FORMATS = ("text", "json", "csv", "md", "html")
WATCH, EVERY_S = "--watch", 2.0
AGAIN_S = 0.5
TERMINATED = 128 + signal.SIGTERM  # exit code, as shells have it


def report(
    which: JobArgument = "",
    job: OptionalJobOption = "",
    server: ServerOption = DEFAULT_SERVER,
    output: Annotated[str, typer.Option("--format", help=", ".join(REPORT_FORMATS))] = "text",
    full: Annotated[
        bool, typer.Option("--full", help="all tables as well; html, json and csv always have them")
    ] = False,
    brief: Annotated[
        bool, typer.Option("--brief", help="the verdict in ten lines, e.g. to end a job's output")
    ] = False,
    wait: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="first wait at most this long for the job to end and its data to arrive",
        ),
    ] = 0.0,
    steps: StepsOption = "",
    watch: Annotated[
        float | None,
        typer.Option(
            WATCH, min=0.2, metavar="[SECONDS]", help="refresh the report until the job ends or Ctrl-C"
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="also write the roofline to FILE.png, .svg or .pdf")
    ] = None,
) -> None:
    """What holds a job back, what that costs, and what to try. Also shows where the time of a step goes."""
    check_choice(output, REPORT_FORMATS, "--format")
    _check_job_of_watch(watch, which or job)
    check_seconds({"--wait": wait, WATCH: watch})
    asked = one_job(which, job)
    if brief and (output != "text" or full):
        raise UsageError("--brief is the verdict as text alone: not with --format or --full")
    first, last = parse_steps(steps)
    if plot is not None:
        check_ending(plot, "--plot")
    if watch is not None:
        _check_watch(output, full, brief, plot)
    from ..api import connect

    with connect(server) as client:
        asked = resolve_job(client, asked)
        if wait:
            _wait(lambda: client.report(asked, first, last, first_screen=True), wait)
        if watch is not None:
            _watch(lambda: client.report(asked, first, last, first_screen=True), watch)
            return
        found = client.report(asked, first, last, first_screen=output in ("text", "md") and not full)
        drawn = None if plot is None else client.roofline(asked, first_step=first, last_step=last)
    _show(output, found, full, brief)
    if plot is not None:
        draw("roofline", drawn, plot, with_caption=False)
        print(f"roofline written to {plot}", file=sys.stderr)


def _wait(ask: Callable[[], Any], seconds: float) -> None:
    """Until the job runs no more, or so long. A job that nobody knows may be one that has only just begun."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        with contextlib.suppress(NotFound):
            if not ask().running:
                return
        time.sleep(min(AGAIN_S, left))


def _show(output: str, found: Any, full: bool, brief: bool = False) -> None:
    from ..tables import screen, text

    if brief:
        with reader_may_leave():
            text.show(screen.in_brief(found))
        return
    if output == "html":
        from ..results.page import document

        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as the document says, whatever the locale is
        with reader_may_leave():
            print(document(f"Job {found.job}", screen.in_full(found)))
    elif output == "md":
        from ..tables.markdown import markdown

        with reader_may_leave():
            print(safe(markdown(screen.in_full(found) if full else screen.as_text(found))), end="")
    elif output == "text" and full:
        with reader_may_leave():
            text.show(screen.in_full(found))
    else:
        show(output, found, screen, found.notes)


# -- watching ---------------------------------------------------------------------------------------


def with_seconds(arguments: Sequence[str]) -> list[str]:
    """The command line, where `--watch` has its usual seconds if none stand behind it."""
    made = []
    for at, argument in enumerate(arguments):
        made.append(argument)
        if argument == WATCH and not is_number("".join(arguments[at + 1 : at + 2])):
            made.append(str(EVERY_S))
    return made


def _check_job_of_watch(watch: float | None, job: str) -> None:
    """Raises UsageError where what stands behind --watch was taken for seconds and may be the job."""
    if watch is None or watch == EVERY_S or job:
        return
    number = int(watch) if watch.is_integer() else watch
    raise UsageError(f"no job: {WATCH} took {number} as seconds; write `report {number} {WATCH}`")


def _check_watch(output: str, full: bool, brief: bool, plot: Path | None) -> None:
    """Raises UsageError for what cannot be refreshed in place."""
    from ..tables import text

    if output != "text" or full or brief or plot is not None:
        raise UsageError(f"{WATCH} refreshes the first screen: not with --format, --full, --brief or --plot")
    lacking = ""
    if not sys.stdout.isatty():
        lacking = "stdout"
    elif text.terminal().is_dumb_terminal:
        lacking = f"one of TERM={os.environ.get('TERM', '')}"
    if lacking:
        raise UsageError(
            f"{WATCH} needs a terminal that can be redrawn, which {lacking} is not; leave it out to write "
            "one report, or repeat the command to follow the job"
        )


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """In the block SIGTERM unwinds, as Ctrl-C does: it would leave the terminal as it was drawn on."""

    def leave(number: int, frame: object) -> NoReturn:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _watch(ask: Callable[[], Any], every: float) -> None:
    """The screen, asked for again and again until the job has ended. What was last on it stays."""
    from rich.live import Live

    from ..tables import screen, text

    found = ask()
    try:
        # On a screen of its own, which goes with everything that was drawn there; rich restores the cursor.
        with (
            _ended_by_sigterm(),
            Live(screen.OnTerminal(found), console=text.terminal(), screen=True, auto_refresh=False) as live,
        ):
            while found.running:
                time.sleep(every)
                found = ask()
                live.update(screen.OnTerminal(found), refresh=True)
    finally:
        text.show(screen.as_text(found))
