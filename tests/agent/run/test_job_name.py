"""What a wrapper calls the job before it runs, and what it tells the user of it."""

from __future__ import annotations

import json
import os
import socket

import pytest
from roofline_agent.ranks.identity import LOCAL_JOB, identify
from roofline_agent.ranks.names import job_of, user_of
from roofline_agent.ranks.processes import Processes
from roofline_agent.run.job_name import announcement, with_local_job
from roofline_agent.run.rank_environment import Naming

PYTHON = ("python", "train.py")
WRAPPED = {"ROOFLINE_WRAPPED": "1"}
HOST = socket.gethostname()


def tf_config(role: str, index: int = 0) -> dict[str, str]:
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}


def job(**environ: str) -> str:
    """The job that a command with these variables is of."""
    identity = identify({**environ, **WRAPPED})
    assert identity is not None
    return identity.job


@pytest.mark.parametrize(
    ("naming", "environ", "by_hand"),
    [
        (Naming(), {}, False),
        (Naming(job="42", name="big"), {}, False),
        (Naming(role="ps"), {}, True),
        (Naming(rank=0), {}, True),
        (Naming(), {"ROOFLINE_ROLE": "ps"}, True),
        (Naming(), {"ROOFLINE_RANK": "1"}, True),
    ],
)
def test_ranks_started_by_hand_are_named_by_their_session(
    naming: Naming, environ: dict[str, str], by_hand: bool
) -> None:
    found = with_local_job(environ, naming)
    assert found == {**environ, LOCAL_JOB: job_of(Processes(), os.getpid(), of_session=by_hand)}


def test_name_counts_only_where_nothing_else_names_the_job() -> None:
    environ = with_local_job({}, Naming())
    assert job(**environ) == environ[LOCAL_JOB]
    assert job(**environ, ROOFLINE_JOB="mine") == "mine"
    assert job(**environ, SLURM_JOB_ID="77") == "77"


def test_user_is_told_the_job_and_how_to_ask_for_it() -> None:
    environ = {**WRAPPED, LOCAL_JOB: "alice-train-7-3fa21b07"}
    assert announcement(PYTHON, environ) == (
        "roofline-agent: recorded as job alice-train-7-3fa21b07; "
        "see `roofline-client report --job alice-train-7-3fa21b07`"
    )


def test_name_that_a_shell_would_read_otherwise_is_quoted() -> None:
    words = announcement(PYTHON, {**WRAPPED, "ROOFLINE_JOB": "my job; $HOME"})
    assert words.endswith("`roofline-client report --job 'my job; $HOME'`")
    assert "recorded as job my job; $HOME;" in words


@pytest.mark.parametrize(
    "environ",
    [
        tf_config("worker", 1),
        tf_config("ps"),
        tf_config("evaluator"),
        {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
        {},
    ],
    ids=["second worker", "server", "evaluator", "fourth rank", "no rank"],
)
def test_only_the_first_rank_that_trains_tells(environ: dict[str, str]) -> None:
    assert announcement(PYTHON, {**environ, "ROOFLINE_JOB": "42"}) == ""


@pytest.mark.parametrize(
    "environ", [tf_config("chief"), {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1"}]
)
def test_first_rank_tells(environ: dict[str, str]) -> None:
    assert "recorded as job 42;" in announcement(PYTHON, {**environ, "ROOFLINE_JOB": "42"})


def test_launcher_may_still_name_the_job() -> None:
    environ = with_local_job(WRAPPED, Naming())
    assert announcement(("torchrun", "train.py"), environ) == ""
    assert "recorded as job 42;" in announcement(("torchrun", "train.py"), {**environ, "ROOFLINE_JOB": "42"})


def test_job_of_a_launcher_is_told_by_the_name_that_the_agent_gives_it() -> None:
    rendezvous = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    words = announcement(PYTHON, {**WRAPPED, **rendezvous})
    assert f"ddp-{HOST}" in words
    assert "localhost" not in words
    mpi = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}
    assert f"recorded as job openmpi-{user_of(Processes(), os.getpid())};" in announcement(PYTHON, mpi)


def test_name_that_the_user_gave_stays_as_it_is() -> None:
    assert "recorded as job openmpi;" in announcement(PYTHON, {**WRAPPED, "ROOFLINE_JOB": "openmpi"})


def test_name_with_an_escape_is_shown_as_it_is_sent() -> None:
    words = announcement(PYTHON, {**WRAPPED, "ROOFLINE_JOB": "a\x1b[31m"})
    assert words.endswith("recorded as job a?[31m; see `roofline-client report --job 'a?[31m'`")


def test_name_in_another_encoding_is_shown_as_it_is_read() -> None:
    words = announcement(PYTHON, {**WRAPPED, "ROOFLINE_JOB": os.fsdecode("größer".encode("latin-1"))})
    assert words.endswith(
        "recorded as job gr\ufffd\ufffder; see `roofline-client report --job 'gr\ufffd\ufffder'`"
    )
