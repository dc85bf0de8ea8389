"""Agents and servers of an earlier commit next to today's: nothing is lost, whichever is upgraded first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import REPOSITORY, TRAINING, Site, wait_until

pytestmark = pytest.mark.slow
EARLIER = "f35c4239"  # the first with runs of a number; there is no release yet whose wheel could be taken
STEPS = 40


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The sources from then."""
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    packed = subprocess.run(
        ["git", "-C", REPOSITORY, "archive", EARLIER, "agent", "server", "client", "proto"],
        capture_output=True,
    )
    if packed.returncode:
        pytest.skip(f"the history has no commit {EARLIER}, as in a shallow clone")
    folder = tmp_path / "earlier"
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", folder], input=packed.stdout, check=True)
    return folder


def sources(root: Path) -> str:
    return os.pathsep.join(str(root / name) for name in ("agent", "server", "client", "proto"))


def serve(site: Site, root: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "roofline_server",
        "--listen",
        site.address,
        "--data",
        site.folder / "data",
    ]
    server = site.start(command, "server.log", PYTHONPATH=sources(root))
    wait_until(site.answers, what="the server answers")
    return server


def watch(site: Site, root: Path) -> None:
    command = [sys.executable, "-m", "roofline_agent", "--interval", "0.1", "--state", site.folder / "agent"]
    site.start(command, "agent.log", PYTHONPATH=sources(root))
    wait_until(site.listens, what="the agent listens")


def train(site: Site, root: Path, job: str = "42") -> None:
    wrap = [sys.executable, "-m", "roofline_agent", "run", "--job", job, "--"]
    training = [sys.executable, TRAINING, STEPS, 0.02, 8]
    config = '{"cluster": {"worker": ["h:2"]}, "task": {"type": "worker", "index": 0}}'
    rank = site.start([*wrap, *training], "rank.log", PYTHONPATH=sources(root), TF_CONFIG=config)
    assert rank.wait(60) == 0, site.log("rank.log")


def all_steps(site: Site, job: str = "42") -> Callable[[], bool]:
    return lambda: site.steps("worker:0", job) == STEPS


def test_agent_of_before_sends_all_steps_to_a_server_of_today(site: Site, earlier: Path) -> None:
    serve(site, REPOSITORY)
    watch(site, earlier)
    train(site, earlier)
    wait_until(all_steps(site), what="all steps are known")


def test_agent_of_today_keeps_all_until_a_server_of_before_is_upgraded(site: Site, earlier: Path) -> None:
    before = serve(site, earlier)
    watch(site, REPOSITORY)
    wait_until(lambda: "update the older side" in site.log("agent.log"), what="the agent says why it waits")
    train(site, REPOSITORY)
    before.terminate()
    assert before.wait(60) == 0
    serve(site, REPOSITORY)
    wait_until(all_steps(site), what="all steps are known")


def test_server_of_today_goes_on_with_the_data_of_before(site: Site, earlier: Path) -> None:
    before = serve(site, earlier)
    watch(site, earlier)
    train(site, earlier)
    wait_until(all_steps(site), what="all steps are known")
    before.terminate()
    assert before.wait(60) == 0
    serve(site, REPOSITORY)
    wait_until(all_steps(site), what="the steps of before are known")
    train(site, earlier, "43")
    wait_until(all_steps(site, "43"), what="the agent found the new server")
