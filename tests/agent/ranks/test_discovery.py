"""Ranks are found by exactly what their launchers set, and nothing else is one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pytest import LogCaptureFixture
from roofline_agent.ranks import known_names
from roofline_agent.ranks.candidates import Candidate, is_child
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.ranks.environments import Environments
from roofline_agent.ranks.identity import Identity, identify, may_name_a_rank
from roofline_agent.ranks.known_claims import SHARED_SCANS
from roofline_agent.ranks.known_names import MOST_OF_USER, KnownNames
from roofline_agent.ranks.launchers import is_launcher
from roofline_agent.ranks.names import user_of
from roofline_agent.ranks.new_names import NewNames
from roofline_agent.ranks.processes import Processes
from roofline_agent.ranks.scanned import LIST_AGAIN_SCANS, LOOK_AGAIN_SCANS, YOUNG_SCANS
from roofline_agent.records import Rank

from tests.fakes import add_process, clean_environ, ended, wait_for

CLUSTER = {"chief": ["a:1"], "ps": ["b:1"], "worker": ["c:1", "d:1"]}
SLEEP = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]


def tf_config(role: str = "worker", index: object = 1, cluster: object = CLUSTER) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"task": {"type": role, "index": index}, "cluster": cluster})}


def found(**environ: str) -> Identity:
    identity = identify(environ)
    assert identity is not None
    return identity


@pytest.mark.parametrize(("role", "index", "world"), [("worker", 1, 2), ("ps", 0, 1), ("chief", 0, 1)])
def test_tensorflow_task(role: str, index: int, world: int) -> None:
    rank = found(**tf_config(role, index))
    assert (rank.role, rank.index, rank.world, rank.framework) == (role, index, world, "tf_config")


def test_tensorflow_tasks_of_one_cluster_share_a_job() -> None:
    assert found(**tf_config("ps", 0)).job == found(**tf_config("worker", 1)).job
    other = {**CLUSTER, "ps": ["z:1"]}
    assert found(**tf_config("ps", 0)).job != found(**tf_config("ps", 0, other)).job
    shuffled = dict(reversed(CLUSTER.items()))
    assert found(**tf_config("ps", 0)).job == found(**tf_config("ps", 0, shuffled)).job


def test_master_is_the_old_word_for_chief() -> None:
    assert found(**tf_config("master", 0)).role == "chief"


def test_index_may_be_text() -> None:
    assert found(**tf_config("worker", "1")).index == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        "{}",
        '{"task": 3}',
        '{"task": {"type": "worker"}}',
        '{"task": {"type": "worker", "index": "x"}}',
        '{"task": {"type": "worker", "index": -1}}',
        '{"task": {"type": "", "index": 0}}',
        '{"task": {"type": "worker", "index": 0}, "cluster": []}',
        '{"task": {"type": "worker", "index": 0}, "cluster": {"worker": 5}}',
    ],
)
def test_malformed_tf_config_is_no_rank(text: str) -> None:
    assert identify({"TF_CONFIG": text}) is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"task": {"type": "worker", "index": Infinity}}', id="infinity"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"task": {"type": "worker", "index": 5000000000}}', id="beyond-uint32"),
        pytest.param('{"task": {"type": "\\ud800", "index": 0}}', id="surrogate"),
    ],
)
def test_hostile_tf_config_is_no_rank(text: str) -> None:
    assert identify({"TF_CONFIG": text}) is None


@pytest.mark.parametrize("name", ["TF_CONFIG_OLD", "MY_TF_CONFIG", "tf_config"])
def test_names_match_exactly(name: str) -> None:
    assert identify({name: tf_config()["TF_CONFIG"]}) is None


def test_horovod_with_gloo() -> None:
    rank = found(HOROVOD_RANK="1", HOROVOD_SIZE="4", HOROVOD_GLOO_RENDEZVOUS_PORT="777")
    assert rank == Identity("horovod-777", "horovod", 1, 4, "horovod")


def test_horovod_with_mpi_takes_the_job_from_pmix() -> None:
    rank = found(OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_SIZE="4", PMIX_NAMESPACE="n1", PMIX_RANK="2")
    assert rank == Identity("n1", "horovod", 2, 4, "openmpi")


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "29500"}


def test_torchrun() -> None:
    assert found(**TORCHRUN, TORCHELASTIC_RUN_ID="r7") == Identity("r7", "ddp", 1, 2, "torchrun")


def test_torchrun_without_a_run_id_is_known_by_its_meeting_point() -> None:
    assert found(**TORCHRUN, TORCHELASTIC_RUN_ID="none").job == "ddp-h-29500"


@pytest.mark.parametrize("missing", ["MASTER_ADDR", "WORLD_SIZE", "RANK"])
def test_rank_alone_is_a_common_word(missing: str) -> None:
    assert identify({k: v for k, v in TORCHRUN.items() if k != missing}) is None


SLURM = {"SLURM_JOB_ID": "99", "SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}


def test_slurm_step() -> None:
    assert found(**SLURM) == Identity("99", "worker", 3, 8, "slurm")


@pytest.mark.parametrize("step", ["4294967291", "4294967292", "", "x"])
def test_slurm_batch_script_is_no_rank(step: str) -> None:
    assert identify({**SLURM, "SLURM_STEP_ID": step}) is None


def test_slurm_names_the_job_of_other_launchers() -> None:
    rank = found(**TORCHRUN, **SLURM, TORCHELASTIC_RUN_ID="r")
    assert (rank.job, rank.role, rank.index, rank.framework) == ("99", "ddp", 1, "torchrun")


@pytest.mark.parametrize("text", ["", "-1", "one", "1.0", "1 ", "٣", "99999999999"])
def test_rank_that_is_no_number_is_no_rank(text: str) -> None:
    assert identify({"HOROVOD_RANK": text, "HOROVOD_SIZE": "2"}) is None


@pytest.mark.parametrize(
    "environ",
    [
        tf_config(),
        {"HOROVOD_RANK": "1"},
        {"OMPI_COMM_WORLD_RANK": "1"},
        TORCHRUN,
        {"PMIX_RANK": "1"},
        SLURM,
        {"ROOFLINE_ROLE": "ps"},
        {"ROOFLINE_RANK": "1"},
        {"ROOFLINE_WRAPPED": "1"},
    ],
)
def test_no_rank_is_ruled_out_unread(environ: dict[str, str]) -> None:
    assert identify(environ) is not None
    assert may_name_a_rank(b"".join(f"{name}={value}\0".encode() for name, value in environ.items()))


def test_user_goes_before_launcher() -> None:
    said = {"ROOFLINE_JOB": "j", "ROOFLINE_ROLE": "ps", "ROOFLINE_RANK": "7", "ROOFLINE_NAME": "left"}
    assert found(**SLURM, **said) == Identity("j", "ps", 7, 8, "slurm", "left")


def test_job_alone_makes_no_rank_but_wrapping_does() -> None:
    assert identify({"ROOFLINE_JOB": "j"}) is None
    assert found(ROOFLINE_WRAPPED="1", ROOFLINE_JOB="j") == Identity("j", "worker", 0, 0, "roofline")


def test_job_of_the_agent_is_the_last_but_one_resort() -> None:
    assert identify({"ROOFLINE_RANK": "1"}, "agents").job == "agents"  # type: ignore[union-attr]
    assert identify(SLURM, "agents").job == "99"  # type: ignore[union-attr]
    assert found(ROOFLINE_RANK="1").job == "default"


def test_long_names_are_cut() -> None:
    rank = found(ROOFLINE_RANK="0", ROOFLINE_JOB="j" * 999, ROOFLINE_ROLE="r" * 999, ROOFLINE_NAME="n" * 999)
    assert (len(rank.job), len(rank.role), len(rank.name)) == (128, 128, 128)


@pytest.mark.parametrize(
    "line",
    [
        "/bin/sh -c python",
        "-bash",
        "mpirun -np 2 python train.py",
        "/usr/bin/python3 /usr/local/bin/torchrun train.py",
        "/usr/bin/python3 /opt/bin/roofline-agent run -- python train.py",
        "python -m roofline_agent run -- python train.py",
        "numactl -N 0 python train.py",
    ],
)
def test_launchers(line: str) -> None:
    assert is_launcher(line.encode().split(b" "))


@pytest.mark.parametrize(
    "line", ["python train.py", "python /data/time.py", "python train.py --via torchrun", "./ps", ""]
)
def test_training_is_no_launcher(line: str) -> None:
    assert not is_launcher(line.encode().split(b" "))


@pytest.mark.parametrize(
    "line",
    [
        "python -u -m roofline_agent run -- python train.py",
        "python -m torch.distributed.run train.py",
        "python -m torch.distributed.launch train.py",
        "uv run python train.py",
        "python /opt/conda/bin/conda run python train.py",
        "perl /usr/bin/parallel -j2 ./train",
        "python /usr/bin/wandb agent x/y",
        "SCREEN",
        "python /opt/bin/roofline-server --data /srv",
        "python -m roofline_server.store.sealing 1",
        "python -m roofline_client page",
        "python -u -m deepspeed.launcher.launch --world_info=x train.py",
        "python /usr/bin/accelerate-launch train.py",
        "/opt/intel/bin/hydra_bstrap_proxy --upstream-host n1",
        "mpiexec.hydra -n 2 python train.py",
    ],
)
def test_more_launchers(line: str) -> None:
    assert is_launcher(line.encode().split(b" "))


def test_process_that_waits_for_a_container_is_a_launcher() -> None:
    assert is_launcher([b"Apptainer runtime parent", b""])


ONE, TWO = Identity("j", "worker", 0, 2, "x"), Identity("j", "worker", 1, 2, "x")


def chosen(*rows: tuple[int, int, bool, Identity]) -> list[int]:
    found = {p: Candidate(p, up, 0, 0, launch, who) for p, up, launch, who in rows}
    return [one.pid for one in found.values() if not one.launcher and not is_child(one, found)]


def test_topmost_that_is_no_launcher_is_the_rank() -> None:
    assert chosen((10, 1, True, ONE), (11, 10, False, ONE), (12, 11, False, ONE)) == [11]


def test_children_of_a_rank_are_none_also_through_a_shell() -> None:
    assert chosen((10, 1, False, ONE), (11, 10, True, ONE), (12, 11, False, ONE)) == [10]


def test_child_with_another_identity_is_a_rank_of_its_own() -> None:
    assert chosen((10, 1, False, ONE), (11, 10, False, TWO)) == [10, 11]


def test_launcher_without_a_rank_is_none() -> None:
    assert chosen((10, 1, True, ONE)) == []


RANK = {"ROOFLINE_RANK": "0", "ROOFLINE_JOB": "j"}


def test_rank_with_another_agents_socket_is_left_to_that(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.sock", tmp_path / "theirs.sock"
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(ours))
        other.bind(str(theirs))
        (tmp_path / "link.sock").symlink_to(ours)
        told = [ours, tmp_path / "link.sock", theirs, tmp_path / "in-a-container.sock"]
        for pid, path in enumerate(told, 10):
            add_process(tmp_path, pid, {"ROOFLINE_RANK": str(pid), "ROOFLINE_SOCKET": str(path)})
        add_process(tmp_path, 14, {"ROOFLINE_RANK": "14"})
        discovery = Discovery(str(tmp_path), socket=ours)
        discovery.scan()
        assert sorted(discovery.ranks) == [10, 11, 13, 14]


def test_scan_of_a_recorded_tree(tmp_path: Path) -> None:
    add_process(tmp_path, 10, RANK, ("/bin/sh", "-c", "x"))
    add_process(tmp_path, 11, RANK, parent=10)
    add_process(tmp_path, 12, RANK, parent=11, name="py) S 1 (thon")
    add_process(tmp_path, 13, {"HOME": "/"})
    add_process(tmp_path, 14, b"\xff\xfe=\xff\0ROOFLINE_RANK=5\0junk")
    add_process(tmp_path, 15, RANK, parent=1, state="Z")
    (tmp_path / "self").mkdir()
    discovery = Discovery(str(tmp_path))
    started, gone = discovery.scan()
    assert sorted((r.pid, r.role, r.index) for r in started) == [(11, "worker", 0), (14, "worker", 5)]
    assert gone == []
    assert discovery.scan() == ([], [])


@pytest.mark.parametrize("name", ["openmpi", "mpi", "slurm", "ddp-localhost-29500", "tf-local-1", "default"])
def test_job_that_the_user_has_named_has_that_name(tmp_path: Path, name: str) -> None:
    add_process(tmp_path, 11, {**RANK, "ROOFLINE_JOB": name})
    discovery = Discovery(str(tmp_path))
    ((rank,), _) = discovery.scan()
    assert rank.job == name


def test_launcher_that_names_no_launch_gives_a_user_s_ranks_a_job(tmp_path: Path) -> None:
    add_process(tmp_path, 11, {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"})
    discovery = Discovery(str(tmp_path))
    ((rank,), _) = discovery.scan()
    assert rank.job == f"openmpi-{user_of(discovery.processes, 11)}"


def test_process_that_ends_is_gone_once(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK)
    discovery = Discovery(str(tmp_path))
    ((rank,), _) = discovery.scan()
    (tmp_path / "11").rename(tmp_path / "gone")
    assert discovery.scan() == ([], [rank])
    assert discovery.scan() == ([], [])


def test_process_that_changes_while_young_is_looked_at_again(tmp_path: Path) -> None:
    add_process(tmp_path, 11, {}, ("bash",))
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    add_process(tmp_path, 11, RANK)
    ((rank,), _) = discovery.scan()
    assert rank.pid == 11


def test_grown_process_that_becomes_a_rank_is_found_in_time(tmp_path: Path) -> None:
    for pid in range(100, 140):
        add_process(tmp_path, pid, {})
    discovery = Discovery(str(tmp_path))
    for _ in range(YOUNG_SCANS):
        discovery.scan()
    for pid in range(100, 140):
        add_process(tmp_path, pid, {**RANK, "ROOFLINE_RANK": str(pid)})
    found = [len(discovery.scan()[0]) for _ in range(LOOK_AGAIN_SCANS)]
    assert sum(found) == 40
    assert max(found) <= 3, "not all at once"


def test_threads_of_the_kernel_are_looked_at_once(tmp_path: Path) -> None:
    # Real ones: their variables are empty, and stay so; a made-up one that gets some shows that nobody looks.
    add_process(tmp_path, 2, b"", (), name="kthreadd")
    stat = (tmp_path / "2" / "stat").read_text().split(" ")
    stat[8] = str(0x00208040)
    (tmp_path / "2" / "stat").write_text(" ".join(stat))
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    (tmp_path / "2" / "environ").write_bytes(b"ROOFLINE_RANK=0\0")
    for _ in range(LOOK_AGAIN_SCANS + YOUNG_SCANS):
        assert discovery.scan() == ([], [])
    (tmp_path / "2").rename(tmp_path / "gone")
    discovery.scan()
    add_process(tmp_path, 2, RANK)
    assert [rank.pid for rank in discovery.scan()[0]] == [2]


def test_processes_are_listed_only_when_one_has_begun(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to(str(os.getpid()))
    loadavg = tmp_path / "loadavg"
    loadavg.write_text("0.1 0.1 0.1 1/99 500\n")
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    add_process(tmp_path, 11, RANK)
    assert discovery.scan() == ([], []), "nobody has begun"
    loadavg.write_text("0.1 0.1 0.1 1/99 501\n")
    assert [rank.pid for rank in discovery.scan()[0]] == [11]
    add_process(tmp_path, 12, {**RANK, "ROOFLINE_RANK": "1"})
    found = [rank.pid for _ in range(LIST_AGAIN_SCANS) for rank in discovery.scan()[0]]
    assert found == [12], "now and then all the same"
    (tmp_path / "11").rename(tmp_path / "gone")
    assert [rank.pid for rank in discovery.scan()[1]] == [11], "who ends is seen without"


def test_numbers_of_another_pid_namespace_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("1")
    (tmp_path / "loadavg").write_text("0.1 0.1 0.1 1/99 500\n")
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    add_process(tmp_path, 11, RANK)
    assert [rank.pid for rank in discovery.scan()[0]] == [11]


def test_real_processes_show_in_the_newest_number() -> None:
    before = Processes().newest()
    assert before is not None
    subprocess.run(["true"], check=True)
    assert Processes().newest() != before


def test_variables_that_fill_more_than_one_reading_are_read_to_the_end(tmp_path: Path) -> None:
    for pid, size in ((11, 1 << 15), (12, (1 << 15) - 9), (13, 100_000)):
        add_process(tmp_path, pid, {"FILL": "x" * size, **RANK, "ROOFLINE_RANK": str(pid)})
    discovery = Discovery(str(tmp_path))
    assert sorted(rank.index for rank in discovery.scan()[0]) == [11, 12, 13]


def test_shell_that_waits_before_it_becomes_the_rank_is_found(tmp_path: Path) -> None:
    add_process(
        tmp_path, 11, RANK, ("bash", "-c", "until nc -z ps 1; do sleep 1; done; exec python train.py")
    )
    discovery = Discovery(str(tmp_path))
    for _ in range(10):
        assert discovery.scan() == ([], [])
    add_process(tmp_path, 11, RANK)
    assert [r.pid for r in discovery.scan()[0]] == [11]


def test_zombie_is_no_rank(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK)
    discovery = Discovery(str(tmp_path))
    for _ in range(10):
        discovery.scan()
    add_process(tmp_path, 11, b"", (), state="Z")
    assert [r.pid for r in discovery.scan()[1]] == [11]


def test_reused_pid_is_another_rank(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK, start_ticks=100)
    discovery = Discovery(str(tmp_path))
    for _ in range(10):
        discovery.scan()
    add_process(tmp_path, 11, {**RANK, "ROOFLINE_RANK": "3"}, start_ticks=200)
    started, gone = discovery.scan()
    assert ([r.index for r in started], [r.index for r in gone]) == ([3], [0])


def test_mark_from_a_child_belongs_to_its_rank(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK)
    add_process(tmp_path, 12, RANK, parent=11)
    add_process(tmp_path, 13, {}, parent=12)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    for pid in (11, 12, 13):
        rank = discovery.look_at(pid)
        assert rank is not None and rank.pid == 11


def test_mark_from_a_child_before_the_first_scan_belongs_to_its_rank(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK)
    add_process(tmp_path, 12, RANK, parent=11)
    rank = Discovery(str(tmp_path)).look_at(12)
    assert rank is not None and rank.pid == 11


def test_mark_from_an_unknown_process(tmp_path: Path) -> None:
    add_process(tmp_path, 12, {}, parent=1)
    discovery = Discovery(str(tmp_path))
    assert discovery.look_at(12) is None
    assert discovery.look_at(4711) is None


def test_rank_known_by_its_mark_alone_goes_too(tmp_path: Path) -> None:
    add_process(tmp_path, 11, RANK)
    discovery = Discovery(str(tmp_path))
    discovery.scan()
    add_process(tmp_path, 12, {**RANK, "ROOFLINE_RANK": "1"})
    assert discovery.look_at(12) is not None
    (tmp_path / "12").rename(tmp_path / "gone")
    discovery.scan()
    assert list(discovery.ranks) == [11]


def test_rank_below_a_wrapped_shell(tmp_path: Path) -> None:
    add_process(tmp_path, 10, RANK, ("bash", "x.sh"))
    discovery = Discovery(str(tmp_path))
    assert discovery.ranks_below(10) == []
    add_process(tmp_path, 11, RANK, parent=10)
    (below,) = discovery.ranks_below(10)
    assert below is not None and below.pid == 11
    add_process(tmp_path, 12, {**RANK, "ROOFLINE_RANK": "1"}, parent=10)
    assert len(discovery.ranks_below(10)) == 2, "two ranks below: whose kernels are they?"


def test_adopted_process_is_a_rank_until_it_ends(tmp_path: Path) -> None:
    add_process(tmp_path, 11, {})
    discovery = Discovery(str(tmp_path), "agents")
    rank = discovery.adopt(11, 5)
    assert rank is not None
    assert (rank.job, rank.role, rank.index, rank.framework, rank.uid) == ("agents", "worker", 0, "marks", 5)
    assert discovery.scan() == ([rank], [])
    for _ in range(6):
        assert discovery.scan() == ([], [])
    (tmp_path / "11").rename(tmp_path / "gone")
    assert discovery.scan() == ([], [rank])
    assert discovery.adopt(4711, 5) is None


def test_adopted_process_stays_a_rank_when_a_child_of_it_is_looked_at(tmp_path: Path) -> None:
    add_process(tmp_path, 11, {})
    discovery = Discovery(str(tmp_path), "agents")
    rank = discovery.adopt(11, 5)
    add_process(tmp_path, 12, {}, parent=11)
    assert discovery.look_at(12) == rank, "a worker of its data loader"
    assert discovery.scan() == ([rank], [])
    add_process(tmp_path, 11, {}, start_ticks=500)
    assert discovery.look_at(11) is None, "another process with its pid"


def test_pid_that_is_used_again_is_not_the_rank_that_had_it(tmp_path: Path) -> None:
    add_process(tmp_path, 11, SLURM)
    discovery = Discovery(str(tmp_path))
    (before,), _ = discovery.scan()
    add_process(tmp_path, 11, {**SLURM, "SLURM_PROCID": "1"}, start_ticks=500)
    now = discovery.look_at(11)
    assert now is not None and (now.index, now.start_ns) != (before.index, before.start_ns)
    assert discovery.changes() == ([now], [before])


def test_restart_is_the_same_rank_though_both_marked_within_seconds(tmp_path: Path) -> None:
    discovery = Discovery(str(tmp_path))
    add_process(tmp_path, 11, SLURM)
    add_process(tmp_path, 12, SLURM, start_ticks=500)
    discovery.scan()
    (claimed,) = set(discovery.rivals.values())
    (tmp_path / "11").rename(tmp_path / "gone")
    discovery.distinguish(claimed, 11)
    assert [(rank.pid, rank.index) for rank in discovery.ranks.values()] == [(12, int(SLURM["SLURM_PROCID"]))]
    add_process(tmp_path, 13, SLURM, start_ticks=600)
    discovery.scan()
    discovery.distinguish(claimed, 12)
    assert len({rank.index for rank in discovery.ranks.values()}) == 2, "both live"


def test_process_that_trains_stays_the_rank_and_an_older_one_that_does_not_is_moved(tmp_path: Path) -> None:
    discovery = Discovery(str(tmp_path))
    for pid in (11, 12):
        add_process(tmp_path, pid, SLURM, start_ticks=pid)
    discovery.scan()
    discovery.holds(discovery.rivals[12], 12)
    for _ in range(SHARED_SCANS):
        discovery.scan()
    rank = int(SLURM["SLURM_PROCID"])
    assert [discovery.ranks[pid].index == rank for pid in (11, 12)] == [False, True]
    assert [[one.pid for one in ranks] for ranks in discovery.claims()] == [[12, 11]], (
        "the one that has it first"
    )


def test_processes_that_claim_one_rank_are_names_of_their_own(
    tmp_path: Path, caplog: LogCaptureFixture
) -> None:
    """A script that starts very many programs within a step of Slurm: the server refuses batches of more
    ranks than it takes."""
    for pid in range(100, 100 + MOST_OF_USER + 8):
        add_process(tmp_path, pid, SLURM)
    discovery = Discovery(str(tmp_path))
    for _ in range(SHARED_SCANS + 2):
        discovery.scan()
    indices = {rank.index for rank in discovery.ranks.values()}
    assert len(discovery.ranks) == len(indices) == MOST_OF_USER
    assert "has too many ranks at one time" in caplog.text


def test_names_of_a_day_are_those_that_are_reported(tmp_path: Path, caplog: LogCaptureFixture) -> None:
    processes = Processes(str(tmp_path))
    names = KnownNames(processes, Environments(processes))
    names.new_names = NewNames(16)
    ranks = {pid: Rank("99", "slurm", pid, pid, uid=5) for pid in range(20)}
    ranks[20] = Rank("other", "slurm", 0, 20, uid=6)
    assert list(names.without_floods(ranks)) == [*range(8), 20]
    assert list(names.without_floods(ranks)) == [*range(8), 20] and len(caplog.records) == 12


def test_who_starts_one_rank_again_and_again_leaves_processes_to_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_names, "PROCESSES", 16)
    processes = Processes(str(tmp_path))
    names = KnownNames(processes, Environments(processes))
    starts = [Rank("99", "slurm", 0, pid, pid, uid=5) for pid in range(20)]
    assert [len(names.without_floods({one.pid: one})) for one in starts] == [1] * 8 + [0] * 12
    assert names.without_floods({0: starts[0]}), "a process that is known goes on"
    other = Rank("other", "slurm", 0, 30, 30, uid=6)
    assert names.without_floods({30: other})


def test_rank_that_ends_before_it_was_reported_is_reported_with_its_variables(tmp_path: Path) -> None:
    add_process(tmp_path, 11, SLURM)
    discovery = Discovery(str(tmp_path))
    rank = discovery.look_at(11)
    assert rank is not None
    (tmp_path / "11").rename(tmp_path / "gone")
    assert discovery.changes() == ([rank], [rank])
    assert discovery.environment(rank)["SLURM_JOB_ID"] == "99"
    assert discovery.changes() == ([], []) and discovery.environment(rank) == {}


@pytest.mark.parametrize("outer", [SLURM, {"ROOFLINE_WRAPPED": "1", "ROOFLINE_JOB": "j"}])
def test_program_that_starts_ranks_is_none(outer: dict[str, str], tmp_path: Path) -> None:
    add_process(tmp_path, 11, outer, ("python", "start.py"))
    discovery = Discovery(str(tmp_path))
    (starter,) = discovery.scan()[0]
    add_process(tmp_path, 12, outer, ("tensorboard",), parent=11)
    for index in range(2):
        add_process(tmp_path, 13 + index, {**outer, **TORCHRUN, "RANK": str(index)}, parent=11)
    started, gone = discovery.scan()
    assert [rank.key for rank in started] == ["ddp:0", "ddp:1"]
    assert gone == discovery.take_left() == [starter]
    for pid in (13, 14):
        (tmp_path / str(pid)).rename(tmp_path / f"gone{pid}")
    assert discovery.scan()[0] == []


def test_tool_in_a_terminal_is_no_rank_next_to_the_training(tmp_path: Path) -> None:
    """srun --pty bash, htop in one pane, then the training in another."""
    for pid, command in ((11, "bash"), (12, "htop"), (13, "python"), (14, "python")):
        add_process(tmp_path, pid, SLURM, (command,), parent=1 if pid == 11 else 11, terminal=34816)
    add_process(tmp_path, 14, {**SLURM, "ROOFLINE_WRAPPED": "1"}, ("python",), parent=11, terminal=34816)
    discovery = Discovery(str(tmp_path))
    for _ in range(SHARED_SCANS + 1):
        discovery.scan()
    before = dict(discovery.ranks)
    assert [rank.index for rank in before.values()] == [3, 8, 9]
    trains = discovery.trains(13)
    assert trains is not None and (trains.pid, trains.index) == (13, 3)
    assert discovery.take_left() == [before[12], before[13]]
    assert [(rank.pid, rank.index) for rank in discovery.ranks.values()] == [(13, 3), (14, 9)]


def test_rank_that_starts_ranks_and_marks_steps_stays_one(tmp_path: Path) -> None:
    """As a training that has torchrun evaluate."""
    add_process(tmp_path, 11, SLURM)
    discovery = Discovery(str(tmp_path))
    (training,) = discovery.scan()[0]
    add_process(tmp_path, 12, {**SLURM, **TORCHRUN}, parent=11)
    discovery.scan()
    assert discovery.trains(11) == training
    assert discovery.take_left() == []
    assert [rank.pid for rank in discovery.ranks.values()] == [11, 12]


def test_process_of_a_batch_script_that_marks_is_of_slurms_job(tmp_path: Path) -> None:
    add_process(tmp_path, 11, {"SLURM_JOB_ID": "99", "SLURM_PROCID": "0", "SLURM_NTASKS": "2"})
    discovery = Discovery(str(tmp_path))
    assert discovery.scan() == ([], []), "a script without srun is no rank by itself"
    rank = discovery.adopt(11, 5)
    assert rank is not None and (rank.job, rank.key) == ("99", "worker:0")


def test_who_opts_out_is_no_rank(tmp_path: Path) -> None:
    add_process(tmp_path, 11, {**SLURM, "ROOFLINE_DISABLE": "1"})
    add_process(tmp_path, 12, {**SLURM, "SLURM_PROCID": "4", "ROOFLINE_DISABLE": "0"})
    add_process(tmp_path, 13, {**SLURM, "SLURM_PROCID": "5", "ROOFLINE_DISABLE": ""})
    discovery = Discovery(str(tmp_path))
    assert [rank.index for rank in discovery.scan()[0]] == [4, 5]
    assert discovery.adopt(11, 5) is None and discovery.look_at(11) is None


def test_two_adopted_processes_are_two_ranks(tmp_path: Path) -> None:
    discovery = Discovery(str(tmp_path), "agents")
    for pid in (11, 12):
        add_process(tmp_path, pid, {})
        discovery.adopt(pid, 5)
    assert len({(r.job, r.role, r.index) for r in discovery.ranks.values()}) == 2


def test_adopted_process_keeps_its_index_when_the_agent_is_started_again(tmp_path: Path) -> None:
    kept = tmp_path / "adopted.json"
    for pid in (11, 12, 13):
        add_process(tmp_path, pid, {})
    discovery = Discovery(str(tmp_path), "agents", adopted=kept)
    before = {pid: discovery.adopt(pid, 5) for pid in (11, 12, 13)}
    (tmp_path / "11").rename(tmp_path / "gone")
    add_process(tmp_path, 14, {})
    again = Discovery(str(tmp_path), "agents", adopted=kept)
    after = {pid: again.adopt(pid, 5) for pid in (14, 13, 12)}
    assert (after[12], after[13]) == (before[12], before[13])
    assert after[14] is not None and after[14].index == 0, "11 has gone"
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"boot": "another", "ranks": [[12, 100, "agents", "worker", 7]]}',
        '{"boot": ""}',
        '{"boot": "", "ranks": [7]}',
        '{"boot": "", "ranks": [["x", 1, "", "", 0]]}',
    ],
)
def test_kept_indices_that_say_nothing_are_not_used(text: str, tmp_path: Path) -> None:
    (tmp_path / "adopted.json").write_text(text)
    add_process(tmp_path, 12, {})
    rank = Discovery(str(tmp_path), "agents", adopted=tmp_path / "adopted.json").adopt(12, 5)
    assert rank is not None and rank.index == 0


def test_indices_that_cannot_be_kept_cost_no_rank(tmp_path: Path, caplog: LogCaptureFixture) -> None:
    discovery = Discovery(str(tmp_path), "agents", adopted=tmp_path / "missing" / "adopted.json")
    for pid in (11, 12):
        add_process(tmp_path, pid, {})
        assert discovery.adopt(pid, 5) is not None
    assert caplog.text.count("are not kept") == 1


def spawn(command: list[str], **environ: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(command, env=clean_environ(**environ), stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def mine(discovery: Discovery, job: str) -> list[Rank]:
    discovery.scan()
    return [rank for rank in discovery.ranks.values() if rank.job == job]


def test_real_child_is_found_with_its_start_and_goes() -> None:
    job = f"t{os.getpid()}-{time.monotonic_ns()}"
    discovery = Discovery()
    with ended(spawn(SLEEP, ROOFLINE_RANK="2", ROOFLINE_JOB=job)) as child:
        (rank,) = mine(discovery, job)
        assert (rank.pid, rank.index, rank.uid) == (child.pid, 2, os.getuid())
        started = psutil.Process(child.pid).create_time() - time.time() + time.monotonic()
        assert rank.start_ns / 1e9 == pytest.approx(started, abs=1.5)
    assert mine(discovery, job) == []


def test_real_shell_above_and_child_below_are_no_ranks() -> None:
    job = f"t{os.getpid()}-{time.monotonic_ns()}"
    code = "import os,time; os.fork() and print(os.getpid(), flush=True); time.sleep(60)"
    command = ["sh", "-c", f'{sys.executable} -c "{code}"; true']
    child = subprocess.Popen(
        command,
        env=clean_environ(ROOFLINE_RANK="0", ROOFLINE_JOB=job),
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with ended(child):
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        assert [rank.pid for rank in mine(Discovery(), job)] == [pid]
        os.killpg(child.pid, 9)


def test_real_unreaped_child_is_no_rank() -> None:
    job = f"t{os.getpid()}-{time.monotonic_ns()}"
    discovery = Discovery()
    with ended(spawn(SLEEP, ROOFLINE_RANK="2", ROOFLINE_JOB=job)) as child:
        assert mine(discovery, job)
        child.kill()
        wait_for(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
        assert mine(discovery, job) == []
