"""A process that writes a title over its arguments and variables (setproctitle) stays what it is."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.run.witness import TITLE

from tests.fakes import add_process

OF_SLURM = {"SLURM_JOB_ID": "77", "SLURM_PROCID": "0", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "1"}
OF_TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
RANK = {**OF_SLURM, **OF_TORCHRUN, "OMP_NUM_THREADS": "3"}


def add_titled(proc: Path, pid: int, environ: bytes, title: str = "resnet50") -> None:
    """As the kernel shows it: the title, and NULs to where the variables ended."""
    add_process(proc, pid, environ, (title,))


@pytest.mark.parametrize("rest", [b"\0" * 90, b"ain lr=0.1" + b"\0" * 80], ids=["short", "long"])
def test_rank_that_gives_itself_a_title_stays_that_rank(rest: bytes, tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK)
    discovery = Discovery(str(tmp_path))
    started, _ = discovery.scan()
    add_titled(tmp_path, 11, rest)
    for _ in range(40):
        assert discovery.scan() == ([], [])
    assert [(rank.job, rank.key) for rank in started] == [("77", "ddp:1")]
    assert discovery.environment(started[0])["OMP_NUM_THREADS"] == "3"


def test_rank_with_a_title_that_reports_which_rank_it_is_keeps_its_job(tmp_path: Path) -> None:
    add_process(tmp_path, 11, OF_SLURM)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    add_titled(tmp_path, 11, b"\0" * 90)
    discovery.report(11, OF_TORCHRUN)
    assert [(rank.job, rank.key) for rank in discovery.ranks.values()] == [("77", "ddp:1")]


def test_shell_that_becomes_a_training_with_a_title_is_a_rank(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK, ("bash", "train.sh"))
    discovery = Discovery(str(tmp_path))
    assert discovery.scan() == ([], [])
    add_titled(tmp_path, 11, b"\0" * 90)
    assert [(rank.job, rank.key) for rank in discovery.scan()[0]] == [("77", "ddp:1")]


def test_witness_of_a_wrapper_that_was_seen_before_it_had_its_title_is_no_rank(tmp_path: Path) -> None:
    wrapper = ("python", "/usr/bin/roofline-agent", "run", "--", "python", "train.py")
    add_process(tmp_path, 11, RANK, wrapper)
    add_process(tmp_path, 12, RANK, ("python", "train.py"), parent=11)
    add_process(tmp_path, 13, RANK, wrapper, parent=11)  # just forked, on a busy machine
    discovery = Discovery(str(tmp_path))
    assert [rank.pid for rank in discovery.scan()[0]] == [12]
    add_process(tmp_path, 13, b"\0" * 90, (TITLE.decode(),), parent=11)
    for _ in range(40):
        assert discovery.scan() == ([], [])


def test_process_that_has_a_pid_again_is_not_the_one_before(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    add_process(tmp_path, 11, b"\0" * 90, ("resnet50",), start_ticks=200)
    assert [rank.pid for rank in discovery.scan()[1]] == [11]


def test_variables_that_cannot_be_read_once_end_no_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_process(tmp_path, 11, RANK)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    with monkeypatch.context() as patched:

        def fail(pid: int) -> bytes:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        patched.setattr(discovery.processes, "environ", fail)
        assert discovery.scan() == ([], [])
    shutil.rmtree(tmp_path / "11")
    assert [rank.pid for rank in discovery.scan()[1]] == [11]


def test_process_says_with_which_variables_it_was_started(tmp_path: Path) -> None:
    """Its title was there before the agent."""
    add_titled(tmp_path, 11, b"\0" * 90)
    discovery = Discovery(str(tmp_path))
    assert discovery.scan() == ([], [])
    discovery.started_with(11, RANK)
    rank = discovery.look_at(11)
    assert rank is not None and (rank.job, rank.key) == ("77", "ddp:1")
    assert discovery.scan() == ([rank], [])


def test_what_a_process_says_counts_less_than_what_is_read(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK)
    add_process(tmp_path, 12, RANK)
    discovery = Discovery(str(tmp_path))
    discovery.look_at(11)
    add_titled(tmp_path, 11, b"\0" * 90)
    for pid in (11, 12, 13):
        discovery.started_with(pid, {**RANK, "RANK": "0"})
        rank = discovery.look_at(pid)
        assert (rank is None) == (pid == 13)
        assert rank is None or rank.index == 1
