"""MLflow's real server holds a job's verdict, numbers and pictures after `roofline-client publish`."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import free_port

from ..end_to_end.conftest import Site, wait_until

# On a busy machine these packages take minutes to start.
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
PYTHON = os.environ.get("ROOFLINE_MLFLOW_PYTHON", "")


class Tracked:
    """A server with one job that is over, and MLflow's server."""

    def __init__(self, site: Site) -> None:
        self.site, self.uri = site, f"http://127.0.0.1:{free_port()}"
        site.server()
        site.agent()
        environ = {"HOME": str(site.folder), "PYTHONPATH": ""}
        port = self.uri.rpartition(":")[2]
        command = [PYTHON, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1"]
        where = ["--backend-store-uri", f"sqlite:///{site.folder}/mlflow.db"]
        site.start(
            [*command, *where, "--artifacts-destination", site.folder / "artifacts"], "mlflow.log", **environ
        )
        assert site.rank("worker", 0, 40, 0.02, 8).wait(60) == 0
        wait_until(lambda: site.steps("worker:0") == 40, what="all steps are known")
        wait_until(self._answers, 300, "MLflow answers")

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def publish(self, *words: Any) -> str:
        done = self.site.ask("publish", "42", "--mlflow", self.uri, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def tracked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tracked]:
    if not PYTHON:
        pytest.skip("ROOFLINE_MLFLOW_PYTHON names no Python with MLflow's server")
    site = Site(tmp_path_factory.mktemp("mlflow"))
    try:
        yield Tracked(site)
    finally:
        site.stop()


def test_run_holds_verdict_numbers_and_pictures(tracked: Tracked, tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    *said, run_id, _, _, _, uri = tracked.publish().split()
    assert (said, uri) == (["job", "42", "is", "run"], tracked.uri)
    client = MlflowClient(tracking_uri=tracked.uri)
    run = client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.tags["roofline.job"] == "42" and run.data.tags["roofline.state"] == "finished (exit 0)"
    assert run.data.tags["roofline.headline"]
    assert 0.015 < run.data.metrics["roofline/step_median_seconds"] < 0.5
    shares = [value for name, value in run.data.metrics.items() if name.startswith("roofline/share/worker/")]
    assert shares and sum(shares) == pytest.approx(1, abs=0.02)
    names = {file.path for file in client.list_artifacts(run_id, "roofline")}
    assert names >= {
        f"roofline/{name}" for name in ("verdict.txt", "report.html", "report.json", "account.png")
    }
    verdict = Path(client.download_artifacts(run_id, "roofline/verdict.txt", str(tmp_path)))
    assert verdict.read_text().startswith("Job 42 ")


def test_job_that_is_published_again_is_the_same_run(tracked: Tracked) -> None:
    assert tracked.publish() == tracked.publish()
    assert tracked.publish("--mlflow-experiment", "other") != tracked.publish()


def test_what_mlflow_refuses_is_said(tracked: Tracked) -> None:
    done = tracked.site.ask("publish", "42", "--mlflow", tracked.uri, "--mlflow-run", "0" * 32)
    assert (
        done.returncode == 1 and "did not accept job 42" in done.stderr and len(done.stderr.splitlines()) == 1
    )
