"""Writes a job into a run of MLflow. Published again, it is the same run with the newer numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import ClientError
from .published import Published

JOB, BEGIN = "roofline.job", "roofline.begin_ns"  # tags that say which run of MLflow is this job's
TIMEOUT_S, RETRIES = "20", "1"


def write(found: Published, uri: str, experiment: str, files: Iterable[Path], run_id: str = "") -> str:
    """The id of the run. run_id: of a run that the training itself has begun, which is added to. Raises
    ClientError where MLflow does not answer or refuses."""
    # Its own are two minutes and seven times.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", TIMEOUT_S)
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", RETRIES)
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    try:
        client = MlflowClient(tracking_uri=uri)
        run = run_id or _run_of(client, found, experiment)
        for name, value in found.metrics.items():
            client.log_metric(run, f"roofline/{name}", value)
        for name, text in {**found.tags, "headline": found.headline}.items():
            client.set_tag(run, f"roofline.{name}", text)
        for file in files:
            client.log_artifact(run, str(file), "roofline")
        if not run_id and not found.running:
            failed = "failed" in found.tags["state"]
            client.set_terminated(run, "FAILED" if failed else "FINISHED", found.end_ns // 1_000_000)
    except MlflowException as error:
        raise ClientError(f"MLflow at {uri} did not accept job {found.job}: {error.message}") from None
    except ModuleNotFoundError as error:  # of what its client alone, which the extra installs, does not have
        raise ClientError(f"MLflow at {uri} needs {error.name}: pip install mlflow") from None
    return str(run)


def _run_of(client: Any, found: Published, experiment: str) -> str:
    """The previous run, else a new one. A job whose name is used again began at another time."""
    known = client.get_experiment_by_name(experiment)
    number = known.experiment_id if known else client.create_experiment(experiment)
    for run in client.search_runs([number], f"tags.`{BEGIN}` = '{found.begin_ns}'"):
        if run.data.tags.get(JOB) == found.job:
            return str(run.info.run_id)
    tags = {JOB: found.job, BEGIN: str(found.begin_ns)}
    started = found.begin_ns // 1_000_000
    return str(client.create_run(number, started, tags, f"roofline {found.job}").info.run_id)
