"""Command line of the client."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from . import __version__
from .errors import ClientError, Refused
from .names import clean

app = typer.Typer(
    name="roofline-client",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Ask a roofline server about jobs.\n\n"
    "Examples:\n\n"
    "  roofline-client jobs\n\n"
    "  roofline-client report --job 42\n\n"
    "  roofline-client report --job 42 --format json | jq .roles\n\n"
    "  roofline-client report --job 42 --steps 10: --plot roofline.png\n\n"
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 the server refuses, 4 no server answers, 5 no such job.",
)

DEFAULT_SERVER = "127.0.0.1:7642"
EXTRA = ("rich", "matplotlib", "pandas")  # what only the client extra installs

ServerOption = Annotated[
    str, typer.Option("--server", envvar="ROOFLINE_SERVER", help="HOST:PORT of roofline-server")
]
FormatOption = Annotated[str, typer.Option("--format", help="text, json or csv")]


@app.callback(invoke_without_command=True, no_args_is_help=False)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version and exit")] = False,
) -> None:
    if version:
        print(f"roofline-client {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        # A function called by hand reads no environment.
        jobs(os.environ.get("ROOFLINE_SERVER") or DEFAULT_SERVER)


@app.command(epilog="Example:\n\n  roofline-client jobs --server head:7642")
def jobs(server: ServerOption = DEFAULT_SERVER, output: FormatOption = "text") -> None:
    """List the jobs the server has heard of, newest first."""
    _check_format(output, ("text", "json"))
    from . import tables
    from .api import connect

    with connect(server) as client:
        found = client.jobs()
    with _reader_may_leave():
        if output == "json":
            print(tables.jobs_json(found))
        elif found:
            tables.show(tables.jobs_text(found))
        else:
            print("no jobs yet: start `roofline-agent` on the nodes and a training")


@app.command(epilog="Example:\n\n  roofline-client report --job 42 --steps 10: --plot roofline.png")
def report(
    job: Annotated[str, typer.Option(help="job id, as `roofline-client jobs` shows it")],
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    steps: Annotated[str, typer.Option(help="only steps FIRST:LAST, either may be left out")] = "",
    plot: Annotated[
        Path | None, typer.Option(help="also write the roofline to FILE.png, .svg or .pdf")
    ] = None,
) -> None:
    """What each role and rank of a job reached, against the roof of its node."""
    _check_format(output, ("text", "json", "csv"))
    first, last = parse_steps(steps)
    if plot is not None:
        _check_ending(plot)
    from . import tables
    from .api import connect

    with connect(server) as client:
        found = client.report(job, first, last)
    with _reader_may_leave():
        if output == "json":
            print(tables.as_json(found))
        elif output == "csv":
            print(_safe(tables.as_csv(found)), end="")
        else:
            tables.show(tables.report_text(found))
    if plot is not None:
        from .plots import draw_roofline

        draw_roofline(found, plot)
        print(f"roofline written to {plot}", file=sys.stderr)


def _check_format(output: str, known: tuple[str, ...]) -> None:
    if output not in known:
        raise typer.BadParameter(f"{output!r} is not one of {', '.join(known)}", param_hint="--format")


def _check_ending(plot: Path) -> None:
    """Before the server is asked: a report of a long job takes a while."""
    from .plots import FORMATS

    if plot.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{str(plot)!r} must end in {', '.join(FORMATS)}", param_hint="--plot")


def _safe(text: str) -> str:
    """A file or a program gets the names as they are, a terminal only what cannot steer it."""
    return "\n".join(map(clean, text.split("\n"))) if sys.stdout.isatty() else text


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """`roofline-client report | head`: nobody reads on, and that is fine."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered goes nowhere; Python would write it at its exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parse_steps(text: str) -> tuple[int | None, int | None]:
    """(first, last) of "10:90", "10:", ":90", "10" or "". Raises Refused."""
    first, colon, last = text.partition(":")
    try:
        low = int(first) if first else None
        high = int(last) if last else None if colon else low
    except ValueError:
        raise Refused(f"--steps {text!r} must be FIRST:LAST, as 10:90, 10: or :90") from None
    return low, high


def main() -> None:
    """Run the command line; every known error is one line and its own exit code."""
    try:
        app()
    except ClientError as error:
        print(f"roofline-client: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA:
            raise
        advice = "pip install 'roofline-profiler[client]'"
        print(f"roofline-client: {missing} is not installed; {advice}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"roofline-client: the output cannot be written ({error.strerror})", file=sys.stderr)
        # What is still buffered goes nowhere; Python would write it at its exit and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
