"""Names of jobs that nobody named: one for all ranks of a launch, another for everything else."""

from __future__ import annotations

import getpass
import os
import re
from pathlib import Path

import pytest
from roofline_agent.ranks.names import MAX_SCRIPT, MAX_USER, job_of, launch_of, name_of, submitter, user_of
from roofline_agent.ranks.processes import Processes

from tests.fakes import add_process

USER = getpass.getuser()
TORCHRUN = ("python", "/usr/bin/torchrun", "--nproc-per-node", "2", "train.py", "--epochs", "3")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    boot = tmp_path / "sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("5f3c\n")
    return tmp_path


def job(proc: Path, pid: int, of_session: bool = False) -> str:
    return job_of(Processes(str(proc)), pid, of_session)


def launch(proc: Path, pid: int) -> str:
    return launch_of(Processes(str(proc)), pid)


def script(proc: Path, *command: str) -> str:
    """The script in the name of the job of a process with this command."""
    add_process(proc, 500, {}, command)
    found = re.fullmatch(rf"{re.escape(USER)}(?:-(.*))?-500-[0-9a-f]{{8}}", job(proc, 500))
    assert found is not None
    return found[1] or ""


def test_ranks_of_one_launcher_are_one_job_that_is_called_by_it(proc: Path) -> None:
    add_process(proc, 100, {}, TORCHRUN)
    add_process(proc, 101, {}, ("python", "train.py"), parent=100)
    add_process(proc, 102, {}, ("roofline-agent", "run", "--", "python", "train.py"), parent=100)
    add_process(proc, 103, {}, ("python", "train.py"), parent=102)
    names = {job(proc, pid) for pid in (101, 102, 103)}
    assert len(names) == 1
    assert re.fullmatch(rf"{re.escape(USER)}-train-100-[0-9a-f]{{8}}", names.pop())


def test_topmost_launcher_counts(proc: Path) -> None:
    add_process(proc, 90, {}, ("mpirun", "-n", "2", "python", "train.py"))
    add_process(proc, 100, {}, TORCHRUN, parent=90)
    add_process(proc, 101, {}, parent=100)
    assert "-90-" in job(proc, 101)


def test_shell_above_is_no_launch_of_a_job(proc: Path) -> None:
    add_process(proc, 90, {}, ("bash", "night.sh"))
    for pid in (101, 102):
        add_process(proc, pid, {}, parent=90)
    assert "-101-" in job(proc, 101)
    assert "-102-" in job(proc, 102)


def test_ranks_that_were_started_one_by_one_share_the_session_they_were_started_from(proc: Path) -> None:
    add_process(proc, 90, {}, ("bash",), session=90)
    for pid, name in ((101, "ps.py"), (102, "worker.py")):
        add_process(proc, pid, {}, ("python", name), parent=90, session=90)
    found = {job(proc, pid, of_session=True) for pid in (101, 102)}
    assert len(found) == 1
    assert re.fullmatch(rf"{re.escape(USER)}-90-[0-9a-f]{{8}}", found.pop())


def test_launcher_goes_before_the_session(proc: Path) -> None:
    add_process(proc, 100, {}, TORCHRUN, session=90)
    add_process(proc, 101, {}, parent=100, session=90)
    assert job(proc, 101, of_session=True) == job(proc, 101)


def test_pid_that_is_used_again_is_another_job(proc: Path) -> None:
    add_process(proc, 100, {}, TORCHRUN, start_ticks=100)
    first = job(proc, 100), launch(proc, 100)
    add_process(proc, 101, {}, parent=100)
    first = job(proc, 101), launch(proc, 101)
    add_process(proc, 100, {}, TORCHRUN, start_ticks=200)
    after = job(proc, 101), launch(proc, 101)
    assert first[0] != after[0]
    assert first[1] != after[1]


def test_same_pid_and_start_after_another_boot_is_another_job(proc: Path) -> None:
    add_process(proc, 100, {})
    before = job(proc, 100)
    (proc / "sys/kernel/random/boot_id").write_text("77aa\n")
    assert job(proc, 100) != before


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --epochs 3", "train"),
        ("python -u /home/a/nets/train.py eval.py", "train"),
        ("python -m nets.train --epochs 3", "train"),
        ("torchrun -m nets.train", "train"),
        ("python -m torch.distributed.run -m nets.train", "train"),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "train"),
        ("./train --epochs 3", "train"),
        ("python -m", "python"),
        ("python my(train)+1.py", "my-train-1"),
        ("python ???.py", ""),
        ("python " + "x" * 100 + ".py", "x" * MAX_SCRIPT),
    ],
)
def test_job_is_called_by_the_program_that_trains(proc: Path, command: str, name: str) -> None:
    assert script(proc, *command.split()) == name


def test_process_without_a_command_line_has_a_name_all_the_same(proc: Path) -> None:
    assert script(proc) == ""


def test_process_that_has_gone_has_a_name_all_the_same(proc: Path) -> None:
    assert re.fullmatch(r"999-[0-9a-f]{8}", job(proc, 999))
    assert job(proc, 999, of_session=True) == job(proc, 999)
    assert launch(proc, 999) == ""


def test_rank_that_is_started_again_is_of_the_same_launch(proc: Path) -> None:
    add_process(proc, 80, {}, ("bash",))
    add_process(proc, 90, {}, ("roofline-agent", "run", "--", "torchrun", "train.py"), parent=80)
    add_process(proc, 100, {}, TORCHRUN, parent=90)
    for pid in (101, 102):
        add_process(proc, pid, {}, parent=100)
    assert launch(proc, 101) == launch(proc, 102)
    assert re.fullmatch(r"90-[0-9a-f]{8}", launch(proc, 101))
    # The topmost itself has none above it.
    assert launch(proc, 90) == ""


def test_mpirun_starts_no_rank_again(proc: Path) -> None:
    add_process(proc, 100, {}, ("mpirun", "-n", "2", "python", "train.py"))
    add_process(proc, 101, {}, parent=100)
    assert launch(proc, 101) == ""


def test_user(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_process(proc, 100, {})
    assert user_of(Processes(str(proc)), 100) == USER
    monkeypatch.setattr(Processes, "owner", lambda self, pid: 4_000_000)  # of a container's own users
    assert user_of(Processes(str(proc)), 100) == "uid4000000"


def test_name_of_a_process_of_this_machine() -> None:
    assert f"-{os.getpid()}-" in job_of(Processes(), os.getpid(), of_session=False)


def test_submitter_is_the_owner_and_in_a_container_of_root_whom_slurm_says() -> None:
    of_slurm = {"SLURM_JOB_USER": "alice"}
    assert submitter(0, {}) == name_of(0)
    assert submitter(0, of_slurm) == "alice"
    assert submitter(4_000_000_000, of_slurm) == "uid4000000000", "its own word against the kernel's"
    assert len(submitter(0, {"SLURM_JOB_USER": "a" * 1000})) == MAX_USER
