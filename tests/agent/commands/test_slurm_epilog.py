"""The epilog's end of a job reaches the agent, and no failure of it anybody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from roofline_agent.commands.slurm_epilog import scontrol, tell
from roofline_agent.ranks.slurm import ENDED, parse_end

from tests.fakes import FakeAgent

from ..place import run

EPILOG = {"SLURM_JOB_ID": "7", "SLURM_JOB_NTASKS": "4", "ROOFLINE_SLURM_RESTARTS": "0"}


def test_end_of_the_job_is_sent(tmp_path: Path) -> None:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        problem = tell(
            EPILOG,
            tmp_path / "agent.sock",
            lambda job: f"JobId={job} JobState=COMPLETING Reason=None ExitCode=0:0",
        )
        assert problem == ""
        ((_, data),) = agent.receive(1)
    name, _, value = data[4:].decode().partition("=")
    assert (name, parse_end(value)[:3]) == (ENDED, ("7", "COMPLETED", "0"))


def test_controller_that_does_not_answer_is_said_and_the_end_is_sent(tmp_path: Path) -> None:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        assert "scontrol has not shown it" in tell(EPILOG, tmp_path / "agent.sock", lambda job: "")
        assert len(agent.receive(1)) == 1


@pytest.mark.parametrize(
    ("options", "environ", "words"),
    [
        ((), {}, "no agent takes it at {}/agent.sock (No such file or directory): start roofline-agent"),
        (("--config", "none.toml"), {}, "cannot read the configuration none.toml"),
        ((), {"SLURM_JOB_ID": ""}, "SLURM_JOB_ID is not set"),
    ],
    ids=["no agent", "bad file", "no job"],
)
def test_what_fails_is_one_line_and_drains_no_node(
    tmp_path: Path, options: tuple[str, ...], environ: dict[str, str], words: str
) -> None:
    given = {**EPILOG, "PATH": str(tmp_path), **environ}
    done = run("--socket", str(tmp_path / "agent.sock"), *options, "slurm-epilog", **given)
    (said,) = done.stderr.splitlines()
    assert words.format(tmp_path) in said
    assert (done.returncode, done.stdout) == (0, "")


def test_nothing_is_sent_outside_of_slurm(tmp_path: Path) -> None:
    tell({}, tmp_path / "agent.sock", lambda job: pytest.fail("asked"))


def test_controller_that_is_not_there_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    assert scontrol("7") == ""
