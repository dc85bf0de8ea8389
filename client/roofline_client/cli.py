"""Command line of the client."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from . import __version__
from .errors import ClientError, Refused

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
        jobs()


@app.command()
def jobs(server: ServerOption = "127.0.0.1:7642", output: FormatOption = "text") -> None:
    """List the jobs the server has heard of, newest first."""
    _check_format(output, ("text", "json"))
    from . import tables
    from .api import connect

    with connect(server) as client:
        found = client.jobs()
    if output == "json":
        print(tables.jobs_json(found))
    elif found:
        tables.show(tables.jobs_text(found))
    else:
        print("no jobs yet: start `roofline-agent` on the nodes and a training")


@app.command()
def report(
    job: Annotated[str, typer.Option(help="job id, as `roofline-client jobs` shows it")],
    server: ServerOption = "127.0.0.1:7642",
    output: FormatOption = "text",
    steps: Annotated[str, typer.Option(help="only steps FIRST:LAST, either may be left out")] = "",
    plot: Annotated[
        Path | None, typer.Option(help="also write the roofline to FILE.png, .svg or .pdf")
    ] = None,
) -> None:
    """What each role and rank of a job reached, against the roof of its node."""
    _check_format(output, ("text", "json", "csv"))
    first, last = parse_steps(steps)
    from . import tables
    from .api import connect

    with connect(server) as client:
        found = client.report(job, first, last)
    if output == "json":
        print(tables.as_json(found))
    elif output == "csv":
        print(tables.as_csv(found), end="")
    else:
        tables.show(tables.report_text(found))
    if plot is not None:
        from .plots import draw_roofline

        draw_roofline(found, plot)
        print(f"roofline written to {plot}", file=sys.stderr)


def _check_format(output: str, known: tuple[str, ...]) -> None:
    if output not in known:
        raise typer.BadParameter(f"{output!r} is not one of {', '.join(known)}", param_hint="--format")


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
    except BrokenPipeError:
        # `roofline-client report | head`: nobody reads on, and that is fine.
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
