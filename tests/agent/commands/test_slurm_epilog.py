"""The epilog's end of a job reaches the agent, and no failure of it anybody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from roofline_agent.commands.slurm_epilog import scontrol, tell
from roofline_agent.ranks.slurm import ENDED, parse_end

from tests.fakes import FakeAgent

EPILOG = {"SLURM_JOB_ID": "7", "SLURM_JOB_NTASKS": "4", "ROOFLINE_SLURM_RESTARTS": "0"}


def test_end_of_the_job_is_sent(tmp_path: Path) -> None:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        tell(
            EPILOG,
            tmp_path / "agent.sock",
            lambda job: f"JobId={job} JobState=COMPLETING Reason=None ExitCode=0:0",
        )
        ((_, data),) = agent.receive(1)
    name, _, value = data[4:].decode().partition("=")
    assert (name, parse_end(value)[:3]) == (ENDED, ("7", "COMPLETED", "0"))


def test_nothing_is_sent_outside_of_slurm(tmp_path: Path) -> None:
    tell({}, tmp_path / "agent.sock", lambda job: pytest.fail("asked"))


def test_controller_that_is_not_there_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    assert scontrol("7") == ""
