"""Starts the ranks of one training, and reads what they kept of themselves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.fakes import free_port

from . import uplink
from .plans import TORCH, Plan

TRAININGS = Path(__file__).with_name("trainings")
WORKERS = RANKS = 2
START_S, SLOWEST = 90.0, 12  # patience until ranks are there; times of the training time until they end
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


class JobError(Exception):
    """A training did not start or failed; the text has the end of its output."""


class Kept(NamedTuple):
    """What a training kept: by rank the ends of its steps (monotonic ns), and what a plant in it took."""

    ends_ns: dict[str, list[int]]
    taken: dict[str, list[float]]
    framework: str


class Job:
    """A started training. The `main` process ends it: the chief, or any rank where all end together."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.main: list[subprocess.Popen[bytes]] = []

    def start(self, command: Sequence[Any], environ: Mapping[str, str], is_main: bool = True) -> None:
        with open(self.folder / "output", "ab") as output:
            process = subprocess.Popen(
                [str(word) for word in command],
                env={**os.environ, **QUIET, **environ},
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self.started.append(process)
        if is_main:
            self.main.append(process)

    def pids(self) -> dict[str, int]:
        """By rank, once all that are to train or serve have started."""
        wanted = RANKS if self.plan.framework in TORCH else self.plan.servers + WORKERS + 1
        deadline = time.monotonic() + START_S
        while len(files := list(self.folder.glob("*.pid"))) < wanted:
            self._check(deadline)
            time.sleep(0.02)
        return {file.stem: int(file.read_text()) for file in files}

    def wait(self, seconds: float) -> Kept:
        deadline = time.monotonic() + START_S + SLOWEST * seconds
        while any(process.poll() is None for process in self.main):
            self._check(deadline)
            time.sleep(0.05)
        self._check(deadline)
        return kept(self.folder)

    def stop(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=8)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _check(self, deadline: float) -> None:
        failed = [process for process in self.started if process.poll()]
        if failed or time.monotonic() > deadline:
            said = (self.folder / "output").read_text(errors="replace")[-3000:]
            what = f"exit code {failed[0].returncode}" if failed else "it takes too long"
            raise JobError(f"{self.plan.key}: {what}\n{said}")


def kept(folder: Path) -> Kept:
    files = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    ends = {one["name"]: one["ends_ns"] for one in files if one["ends_ns"]}
    for one in files:
        ends |= one.get("workers", {})
    taken = {one["name"]: one["taken"] for one in files if "taken" in one}
    return Kept(ends, taken, files[0]["framework"])


@contextlib.contextmanager
def training(
    plan: Plan,
    python: str,
    folder: Path,
    wrap: Sequence[Any],
    environ: Mapping[str, str],
    words: Sequence[str],
) -> Iterator[Job]:
    """Started, and gone after the block. wrap: before each rank's command. words: for the training."""
    folder.mkdir(parents=True)
    job = Job(plan, folder)
    launch = {"horovod": _horovod, "ps_async": _servers, "ps_sync": _servers}.get(plan.framework, _torch)
    try:
        launch(job, python, wrap, environ, [*words, f"--folder={folder}"])
        yield job
    finally:
        job.stop()


def _torch(
    job: Job, python: str, wrap: Sequence[Any], environ: Mapping[str, str], words: Sequence[str]
) -> None:
    script = TRAININGS / f"torch_{job.plan.framework}.py"
    apart = job.plan.cause == "uplink"
    place = {"MASTER_ADDR": uplink.ADDRESSES[0] if apart else "127.0.0.1", "MASTER_PORT": str(free_port())}
    if apart:
        place["GLOO_SOCKET_IFNAME"] = uplink.INTERFACE
    for rank in range(RANKS):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(RANKS), **place}
        where = uplink.inside(rank) if apart else []
        job.start([*where, *wrap, python, script, *words], {**environ, **own})


def _horovod(
    job: Job, python: str, wrap: Sequence[Any], environ: Mapping[str, str], words: Sequence[str]
) -> None:
    launcher = [Path(python).with_name("horovodrun"), "-np", RANKS, "-H", f"localhost:{RANKS}", "--gloo"]
    path = f"{Path(python).parent}:{os.environ['PATH']}"
    job.start([*launcher, *wrap, python, TRAININGS / "torch_horovod.py", *words], {**environ, "PATH": path})


def _servers(
    job: Job, python: str, wrap: Sequence[Any], environ: Mapping[str, str], words: Sequence[str]
) -> None:
    sizes = {"chief": 1, "ps": job.plan.servers, "worker": WORKERS}
    tasks = [(role, index) for role, size in sizes.items() for index in range(size)]
    apart = job.plan.cause == "uplink"
    # The last server is alone behind the link.
    sides = {task: task != ("ps", sizes["ps"] - 1) for task in tasks}
    addresses = {task: uplink.ADDRESSES[sides[task]] if apart else "127.0.0.1" for task in tasks}
    cluster: dict[str, list[str]] = {role: [] for role in sizes}
    for task in tasks:
        cluster[task[0]].append(f"{addresses[task]}:{free_port()}")
    command = [*wrap, python, TRAININGS / "tensorflow_ps.py", *words]
    command += ["--sync"] if job.plan.framework == "ps_sync" else []
    for role, index in reversed(tasks):
        config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
        where = uplink.inside(sides[role, index]) if apart else []
        job.start([*where, *command], {**environ, "TF_CONFIG": config}, is_main=role == "chief")
