"""What a user does when data are damaged, or must not be lost: check, repair, back up, restore."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import COMMANDS, Site, wait_until

STEPS = 60


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Any, str]]:
    """A site whose server was stopped after a job, what it said of the job, and a backup made meanwhile."""
    site = Site(tmp_path_factory.mktemp("stopped"))
    try:
        server = site.server("--seal", "0.3")
        agent = site.agent()
        worker = site.rank("worker", 0, STEPS, 0.03, 16)
        wait_until(lambda: site.steps("worker:0") > 5, what="steps arrive")
        assert run(site, "backup", str(site.folder / "early")).returncode == 0
        assert worker.wait(timeout=60) == 0
        wait_until(lambda: site.worked("worker:0", STEPS), what="all steps arrive")
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(timeout=60) == 0
        made = run(site, "backup", str(site.folder / "late"))
        assert made.returncode == 0, made.stdout + made.stderr
        before = said(site)
        stop(server)
        yield site, before, made.stdout
    finally:
        site.stop()


def run(site: Site, *arguments: str, data: str = "data") -> subprocess.CompletedProcess[str]:
    command = [str(COMMANDS / "roofline-server"), *arguments, "--data", str(site.folder / data)]
    return subprocess.run(command, env=site.environ, capture_output=True, text=True, timeout=60)


def stop(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=60) == 0


def said(site: Site) -> tuple[Any, ...]:
    """What the server says of the job, but for what follows the clock on the wall."""
    steps = site.ask("steps", "42", "--format", "csv")
    assert steps.returncode == 0, steps.stderr
    report = site.report()
    return steps.stdout, report["ranks"], report["roles"], site.ask("machines", "--format", "json").stdout


def served(site: Site, data: Path, wanted: Any) -> None:
    server = site.start(
        [COMMANDS / "roofline-server", "--listen", site.address, "--data", data], f"{data.name}.log"
    )
    try:
        wait_until(site.answers, what="the server answers")
        steps, ranks, roles, machines = said(site)
        assert steps == wanted[0]
        assert (ranks, roles) == wanted[1:3]
        assert json.loads(machines) == json.loads(wanted[3])
    finally:
        stop(server)


@pytest.mark.slow
def test_lost_catalog_is_made_anew_and_the_job_is_as_before(stopped: tuple[Site, Any, str]) -> None:
    site, before, _ = stopped
    sound = run(site, "check")
    assert (sound.returncode, sound.stdout.splitlines()[-1]) == (0, "no problems found"), sound.stdout
    for path in (site.folder / "data").glob("catalog.db*"):
        path.unlink()
    lost = run(site, "check", "--format", "json")
    assert lost.returncode == 1
    assert [found["what"] for found in json.loads(lost.stdout)["findings"]] == ["catalog.db"]
    mended = run(site, "check", "--repair")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert "catalog.db is made anew of catalog.copy.db" in mended.stdout
    served(site, site.folder / "data", before)


@pytest.mark.slow
def test_backups_of_a_running_server_are_restored_by_starting_them(stopped: tuple[Site, Any, str]) -> None:
    site, before, text = stopped
    assert "no problems found" in text and f"--data {site.folder / 'late'}" in text
    served(site, site.folder / "late", before)
    assert run(site, "check", data="early").returncode == 0


@pytest.mark.slow
def test_check_of_a_directory_that_a_server_works_with_is_refused(
    stopped: tuple[Site, Any, str], tmp_path: Path
) -> None:
    site, _, _ = stopped
    server = site.server()
    try:
        refused = run(site, "check", "--repair")
        assert refused.returncode == 6 and "stop it" in refused.stderr
    finally:
        stop(server)
    for wrong in (["check", "--data", str(tmp_path / "none")], ["check", "--format", "xml"]):
        done = subprocess.run(
            [str(COMMANDS / "roofline-server"), *wrong], env=site.environ, capture_output=True, text=True
        )
        assert done.returncode in (2, 6) and "Traceback" not in done.stderr
