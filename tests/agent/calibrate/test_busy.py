"""A calibration sees the trainings of its node, and itself as none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from roofline_agent.calibrate.busy import Busy, named, refuse_beside, running_ranks
from roofline_agent.records import Rank

from tests.fakes import add_process, clean_environ, ended, wait_for

US = 900
SLURM = {"SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}


def ranks_of(proc: Path) -> list[tuple[str, str, int, int]]:
    return [(rank.job, rank.role, rank.index, rank.pid) for rank in running_ranks(str(proc), US)]


def test_ranks_are_found_in_order_without_launchers_and_loaders(tmp_path: Path) -> None:
    add_process(tmp_path, US, {}, ["python", "/opt/bin/roofline-agent", "calibrate"])
    for pid, role in ((13, "worker"), (12, "ps")):
        add_process(tmp_path, pid, {"ROOFLINE_JOB": "7", "ROOFLINE_ROLE": role})
    add_process(tmp_path, 14, {"ROOFLINE_JOB": "7", "ROOFLINE_ROLE": "worker"}, parent=13)
    add_process(tmp_path, 15, {"ROOFLINE_JOB": "7", "ROOFLINE_ROLE": "chief"}, ["bash", "-c", "train"])
    assert ranks_of(tmp_path) == [("7", "ps", 0, 12), ("7", "worker", 0, 13)]


def test_calibration_started_by_a_batch_system_is_no_training(tmp_path: Path) -> None:
    add_process(tmp_path, 800, {**SLURM, "SLURM_PROCID": "0"}, ["python", "calibrate_all.py"])
    add_process(tmp_path, US, {**SLURM, "SLURM_PROCID": "0"}, ["roofline-agent", "calibrate"], parent=800)
    assert ranks_of(tmp_path) == []
    add_process(tmp_path, 801, {**SLURM, "SLURM_PROCID": "1"})
    assert ranks_of(tmp_path) == [("42", "worker", 1, 801)]


def test_refusal_names_the_ranks_and_says_what_to_do() -> None:
    refuse_beside(())
    with pytest.raises(Busy) as refusal:
        refuse_beside([Rank("7", "ps", 0, 12), Rank("7", "worker", 1, 13)])
    said = str(refusal.value)
    assert "job 7 ps 0 (pid 12), job 7 worker 1 (pid 13)" in said
    assert "--force" in said
    assert refusal.value.exit_code == 6


def test_many_ranks_are_counted() -> None:
    ranks = [Rank("7", "worker", k, 10 + k) for k in range(9)]
    assert named(ranks).endswith("job 7 worker 3 (pid 13) and 5 more")


def test_command_refuses_beside_a_real_rank_and_keeps_nothing(tmp_path: Path) -> None:
    environ = clean_environ(ROOFLINE_JOB="calibrated", ROOFLINE_ROLE="worker")
    sleep = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    with ended(subprocess.Popen(sleep, env=environ, stdout=subprocess.PIPE)) as rank:
        rank.stdout.readline()
        wait_for(lambda: any(one.pid == rank.pid for one in running_ranks()), "the rank in /proc")
        command = [sys.executable, "-m", "roofline_agent", "--state", str(tmp_path), "calibrate", "--quick"]
        done = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 6
        assert "a training runs on this node" in done.stderr
        # Other tests' ranks may be there, too, and only the first few are named.
        found = {one.pid for one in running_ranks()}
        assert rank.pid in found
        assert found & {int(pid) for pid in re.findall(r"\(pid (\d+)\)", done.stderr)}
    assert not os.listdir(tmp_path)
