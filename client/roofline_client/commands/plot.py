"""`roofline-client plot`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from ..step_range import parse_steps
from .breakdown import BY
from .options import (
    DEFAULT_SERVER,
    OVER,
    ExperimentOption,
    JobArgument,
    JobsOption,
    RanksOption,
    RolesOption,
    ServerOption,
    check_choice,
    check_ending,
    draw,
    resolve_job,
    these_jobs,
)
from .roofline import KINDS as MODELS
from .roofline import POINTS_HELP, ask_time, check_subject


class Options(NamedTuple):
    """What was asked for; empty: not given."""

    jobs: list[str]
    experiment: str
    over: str
    points: str
    by: str
    ranks: list[str]
    roles: list[str]
    steps: str

    @property
    def subject(self) -> dict[str, Any]:
        first, last = parse_steps(self.steps)
        return {"first_step": first, "last_step": last, "ranks": self.ranks}


class PlotKind(NamedTuple):
    """A kind of picture: options it understands, what its points can be (default first), its question."""

    options: tuple[str, ...]
    points: tuple[str, ...]
    ask: Callable[[Any, Options], Any]


def _roofline(kind: str) -> PlotKind:
    return PlotKind(
        ("steps", "ranks", "points"),
        MODELS[kind],
        lambda client, asked: client.roofline(asked.jobs[0], kind, asked.points, **asked.subject),
    )


def _steps(client: Any, asked: Options) -> Any:
    from ..plots import Steps

    first, last = parse_steps(asked.steps)
    chunks = list(client.steps(asked.jobs[0], asked.ranks, first, last))
    # Its caption comes with every answer of the models.
    return Steps(asked.jobs[0], chunks, client.roofline(asked.jobs[0], points="role", **asked.subject).about)


def _account(client: Any, asked: Options) -> Any:
    from ..plots import AccountOf

    found = client.report(asked.jobs[0], *parse_steps(asked.steps))
    # Its caption comes with every answer of the models.
    return AccountOf(found, client.roofline(asked.jobs[0], points="role", **asked.subject).about)


KINDS = {
    "account": PlotKind(("steps",), (), _account),
    "roofline": _roofline("classic"),
    "hierarchical": _roofline("hierarchical"),
    "network": _roofline("network"),
    "time": PlotKind(
        ("steps", "ranks", "points", "experiment", "over"),
        MODELS["time"],
        lambda client, asked: ask_time(
            client, asked.jobs, asked.experiment, asked.over, asked.points, asked.subject
        ),
    ),
    "trajectory": PlotKind(
        ("steps", "roles", "experiment", "over"),
        (),
        lambda client, asked: client.trajectory(
            asked.experiment, asked.jobs, asked.over, asked.roles, *parse_steps(asked.steps)
        ),
    ),
    "breakdown": PlotKind(
        ("steps", "ranks", "by"),
        (),
        lambda client, asked: client.breakdown(asked.jobs[0], asked.by or "role", **asked.subject),
    ),
    "layers": PlotKind(
        ("steps", "ranks", "by"),
        (),
        lambda client, asked: client.breakdown(asked.jobs[0], asked.by or "rank", **asked.subject),
    ),
    "steps": PlotKind(("steps", "ranks"), (), _steps),
}
NAMES = {"ranks": "--rank", "roles": "--role"}  # of options that are not named as their field


def plot(
    file: Annotated[Path, typer.Option("-o", "--output", help="FILE.png, .svg or .pdf")],
    kind: Annotated[str, typer.Option(help=", ".join(KINDS))] = "roofline",
    server: ServerOption = DEFAULT_SERVER,
    which: JobArgument = "",
    job: JobsOption = None,
    steps: Annotated[
        str,
        typer.Option(
            help="only steps FIRST:LAST, either end may be omitted; all: every step; default: the steady "
            "steps, with --kind steps every step"
        ),
    ] = "",
    rank: RanksOption = None,
    points: Annotated[str, typer.Option(help=POINTS_HELP)] = "",
    by: Annotated[str, typer.Option(help="for a breakdown or layers, one bar per: role, rank")] = "",
    experiment: ExperimentOption = "",
    over: Annotated[str, typer.Option(help=f"the parameter in which several jobs differ: {OVER}")] = "",
    role: RolesOption = None,
    caption: Annotated[
        bool, typer.Option("--caption", help="below the picture: job, machines, time, notes")
    ] = False,
) -> None:
    """Draw a job, or the jobs of an experiment.

    --kind trajectory, or --kind time with --over, takes several.

    The file is written atomically.
    """
    check_choice(kind, tuple(KINDS), "--kind")
    check_ending(file, "-o")
    asked = Options(these_jobs(which, job), experiment, over, points, by, rank or [], role or [], steps)
    asked = check_options(kind, asked)
    parse_steps(steps)
    from ..api import connect

    with connect(server) as client:
        asked = asked._replace(jobs=[resolve_job(client, one) for one in asked.jobs])
        found = KINDS[kind].ask(client, asked)
    draw(kind, found, file, with_caption=caption)
    print(f"{kind} written to {file}", file=sys.stderr)


def check_options(kind: str, asked: Options) -> Options:
    """The options with what was left out filled in. Raises BadParameter for those that do not go together."""
    for option in ("experiment", "over", "points", "by", "ranks", "roles", "steps"):
        if getattr(asked, option) and option not in KINDS[kind].options:
            known = ", ".join(_name(name) for name in KINDS[kind].options)
            raise typer.BadParameter(f"{_name(option)} says nothing of --kind {kind}; it takes {known}")
    check_subject(kind, asked.jobs, asked.experiment, asked.over)
    if asked.by:
        check_choice(asked.by, BY, "--by")
    if not KINDS[kind].points:
        return asked
    points = asked.points or KINDS[kind].points[0]
    check_choice(points, KINDS[kind].points[1:], f"--points of --kind {kind}")
    return asked._replace(points=points)


def _name(option: str) -> str:
    return NAMES.get(option, f"--{option}")
