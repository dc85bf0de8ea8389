"""What holds a real training up is planted, and the server names it; of a healthy one it names nobody."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ..end_to_end.conftest import COMMANDS, REPOSITORY, Site, wait_until
from .torch_runs import DDP, torchrun, wrapping

pytestmark = [pytest.mark.framework, pytest.mark.timeout(300)]

JOB = "5"
SERVERS = REPOSITORY / "examples" / "tensorflow_ps" / "launch.py"


@pytest.fixture
def watched(site: Site) -> Site:
    site.server()
    site.agent()
    return site


def stragglers(site: Site, rank: str, steps: int, *options: Any) -> dict[str, Any]:
    """What the client says, once all steps of `rank` have arrived."""
    wait_until(lambda: site.steps(rank, JOB) >= steps, what=f"all steps of {rank} arrive")
    wait_until(lambda: site.report(JOB)["state"] != "running", what="the ends of all ranks arrive")
    done = site.ask("stragglers", "--job", JOB, "--format", "json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def named(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(cause["rank"], cause["kind"]) for cause in found["causes"]]


def blamed(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The same without what all ranks have: other programs of a busy machine take CPUs from all of them,
    which is no fault of any, and may cost more than what was planted."""
    return [cause for cause in named(found) if cause[0]]


def cost_of(found: dict[str, Any], kind: str) -> float:
    return next(cause["cost"]["value"] for cause in found["causes"] if cause["kind"] == kind)


def ddp(site: Site, python: str, *options: Any, steps: int = 60) -> dict[str, Any]:
    script = [DDP, "--steps", steps, *options]
    command = torchrun(python, wrapping("--job", JOB), script)
    subprocess.run(command, env=site.environ, check=True, capture_output=True, timeout=200)
    return stragglers(site, "ddp:0", steps)


def parameter_servers(site: Site, python: str, *options: Any, steps: int = 150) -> dict[str, Any]:
    command = [sys.executable, SERVERS, "--python", python, "--steps", steps, "--batch", 8, "--workers", 2]
    command += ["--prefix", f"{COMMANDS / 'roofline-agent'} run --job {JOB} --", *options]
    words = [str(word) for word in command]
    subprocess.run(words, env=site.environ, check=True, capture_output=True, timeout=200)
    return stragglers(site, "worker:0", 1)


# -- PyTorch, DDP ----------------------------------------------------------------------------------


def test_healthy_ranks_are_not_named(watched: Site, torch_python: str) -> None:
    found = ddp(watched, torch_python, "--batch", 256, "--width", 1024, steps=100)
    assert blamed(found) == []
    assert [rank["rank"] for rank in found["ranks"]] == ["ddp:0", "ddp:1"]


def test_rank_that_sleeps_is_named(watched: Site, torch_python: str) -> None:
    found = ddp(watched, torch_python, "--slow-rank", 1, "--slow-seconds", 0.05)
    assert blamed(found)[0] == ("ddp:1", "blocked")
    assert cost_of(found, "blocked") == pytest.approx(0.05, rel=0.3)
    waits = {rank["rank"]: rank["values"]["wait_time_per_step"]["value"] for rank in found["ranks"]}
    assert waits["ddp:0"] > 10 * waits["ddp:1"]


@pytest.fixture
def a_third_of_a_core() -> Iterator[Path]:
    """A new control group with a third of a core, of either version; skips where none can be had."""
    name = f"roofline-test-{os.getpid()}"
    first, second = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")
    group = (first if first.exists() else second) / name
    try:
        group.mkdir()
        if first.exists():
            (group / "cpu.cfs_quota_us").write_text("30000")
        else:
            (group / "cpu.max").write_text("30000 100000")
    except OSError as error:
        with contextlib.suppress(OSError):
            group.rmdir()
        pytest.skip(f"no control group can be made here: {error}")
    yield group
    # Of a test that failed somebody may be in it still.
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):  # it has ended
            (group.parent / "cgroup.procs").write_text(pid)
    wait_until(lambda: not (group / "cgroup.procs").read_text(), what="the group is empty")
    group.rmdir()


def test_rank_with_a_third_of_a_core_is_named(
    watched: Site, torch_python: str, a_third_of_a_core: Path
) -> None:
    steps = 240
    script = [DDP, "--steps", steps, "--batch", 256, "--width", 1024]
    training = watched.start(torchrun(torch_python, wrapping("--job", JOB), script), "training.log")
    pids = wait_until(lambda: processes(watched), what="both ranks are found")
    (a_third_of_a_core / "cgroup.procs").write_text(str(pids["ddp:1"]))
    since = watched.steps("ddp:0", JOB) + 30
    assert since < steps / 2, "the training is too fast for this test"
    assert training.wait(timeout=200) == 0, watched.log("training.log")
    found = stragglers(watched, "ddp:0", steps, "--from", int(since))
    rank, kind = blamed(found)[0]
    assert rank == "ddp:1" and kind in ("throttled", "contention")


def processes(site: Site) -> dict[str, int]:
    """rank -> pid, once the server knows the processes of both ranks."""
    ranks = report.ranks if (report := site.known(JOB)) else []
    known = {rank.rank: rank.pid for rank in ranks if rank.pid}
    return known if len(known) == 2 else {}


def test_slow_input_is_named(watched: Site, torch_python: str) -> None:
    found = ddp(watched, torch_python, "--slow-input", 0.05)
    assert {kind for _, kind in named(found)} - {"contention"} == {"input"} and blamed(found) == []
    assert cost_of(found, "input") == pytest.approx(0.05, rel=0.4)


# -- TensorFlow, parameter servers -----------------------------------------------------------------


def test_healthy_servers_and_workers_are_not_named(watched: Site, tensorflow_python: str) -> None:
    found = parameter_servers(watched, tensorflow_python, "--ps", 2)
    assert blamed(found) == []


def test_slow_server_is_named(watched: Site, tensorflow_python: str) -> None:
    found = parameter_servers(watched, tensorflow_python, "--ps", 2, "--slow-ps", 1)
    assert blamed(found)[0] == ("ps:1", "stopped")
    assert {rank for rank, _ in blamed(found) if rank.startswith("ps")} == {"ps:1"}


@pytest.mark.parametrize(
    ("options", "kind"),
    [(("--slow-seconds", 0.1), "host"), (("--slow-input", 0.2), "input|blocked")],
    ids=["computes longer", "waits for input"],
)
def test_slow_worker_of_a_round_is_named(
    watched: Site, tensorflow_python: str, options: Sequence[Any], kind: str
) -> None:
    found = parameter_servers(
        watched, tensorflow_python, "--ps", 1, "--sync", "--slow-worker", 1, *options, steps=40
    )
    assert found["mode"] == "synchronous"
    assert blamed(found)[0] == ("worker:1", kind)
