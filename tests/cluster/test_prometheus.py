"""A real Prometheus scrapes a real server with TLS and tokens, with the files of deploy/prometheus."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes import free_port

from ..end_to_end.conftest import COMMANDS, REPOSITORY, Site, wait_until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not shutil.which("prometheus"), reason="install prometheus"),
]
DEPLOYED = REPOSITORY / "deploy" / "prometheus"
# What dashboards write for the variables that Grafana fills in.
VARIABLES = {"$instance": ".*", "$job": "42", "$account": ".*", "$__rate_interval": "1m"}


TORCH = os.environ.get("ROOFLINE_TORCH_PYTHON", "")


def filled_in(expression: str) -> str:
    """As Grafana sends it."""
    for variable, text in VARIABLES.items():
        expression = expression.replace(variable, text)
    return expression


class Monitored:
    """A server, an agent with a training, and a Prometheus that scrapes it each second."""

    def __init__(self, site: Site) -> None:
        self.site, folder = site, site.folder
        self.http, self.port = f"127.0.0.1:{free_port()}", free_port()
        self.environ = {"HOME": str(folder), "ROOFLINE_LISTEN": site.address}
        site.environ |= {"HOME": str(folder)}
        self.run("roofline-server", "init", "--data", folder / "data")
        # At all addresses, so with TLS and a token.
        site.server("--http", self.http.replace("127.0.0.1", "0.0.0.0"))
        state = folder / "agent"
        self.run("roofline-agent", "--state", state, "join", site.address, self.token())
        self.run("roofline-agent", "--state", state, "calibrate", "--quick", "--force")
        site.agent()
        self._train()
        self.run("roofline-client", "join", site.address, self.token("--role", "reader"))
        self._scrape(json.loads((folder / ".config/roofline/servers.json").read_text()))

    def run(self, command: str, *words: Any) -> str:
        process = self.site.start([COMMANDS / command, *words], "commands.log", **self.environ)
        assert process.wait(120) == 0, self.site.log("commands.log")
        return self.site.log("commands.log")

    def _train(self) -> None:
        """Two ranks of PyTorch of which one is slow, where there is PyTorch; else one that pretends."""
        if not TORCH:
            self.site.rank("worker", 0, 100_000, 0.01, 8)
            return
        training = REPOSITORY / "examples" / "torch_ddp" / "train.py"
        options = ["--steps", 1_000_000, "--slow-rank", 1, "--slow-seconds", 0.05]
        command = [COMMANDS / "roofline-agent", "run", "--job", "42", "--", TORCH, training, *options]
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
        for rank in range(2):
            self.site.start(command, f"ddp{rank}.log", RANK=str(rank), PYTHONPATH="", **meet)

    def token(self, *options: str) -> str:
        said = self.run("roofline-server", "token", "new", "--data", self.site.folder / "data", *options)
        return said.split()[-1]

    def _scrape(self, joined: dict[str, Any]) -> None:
        folder, (access,) = self.site.folder, joined["known"].values()
        (folder / "roofline.token").write_text(access["token"])
        (folder / "roofline-authority.pem").write_text(access["authority"])
        text = (DEPLOYED / "prometheus.yml").read_text()
        for old, new in {
            "15s": "1s",
            "/etc/prometheus": str(folder),
            "head:7643": self.http,
            "[roofline.rules.yml]": f"[{DEPLOYED}/roofline.rules.yml]",
        }.items():
            assert old in text
            text = text.replace(old, new)
        (folder / "prometheus.yml").write_text(text)
        listen = f"--web.listen-address=127.0.0.1:{self.port}"
        files = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb"]
        self.site.start([shutil.which("prometheus"), *files, listen], "prometheus.log")

    def ask(self, path: str, **words: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        with contextlib.suppress(OSError):
            found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
            return found
        return []


@pytest.fixture(scope="module")
def monitored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitored]:
    site = Site(tmp_path_factory.mktemp("prometheus"))
    try:
        yield Monitored(site)
    finally:
        site.stop()


def test_server_and_its_jobs_are_scraped(monitored: Monitored) -> None:
    ready = wait_until(lambda: monitored.query("roofline_ready"), 60, monitored.site.log("server.log"))
    assert (ready[0]["value"][1], ready[0]["metric"]["job"]) == ("1", "roofline")
    steps = wait_until(lambda: monitored.query('roofline_job_step_seconds{job="42"}'), 90, "steps of job 42")
    assert 0.005 < float(steps[0]["value"][1]) < 0.5
    # This machine may have trainings of others, which the agent sees too.
    assert len(monitored.query('roofline_job_info{job="42"}')) == 1


def test_rules_are_loaded_and_healthy(monitored: Monitored) -> None:
    def groups() -> list[dict[str, Any]]:
        with contextlib.suppress(OSError):
            found: list[dict[str, Any]] = monitored.ask("rules")["groups"]
            evaluated = all(rule["health"] != "unknown" for group in found for rule in group["rules"])
            return found if evaluated else []
        return []

    rules = [rule for group in wait_until(groups, 90, "rules are evaluated") for rule in group["rules"]]
    assert len(rules) == 14 and all(rule["health"] == "ok" for rule in rules), rules
    firing = {rule["name"] for rule in rules if rule.get("state") == "firing"}
    assert not firing & {"RooflineServerNotReady", "RooflineInboxFailing", "RooflineDamagedFiles"}


@pytest.mark.parametrize("name", ["server", "jobs"])
def test_all_panels_of_a_dashboard_have_data(monitored: Monitored, name: str) -> None:
    dashboard = json.loads((REPOSITORY / "deploy" / "grafana" / f"{name}.json").read_text())
    wait_until(lambda: monitored.query('roofline_job_step_seconds{job="42"}'), 90, "steps of job 42")

    def empty() -> list[str]:
        asked = [(p["title"], filled_in(t["expr"])) for p in dashboard["panels"] for t in p["targets"]]
        # `ask` raises for what Prometheus does not understand.
        return [f"{title}: {e}" for title, e in asked if not monitored.ask("query", query=e)["result"]]

    if TORCH:
        wait_until(lambda: not empty(), 120, "data for all panels")
    elif name == "jobs":
        assert len(empty()) < len(dashboard["panels"]), "a pretended training has no FLOPs, for one"


def test_scrape_without_a_token_is_refused(monitored: Monitored) -> None:
    context = ssl.create_default_context(cafile=str(monitored.site.folder / "roofline-authority.pem"))
    context.check_hostname = False
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"https://{monitored.http}/metrics", context=context, timeout=10)
