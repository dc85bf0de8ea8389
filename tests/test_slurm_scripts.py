"""The scripts of deploy/slurm by themselves: what they give a task, and that they never drain a node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "deploy" / "slurm"
NAMES = ["epilog.sh", "prolog.sh", "task_prolog.sh"]


class Node:
    """A node with roofline in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hooks = folder / "opt/lib/python3.11/site-packages/roofline_agent/hooks/inject"
        self.kept = folder / "run"

    def run(self, script: str, **environ: str) -> list[str]:
        text = (SCRIPTS / script).read_text()
        for place, ours in (("/opt/roofline", "opt"), ("/run/roofline-slurm", "run")):
            text = text.replace(place, str(self.folder / ours))
        variables = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7", **environ}
        done = subprocess.run(["sh", "-c", text], env=variables, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("script", NAMES)
def test_scripts_are_well_formed_and_can_be_run(script: str) -> None:
    assert (SCRIPTS / script).stat().st_mode & 0o111 == 0o111
    assert subprocess.run(["sh", "-n", SCRIPTS / script]).returncode == 0


@pytest.mark.parametrize("script", NAMES)
def test_scripts_succeed_where_nothing_is_installed(node: Node, script: str) -> None:
    node.run(script, SLURM_NODELIST="n1", SLURMD_NODENAME="n1")


def test_task_gets_hooks_once_and_before_its_own_path(node: Node) -> None:
    node.hooks.mkdir(parents=True)
    (line,) = node.run("task_prolog.sh", PYTHONPATH="/mine")
    assert line == f"export PYTHONPATH={node.hooks}:/mine"
    assert node.run("task_prolog.sh", PYTHONPATH=f"{node.hooks}:/mine") == []


def test_tasks_of_the_job_are_kept_for_its_steps(node: Node) -> None:
    assert node.run("task_prolog.sh", SLURM_NTASKS="8") == ["export ROOFLINE_SLURM_TASKS=8"]
    again = node.run("task_prolog.sh", SLURM_NTASKS="2", ROOFLINE_SLURM_TASKS="8")
    assert again == ["export ROOFLINE_SLURM_TASKS=8"]


def test_comment_keeps_a_job_out(node: Node) -> None:
    node.hooks.mkdir(parents=True)
    node.run("prolog.sh", SLURM_JOB_COMMENT="my run, noroofline", SLURM_JOB_RESTART_COUNT="1")
    assert (node.kept / "7").read_text().splitlines() == ["1", "my run, noroofline"]
    path = f"export PYTHONPATH={node.hooks}"
    assert node.run("task_prolog.sh") == ["export ROOFLINE_DISABLE=1", path]
    assert node.run("task_prolog.sh", SLURM_JOB_ID="8") == [path]
    node.run("epilog.sh", SLURM_NODELIST="n1", SLURMD_NODENAME="n1")
    assert not (node.kept / "7").exists()
