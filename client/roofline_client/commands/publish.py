"""`roofline-client publish`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from .options import (
    DEFAULT_SERVER,
    JobArgument,
    OptionalJobOption,
    ServerOption,
    draw,
    one_job,
    resolve_job,
)

UriOption = Annotated[
    str,
    typer.Option("--mlflow", metavar="URI", help="address of MLflow's tracking server, or sqlite:///FILE"),
]
NameOption = Annotated[
    str,
    typer.Option(
        "--mlflow-experiment",
        help="experiment in MLflow [the job's tag `experiment`, else roofline]",
        show_default=False,
    ),
]
RunOption = Annotated[
    str, typer.Option("--mlflow-run", help="id of a run that the training itself has begun: add to it")
]
FolderOption = Annotated[
    Path | None, typer.Option("--tensorboard", metavar="FOLDER", help="folder that TensorBoard reads")
]
ProjectOption = Annotated[
    str,
    typer.Option(
        "--wandb", metavar="PROJECT", help="project in Weights & Biases; offline unless WANDB_MODE=online"
    ),
]
RunsOption = Annotated[
    Path,
    typer.Option(
        "--wandb-dir", metavar="FOLDER", envvar="WANDB_DIR", help="the run is written to FOLDER/wandb"
    ),
]
CollectorOption = Annotated[
    str,
    typer.Option(
        "--otlp",
        metavar="URL",
        help="OpenTelemetry collector, e.g. http://head:4318 or grpc://head:4317: sends a trace",
    ),
]


def publish(
    which: JobArgument = "",
    job: OptionalJobOption = "",
    mlflow: UriOption = "",
    experiment: NameOption = "",
    run: RunOption = "",
    tensorboard: FolderOption = None,
    wandb: ProjectOption = "",
    runs: RunsOption = Path(),
    collector: CollectorOption = "",
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Put a job's verdict and pictures into an experiment tracker."""
    asked = one_job(which, job)
    if not (mlflow or tensorboard or wandb or collector):
        raise typer.BadParameter(
            "where to? give --mlflow URI, --tensorboard FOLDER, --wandb PROJECT or --otlp URL"
        )
    from ..api import connect
    from ..trackers import mlflow_runs, otlp, tensorboard_logs, wandb_runs
    from ..trackers.published import published

    with connect(server) as client, tempfile.TemporaryDirectory(prefix="roofline-") as folder:
        report = client.report(resolve_job(client, asked))
        found = published(report, _of_peaks(client, report.job))
        if collector:
            sent = otlp.write(found, collector, client.timeline(report.job))
            print(f"job {report.job} is trace {sent.trace_id} of {sent.spans:,} spans at {collector}")
        if not (mlflow or tensorboard or wandb):
            return
        files = [*_texts(report, Path(folder)), *_pictures(client, report, Path(folder))]
        if mlflow:
            name = experiment or report.tags.get("experiment", "") or "roofline"
            made = mlflow_runs.write(found, mlflow, name, files, run)
            print(f"job {report.job} is run {made} of MLflow at {mlflow}")
        if tensorboard:
            print(f"job {report.job} is in {tensorboard_logs.write(found, tensorboard, files)}")
        if wandb:
            print(f"job {report.job} is run {wandb_runs.write(found, wandb, runs, files)} of {wandb}")


def _of_peaks(client: Any, job: str) -> Any:
    """What all ranks make of their peaks; None where a server cannot say it, as of a job that was cut."""
    from ..errors import NotFound, Refused

    try:
        return client.efficiency(job).whole
    except (NotFound, Refused):
        return None


def _texts(report: Any, folder: Path) -> list[Path]:
    """The verdict as the terminal shows it, the whole report as a page, and as JSON."""
    from ..results.page import document
    from ..tables import screen, text

    made = {
        "verdict.txt": text.rendered(screen.as_text(report)) + "\n",
        "report.html": document(f"Job {report.job}", screen.in_full(report)),
        "report.json": screen.as_json(report),
    }
    for name, content in made.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in made]


def _pictures(client: Any, report: Any, folder: Path) -> list[Path]:
    """Account and roofline; one that would be empty is left out."""
    from ..errors import NotFound
    from ..plots import AccountOf

    roofline = client.roofline(report.job)
    about = client.roofline(report.job, points="role").about
    made = []
    for kind, answer in (("account", AccountOf(report, about)), ("roofline", roofline)):
        path = folder / f"{kind}.png"
        try:
            draw(kind, answer, path)
        except NotFound:
            continue
        made.append(path)
    return made
