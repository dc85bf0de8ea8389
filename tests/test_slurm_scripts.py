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
        variables = {name: value for name, value in variables.items() if value}
        done = subprocess.run(["/bin/sh", "-c", text], env=variables, capture_output=True, text=True)
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


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("echo no agent >&2; exit 0", "no agent"),
        ("exit 1", "ended with 1: how job 7 ended may not be recorded"),
        (None, "ended with 127"),
    ],
)
def test_what_fails_in_the_epilog_is_in_the_nodes_log(node: Node, agent: str | None, words: str) -> None:
    log = node.folder / "log"
    programs = {"opt/bin/roofline-agent": agent, "bin/logger": f'echo "$@" > {log}; cat >> {log}'}
    for name, text in programs.items():
        if text is not None:
            (node.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (node.folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (node.folder / name).chmod(0o755)
    node.run("epilog.sh", SLURMD_NODENAME="n1", PATH=f"{node.folder}/bin:/usr/bin:/bin")
    assert log.read_text().startswith("-t roofline-epilog\n") and words in log.read_text()


def test_epilogs_agent_looks_for_scontrol_where_its_shell_does(node: Node) -> None:
    """Slurm gives an epilog no PATH."""
    agent = node.folder / "opt/bin/roofline-agent"
    agent.parent.mkdir(parents=True)
    agent.write_text(f"#!/bin/sh\n/usr/bin/env > {node.folder}/given\n")
    agent.chmod(0o755)
    node.run("epilog.sh", SLURMD_NODENAME="n1", PATH="")
    lines = (node.folder / "given").read_text().splitlines()
    (path,) = [line for line in lines if line.startswith("PATH=")]
    assert "/usr/local/bin" in path.removeprefix("PATH=").split(":")


def test_parameter_servers_of_jobs_that_follow_each_other_have_ports_of_their_own() -> None:
    script = SCRIPTS.parents[1] / "examples" / "slurm" / "ps.sbatch"
    (line,) = [one for one in script.read_text().splitlines() if one.startswith("port=")]
    loop = f"for SLURM_JOB_ID in $(seq 4700 4900); do {line}; echo $port; done"
    done = subprocess.run(["bash", "-c", f"SLURM_NTASKS=3; {loop}"], capture_output=True, text=True)
    ports = [port for first in map(int, done.stdout.split()) for port in range(first, first + 4)]
    assert len(ports) == 201 * 4 == len(set(ports))
    assert min(ports) > 9999 and max(ports) < 32768, "from there on the kernel gives ports away"


def test_task_gets_hooks_once_and_before_its_own_path(node: Node) -> None:
    node.hooks.mkdir(parents=True)
    (line,) = node.run("task_prolog.sh", PYTHONPATH="/mine")
    assert line == f"export PYTHONPATH={node.hooks}:/mine"
    assert node.run("task_prolog.sh", PYTHONPATH=f"{node.hooks}:/mine") == []


def test_tasks_of_the_job_are_kept_for_its_steps(node: Node) -> None:
    eight = ["export ROOFLINE_SLURM_TASKS=8", "export ROOFLINE_SLURM_TASKS_OF=7"]
    assert node.run("task_prolog.sh", SLURM_NTASKS="8") == eight
    assert node.run("task_prolog.sh", SLURM_NTASKS="2", **given(eight)) == eight
    part = {"SLURM_JOB_ID": "8", "SLURM_HET_JOB_ID": "7"}
    assert node.run("task_prolog.sh", SLURM_NTASKS="2", **part, **given(eight)) == eight


def given(lines: list[str]) -> dict[str, str]:
    """Variables that a task has after these lines."""
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


def test_job_that_is_submitted_from_within_another_has_tasks_and_opt_out_of_its_own(node: Node) -> None:
    node.run("prolog.sh", SLURM_JOB_COMMENT="noroofline")
    first = node.run("task_prolog.sh", SLURM_NTASKS="8")
    assert first[:2] == ["export ROOFLINE_DISABLE=1", "export ROOFLINE_DISABLE_OF=7"]
    assert node.run("task_prolog.sh", SLURM_NTASKS="2", **given(first)) == first[2:], "a step of it"
    own = ["export ROOFLINE_SLURM_TASKS=2", "export ROOFLINE_SLURM_TASKS_OF=8"]
    undone = ["unset ROOFLINE_DISABLE", "unset ROOFLINE_DISABLE_OF"]
    within = {"SLURM_JOB_ID": "8", "SLURM_NTASKS": "2"}
    assert node.run("task_prolog.sh", **within, **given(first)) == [*undone, *own]
    by_user = node.run("task_prolog.sh", **within, ROOFLINE_DISABLE="1")
    assert by_user == own, "what the user sets stays, in jobs within too"
    node.run("prolog.sh", SLURM_JOB_ID="8", SLURM_JOB_COMMENT="noroofline")
    again = ["export ROOFLINE_DISABLE=1", "export ROOFLINE_DISABLE_OF=8"]
    assert node.run("task_prolog.sh", **within, **given(first)) == [*undone, *again, *own]


def test_comment_keeps_a_job_out(node: Node) -> None:
    node.hooks.mkdir(parents=True)
    node.run("prolog.sh", SLURM_JOB_COMMENT="my run, noroofline", SLURM_JOB_RESTART_COUNT="1")
    assert (node.kept / "7").read_text().splitlines() == ["1", "my run, noroofline"]
    path = f"export PYTHONPATH={node.hooks}"
    disabled = ["export ROOFLINE_DISABLE=1", "export ROOFLINE_DISABLE_OF=7"]
    assert node.run("task_prolog.sh") == [*disabled, path]
    assert node.run("task_prolog.sh", SLURM_JOB_ID="8") == [path]
    node.run("epilog.sh", SLURM_NODELIST="n1", SLURMD_NODENAME="n1")
    assert not (node.kept / "7").exists()
