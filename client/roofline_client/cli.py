"""Command line of the client."""

from __future__ import annotations

import errno
import os
import sys
import time
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
    "  roofline-client stragglers --job 42\n\n"
    "  roofline-client steps --job 42 --rank worker:0 --format csv > steps.csv\n\n"
    "  roofline-client timeline --job 42 -o 42.json.gz\n\n"
    "Exit codes: 0 ok, 1 failed, 2 usage, 3 the server refuses, 4 no server answers, 5 no such job or rank.",
)

DEFAULT_SERVER = "127.0.0.1:7642"
EXTRA = ("rich", "matplotlib", "pandas")  # what only the client extra installs

ServerOption = Annotated[
    str, typer.Option("--server", envvar="ROOFLINE_SERVER", help="HOST:PORT of roofline-server")
]
JobOption = Annotated[str, typer.Option("--job", help="job id, as `roofline-client jobs` shows it")]
RanksOption = Annotated[
    list[str] | None, typer.Option("--rank", help="only this rank, as worker:0; may be given again")
]
FromOption = Annotated[int | None, typer.Option("--from", help="from step K on")]
ToOption = Annotated[int | None, typer.Option("--to", help="up to step K, inclusive")]
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
    job: JobOption,
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


@app.command(
    epilog="Example:\n\n  roofline-client steps --job 42 --rank worker:0 --from 100 --to 199 --format csv"
)
def steps(
    job: JobOption,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    rank: RanksOption = None,
    first: FromOption = None,
    last: ToOption = None,
    newest: Annotated[int, typer.Option("--last", min=0, help="rows of the text; 0: all")] = 20,
) -> None:
    """One row per rank and step: time, examples, bytes, FLOPs, phases, collectives.

    The text shows the newest rows; csv and json all of them and every column, times in ns of the server's
    UNIX clock, numbers exact. A value nobody measured is '-', an empty cell or null.
    """
    _check_format(output, ("text", "json", "csv"))
    from . import export as exporting
    from . import steps as table
    from . import tables
    from .api import connect

    with connect(server) as client, _reader_may_leave():
        chunks = client.steps(job, rank or (), first, last)
        if output == "json":
            table.write_json(job, chunks, sys.stdout)
        elif output == "csv":
            for chunk in exporting.write_csv(chunks, sys.stdout, clean if sys.stdout.isatty() else None):
                for line in table.told(chunk.notes):
                    print(f"roofline-client: {line}", file=sys.stderr)
        else:
            tables.show(table.as_text(job, table.newest(chunks, newest)))


@app.command(epilog="Example:\n\n  roofline-client stragglers --job 42")
def stragglers(
    job: JobOption,
    server: ServerOption = DEFAULT_SERVER,
    output: FormatOption = "text",
    first: FromOption = None,
    last: ToOption = None,
) -> None:
    """Who waits, and for whom: the ranks that hold the job up, and what shows it."""
    _check_format(output, ("text", "json", "csv"))
    from . import stragglers as waits
    from . import tables
    from .api import connect

    with connect(server) as client:
        found = client.stragglers(job, first, last)
    with _reader_may_leave():
        if output == "json":
            print(waits.as_json(found))
        elif output == "csv":
            print(_safe(waits.as_csv(found)), end="")
        else:
            tables.show(waits.as_text(found))


@app.command(epilog="Example:\n\n  roofline-client timeline --job 42 --from 100 --to 120 -o 42.json.gz")
def timeline(
    job: JobOption,
    file: Annotated[
        Path, typer.Option("-o", "--output", help="FILE.json, or FILE.json.gz to have it packed")
    ],
    server: ServerOption = DEFAULT_SERVER,
    rank: RanksOption = None,
    first: FromOption = None,
    last: ToOption = None,
    kernels: Annotated[bool, typer.Option("--kernels", help="every executed kernel too")] = False,
) -> None:
    """Write what every rank did when, on one clock: open the file in https://ui.perfetto.dev or chrome://tracing.

    Each rank has rows for its steps, phases, and the collectives it asked for and its engine executed.
    """
    from .api import connect
    from .files import written
    from .trace import write_trace

    progress = _Progress(f"timeline of job {job}")
    with connect(server) as client, progress, written(file) as out:
        chunks = client.timeline(job, rank or (), first, last, kernels)
        found = write_trace(chunks, out, lambda events: progress.say(f"{events:,} events"))
    for note in found.notes:
        print(f"roofline-client: {clean(f'note: {note}')}", file=sys.stderr)
    if found.dropped:
        print(f"roofline-client: note: {found.dropped:,} slices left out: too many at once", file=sys.stderr)
    ranks = "1 rank" if found.ranks == 1 else f"{found.ranks} ranks"
    print(f"timeline of {ranks}, {found.slices:,} slices, written to {file}", file=sys.stderr)


@app.command(epilog="Example:\n\n  roofline-client export --job 42 -o raw-42")
def export(
    job: JobOption,
    folder: Annotated[Path, typer.Option("-o", "--output", help="folder to write to; it is made")],
    server: ServerOption = DEFAULT_SERVER,
    force: Annotated[bool, typer.Option("--force", help="into a folder that is not empty")] = False,
) -> None:
    """Write the raw data of a job as CSV, one file a dataset: marks, samples, spans, kernel calls, events.

    Times are on the server's UNIX clock in ns (node_ns: on the node's own); columns.csv explains the columns.
    """
    from .api import connect
    from .export import check_folder, write_folder

    check_folder(folder, force)
    progress = _Progress(f"export of job {job}")
    with connect(server) as client, progress:
        chunks = client.export(job)
        counts = write_folder(chunks, folder, force, lambda name, n: progress.say(f"{name}: {n:,} rows"))
    print(f"{sum(counts.values()):,} rows of {len(counts)} datasets written to {folder}", file=sys.stderr)


class _Progress:
    """One line on a terminal that says how far something is, at most a few times a second; else nothing."""

    def __init__(self, what: str) -> None:
        self._what = clean(what)
        self._shown = sys.stderr.isatty()
        self._next = time.monotonic() + 1.0

    def say(self, how_far: str) -> None:
        if self._shown and time.monotonic() >= self._next:
            print(f"\r\x1b[K{self._what}: {clean(how_far)}", end="", file=sys.stderr, flush=True)
            self._next = time.monotonic() + 0.2

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


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
