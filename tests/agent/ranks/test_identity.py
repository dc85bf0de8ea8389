"""Ranks by the variables that launchers set, as recorded, and by what processes report of themselves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.ranks.identity import Identity, identify, identify_from_inside, may_name_a_rank
from roofline_agent.ranks.known_claims import SHARED_SCANS
from roofline_agent.ranks.scanned import LIST_AGAIN_SCANS

from tests.fakes import add_process

# -- what launchers set, as recorded ------------------------------------------------------------------------

TORCHRUN = {
    "LOCAL_RANK": "1",
    "RANK": "5",
    "GROUP_RANK": "1",
    "ROLE_RANK": "5",
    "ROLE_NAME": "default",
    "LOCAL_WORLD_SIZE": "4",
    "WORLD_SIZE": "8",
    "GROUP_WORLD_SIZE": "2",
    "ROLE_WORLD_SIZE": "8",
    "MASTER_ADDR": "node1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RUN_ID": "none",
}
DEEPSPEED = {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "WORLD_SIZE": "2",
    "CROSS_RANK": "0",
    "CROSS_SIZE": "1",
    "LOCAL_SIZE": "2",
    "RANK": "1",
    "LOCAL_RANK": "1",
}
ACCELERATE = {**TORCHRUN, "ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_USE_FSDP": "true"}
INTEL_MPI = {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
MVAPICH = {"MV2_COMM_WORLD_RANK": "2", "MV2_COMM_WORLD_SIZE": "4", "MV2_COMM_WORLD_LOCAL_RANK": "0"}
SLURM = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": "6", "SLURM_NTASKS": "8"}
JAX = {"JAX_COORDINATOR_ADDRESS": "node1:1234", "JAX_NUM_PROCESSES": "4", "JAX_PROCESS_ID": "2"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (TORCHRUN, Identity("ddp-node1-29500", "ddp", 5, 8, "torchrun")),
        (DEEPSPEED, Identity("ddp-127.0.0.1-29500", "ddp", 1, 2, "torchrun")),
        (ACCELERATE, Identity("ddp-node1-29500", "ddp", 5, 8, "torchrun")),
        (INTEL_MPI, Identity("mpi", "horovod", 3, 4, "mpich")),
        (MVAPICH, Identity("mpi", "horovod", 2, 4, "mvapich")),
        (SLURM, Identity("77", "worker", 6, 8, "slurm")),
        ({**SLURM, "PMI_RANK": "6", "PMI_SIZE": "8"}, Identity("77", "worker", 6, 8, "slurm")),
        ({**SLURM, "SLURM_PROCID": "0", **INTEL_MPI}, Identity("77", "horovod", 3, 4, "mpich")),
        (
            {**SLURM, "SLURM_PROCID": "3", "SLURM_NTASKS": "4", **INTEL_MPI},
            Identity("77", "horovod", 3, 4, "mpich"),
        ),
        (
            {**SLURM, "SLURM_PROCID": "0", "PMI_RANK": "0", "PMI_SIZE": "16"},
            Identity("77", "horovod", 0, 16, "mpich"),
        ),
        ({**SLURM, **TORCHRUN}, Identity("77", "ddp", 5, 8, "torchrun")),
        (JAX, Identity("jax-node1:1234", "worker", 2, 4, "jax")),
        ({**SLURM, **JAX}, Identity("77", "worker", 6, 8, "slurm")),
    ],
)
def test_launchers(environ: dict[str, str], expected: Identity) -> None:
    assert may_name_a_rank(b"\0".join(f"{k}={v}".encode() for k, v in environ.items()))
    assert identify(environ) == expected


# -- what a process reports itself --------------------------------------------------------------------------

OF_DRIVER = {"ROOFLINE_WRAPPED": "1", "ROOFLINE_JOB": "5", "ROOFLINE_ROLE": "driver", "ROOFLINE_RANK": "9"}


def inside(rank: int) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "", "MASTER_PORT": ""}


def test_launcher_that_says_the_same_keeps_its_word() -> None:
    reported = {"JAX_PROCESS_ID": "6", "JAX_NUM_PROCESSES": "8"}
    assert identify_from_inside(SLURM, reported) == identify(SLURM)
    other = identify_from_inside(SLURM, {**reported, "JAX_PROCESS_ID": "3"})
    assert other == Identity("77", "worker", 3, 8, "jax")


@pytest.mark.parametrize("reported, role", [(inside(1), "ddp"), ({}, "horovod")])
def test_what_mpi_started_says_what_it_is(reported: dict[str, str], role: str) -> None:
    started = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
    assert identify_from_inside(started, reported) == Identity("openmpi", role, 1, 2, "openmpi")
    said = {**started, "ROOFLINE_ROLE": "trainer"}
    assert identify_from_inside(said, reported) == Identity("openmpi", "trainer", 1, 2, "openmpi")


def test_user_names_a_rank_but_not_those_that_it_starts() -> None:
    assert identify_from_inside(OF_DRIVER, inside(1)) == Identity("5", "driver", 9, 2, "torchrun")
    started = identify_from_inside(OF_DRIVER, inside(1), inherited=True)
    assert started == Identity("5", "ddp", 1, 2, "torchrun")


def test_workers_that_report_themselves_are_ranks_and_their_driver_is_none(tmp_path: Path) -> None:
    """As in Ray: driver, raylet, two workers, a data loader, a helper that has overwritten its variables."""
    wrapped = {"ROOFLINE_WRAPPED": "1", "ROOFLINE_JOB": "5"}
    add_process(tmp_path, 10, wrapped)
    discovery = Discovery(str(tmp_path))
    assert [rank.key for rank in discovery.scan()[0]] == ["worker:0"]
    for pid, parent, environ in (
        (11, 10, wrapped),
        (12, 11, wrapped),
        (13, 11, wrapped),
        (14, 12, wrapped),
        (15, 11, {"ROOFLINE_WRAPPED": "1"}),
    ):
        add_process(tmp_path, pid, environ, parent=parent)
    discovery.scan()
    assert [rank.pid for rank in discovery.ranks.values()] == [10]
    discovery.report(12, inside(0))
    discovery.report(13, inside(1))
    started, gone = discovery.scan()
    assert sorted((rank.job, rank.key, rank.pid) for rank in started) == [
        ("5", "ddp:0", 12),
        ("5", "ddp:1", 13),
    ]
    assert [rank.pid for rank in gone] == [10]
    assert [rank.key for rank in discovery.take_left()] == ["worker:0"]
    loader = discovery.look_at(14)
    assert loader is not None and loader.pid == 12
    for pid in (12, 13, 14):
        shutil.rmtree(tmp_path / str(pid))
    for _ in range(LIST_AGAIN_SCANS):
        discovery.scan()
    assert discovery.ranks == {}, "the driver does not become a rank when its workers have ended"


def test_what_a_driver_leaves_running_is_no_rank(tmp_path: Path) -> None:
    """As at the end of a Ray training: driver and raylet end before an idle worker and the control store."""
    wrapped = {"ROOFLINE_WRAPPED": "1", "ROOFLINE_JOB": "5"}
    for pid, parent in ((10, 1), (11, 10), (12, 11), (13, 11), (14, 10)):
        add_process(tmp_path, pid, wrapped, parent=parent)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    discovery.report(12, inside(0))
    discovery.scan()
    for pid in (10, 11, 12):
        shutil.rmtree(tmp_path / str(pid))
    for pid in (13, 14):
        add_process(tmp_path, pid, wrapped, parent=1)
    for _ in range(LIST_AGAIN_SCANS):
        assert discovery.scan()[0] == []
    assert discovery.ranks == {}


def test_processes_that_a_launcher_has_beside_its_ranks_are_none(tmp_path: Path) -> None:
    own = {"ROOFLINE_JOB": "j", "ROOFLINE_WRAPPED": "1"}
    rank = {**own, "HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"}
    spawned = (
        "python",
        "-B",
        "-c",
        "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=7)",
    )
    tracker = ("python", "-B", "-c", "from multiprocessing.resource_tracker import main;main(5)")
    add_process(tmp_path, 20, own, ("python", "/bin/horovodrun", "-np", "2", "python", "train.py"))
    add_process(tmp_path, 21, own, tracker, parent=20)
    add_process(tmp_path, 22, own, spawned, parent=20)
    add_process(tmp_path, 23, own, ("/bin/sh", "-c", "env HOROVOD_RANK=1 python train.py"), parent=22)
    add_process(tmp_path, 24, rank, parent=23)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    assert {pid: one.key for pid, one in discovery.ranks.items()} == {24: "horovod:1"}


def test_process_of_multiprocessing_that_nobody_of_its_job_started_is_a_rank(tmp_path: Path) -> None:
    spawned = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(pipe_handle=7)")
    add_process(tmp_path, 20, {}, ("python", "launch.py"))
    add_process(tmp_path, 21, {"ROOFLINE_JOB": "j", "ROOFLINE_RANK": "0"}, spawned, parent=20)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    assert list(discovery.ranks) == [21]


def test_data_loader_that_outlives_its_rank_is_none(tmp_path: Path) -> None:
    add_process(tmp_path, 20, TORCHRUN)
    add_process(tmp_path, 21, TORCHRUN, parent=20)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    shutil.rmtree(tmp_path / "20")
    add_process(tmp_path, 21, TORCHRUN, parent=1)
    discovery.scan()
    assert discovery.ranks == {}
    rank = discovery.adopt(21, 0)
    assert rank is not None, "it marks steps itself, so it is that rank"
    assert (rank.key, rank.pid, rank.framework) == ("ddp:5", 21, "torchrun")
    discovery.scan()
    assert list(discovery.ranks) == [21]


def test_two_processes_that_claim_one_rank_are_two(tmp_path: Path) -> None:
    identity = {"ROOFLINE_JOB": "j", "ROOFLINE_RANK": "0"}
    add_process(tmp_path, 20, identity, start_ticks=100)
    add_process(tmp_path, 21, identity, start_ticks=90)
    discovery = Discovery(str(tmp_path))
    for _ in range(SHARED_SCANS + 1):
        discovery.scan()
    assert {pid: rank.key for pid, rank in discovery.ranks.items()} == {21: "worker:0", 20: "worker:1"}
    assert [[rank.pid for rank in ranks] for ranks in discovery.claims()] == [[21, 20]]
    again = Discovery(str(tmp_path))
    for _ in range(SHARED_SCANS + 1):
        again.scan()
    assert again.ranks == discovery.ranks, "an agent that is started again finds the same"


def test_two_that_train_at_once_are_told_apart_at_once(tmp_path: Path) -> None:
    identity = {"ROOFLINE_JOB": "j", "ROOFLINE_RANK": "0"}
    add_process(tmp_path, 20, identity, start_ticks=100)
    add_process(tmp_path, 21, identity, start_ticks=100)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    before = discovery.ranks[21]
    assert set(discovery.rivals) == {20, 21}
    discovery.distinguish(discovery.rivals[20], 20)
    assert {pid: rank.key for pid, rank in discovery.ranks.items()} == {20: "worker:0", 21: "worker:1"}
    assert discovery.rivals == {}
    assert discovery.as_now(before) == discovery.ranks[21]
    shutil.rmtree(tmp_path / "20")
    discovery.scan()
    assert {pid: rank.key for pid, rank in discovery.ranks.items()} == {21: "worker:1"}


def test_restart_that_overlaps_stays_one_rank(tmp_path: Path) -> None:
    identity = {"ROOFLINE_JOB": "j", "ROOFLINE_RANK": "0"}
    add_process(tmp_path, 20, identity, start_ticks=100)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    add_process(tmp_path, 21, identity, start_ticks=500)
    discovery.scan()
    shutil.rmtree(tmp_path / "20")
    for _ in range(2 * SHARED_SCANS):
        discovery.scan()
    assert {pid: rank.key for pid, rank in discovery.ranks.items()} == {21: "worker:0"}
    assert discovery.claims() == []


def test_process_that_turns_out_to_be_another_rank_has_left_the_one_before(tmp_path: Path) -> None:
    add_process(tmp_path, 10, {"ROOFLINE_WRAPPED": "1", "ROOFLINE_JOB": "5"})
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    discovery.report(10, {"JAX_PROCESS_ID": "0", "JAX_NUM_PROCESSES": "2"})
    assert discovery.take_left() == []
    discovery.report(10, {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"})
    assert [rank.key for rank in discovery.take_left()] == ["worker:0"]
    assert [rank.key for rank in discovery.ranks.values()] == ["worker:1"]
