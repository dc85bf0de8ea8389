"""What commands share: options and what they mean, forms of output, how far something is."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..newest import LAST
from ..newest import resolve_job as resolve_job
from ..tables.names import clean
from . import completion

DEFAULT_SERVER = ""  # the one that was joined last, else this machine's
ServerOption = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="ROOFLINE_SERVER",
        help="HOST:PORT of roofline-server [the one joined last, else 127.0.0.1:7642]",
        show_default=False,
    ),
]
JOB_HELP = "job id, as `roofline-client jobs` shows it"
OptionalJobOption = Annotated[
    str, typer.Option("--job", help=f"{JOB_HELP}; last: the newest", autocompletion=completion.jobs)
]
JobArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB", show_default=False, help="the same as --job JOB", autocompletion=completion.jobs
    ),
]
JobsOption = Annotated[
    list[str] | None, typer.Option("--job", help="job id; can be repeated", autocompletion=completion.jobs)
]
ExperimentOption = Annotated[
    str,
    typer.Option(
        "--experiment", help="all jobs tagged experiment=NAME", autocompletion=completion.experiments
    ),
]
RanksOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rank", help="only this rank, e.g. worker:0; can be repeated", autocompletion=completion.ranks
    ),
]
RolesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--role", help="only this role, e.g. worker; can be repeated", autocompletion=completion.roles
    ),
]
FromOption = Annotated[int | None, typer.Option("--from", help="first step: the same as --steps FIRST:")]
ToOption = Annotated[int | None, typer.Option("--to", help="last step, inclusive: the same as --steps :LAST")]
StepsOption = Annotated[
    str,
    typer.Option(
        "--steps",
        help="only steps FIRST:LAST, either end may be omitted; all: every step; default: the steady steps",
    ),
]
RangeOption = Annotated[
    str,
    typer.Option("--steps", help="only steps FIRST:LAST, either end can be omitted; default: every step"),
]
FORMATS = ("text", "json", "csv")
YEAR_S = 366 * 86400
FormatOption = Annotated[str, typer.Option("--format", help="text, json or csv")]
OVER = "a tag, or nodes, ranks, ps, batch, threads, ranks_per_node"
EXIT_CODES = (
    "Exit codes: 0 ok, 1 failed (a file cannot be written), 2 usage, 3 the server refuses, "
    "4 no server answers, 5 no such job, experiment, rank, role or host, or nothing to draw or predict, "
    "130 Ctrl-C."
)


def one_job(argument: str, option: str) -> str:
    """The job that was asked for, as `report 42` or `report --job 42`. Raises BadParameter."""
    if argument and option and argument != option:
        raise typer.BadParameter(f"which job: {argument!r} or {option!r}?", param_hint="--job")
    if not (argument or option):
        raise typer.BadParameter(f"give one that `roofline-client jobs` shows, or {LAST}", param_hint="JOB")
    return argument or option


def these_jobs(argument: str, options: Sequence[str] | None) -> list[str]:
    """The jobs that were asked for, as `plot 42` or `plot --job 41 --job 42`."""
    return list(dict.fromkeys([*filter(None, [argument]), *(options or ())]))


def check_format(output: str) -> None:
    check_choice(output, FORMATS, "--format")


def check_choice(given: str, known: tuple[str, ...], option: str) -> None:
    if given not in known:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(known)}", param_hint=option)


def check_positive(given: Mapping[str, float | None]) -> None:
    """given: numbers by option. Raises BadParameter."""
    for option, value in given.items():
        if value is not None and not value > 0:
            raise typer.BadParameter(f"{value:g} must be more than 0", param_hint=option)


def check_seconds(given: Mapping[str, float | None]) -> None:
    """given: times by option. Raises BadParameter for what nobody can wait for: nan, inf, a billion years."""
    for option, value in given.items():
        if value is not None and not value <= YEAR_S:
            raise typer.BadParameter(f"{value:g} must be at most {YEAR_S} (a year)", param_hint=option)


def check_jobs(experiment: str, jobs: list[str] | None) -> None:
    """Check that the jobs are given once, by experiment or one by one. Raises BadParameter."""
    if bool(experiment) == bool(jobs):
        raise typer.BadParameter("give either --experiment NAME or --job, once for each job")


def check_file(file: Path, endings: Sequence[str], option: str) -> None:
    """A file gets the name of what is in it; pipes and devices are as they are. Raises BadParameter."""
    if not file.name.lower().endswith(tuple(endings)) and (file.is_file() or not file.exists()):
        raise typer.BadParameter(f"{str(file)!r} must end in {', '.join(endings)}", param_hint=option)


def check_ending(picture: Path, option: str) -> None:
    """Before the server is asked: the answer of a long job takes a while."""
    from ..plots import FORMATS

    if picture.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{str(picture)!r} must end in {', '.join(FORMATS)}", param_hint=option)


def draw(kind: str, record: Any, picture: Path, with_caption: bool = True) -> None:
    """As `plots.draw`, without what matplotlib says of a home that it cannot write to: it does without. Not
    there, as the loggers of who draws in Python are not ours."""
    import logging

    from .. import plots

    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    plots.draw(kind, record, picture, with_caption)


def show(output: str, found: Any, form: Any, notes: Sequence[str] = ()) -> None:
    """Print an answer as text, JSON or CSV. form: the module with as_text, as_json and as_csv; notes: what
    CSV has no place for, on stderr."""
    from ..tables import text

    with reader_may_leave():
        if output == "json":
            print(form.as_json(found))
        elif output == "csv":
            print(safe(form.as_csv(found)), end="")
            tell(notes)
        else:
            text.show(form.as_text(found))


def tell(notes: Sequence[str]) -> None:
    """Notes of the server on stderr."""
    for note in notes:
        print(f"roofline-client: {clean(f'note: {note}')}", file=sys.stderr)


def safe(text: str) -> str:
    """A file or a program gets the names as they are, a terminal only what cannot steer it."""
    return "\n".join(map(clean, text.split("\n"))) if sys.stdout.isatty() else text


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """`roofline-client report | head`: nobody reads on, and that is fine."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """What is still buffered goes nowhere; Python would write it at its exit and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Progress:
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
