"""Starts the ranks of one point on their nodes, waits for them, and leaves no process behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from instruments import COMMANDS, ROOT, Instruments, ServiceError
from points import STEPS, Point

HERE = Path(__file__).parent
CPUS = os.cpu_count() or 1
PORT = 2222
PATIENCE_S = 600
STEPS_OF_SMALL = 120
TAIL = 2000
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


class TrainingError(Exception):
    """A training failed; the text has the end of its output."""


class Pythons(NamedTuple):
    """Interpreters that have the frameworks."""

    tensorflow: Path
    torch: Path


def train(point: Point, job: str, having: Instruments, pythons: Pythons) -> None:
    """Runs the point as this job. Raises TrainingError."""
    log = having.folder / "logs" / f"{job}.log"
    log.parent.mkdir(exist_ok=True)
    with open(log, "w") as output:
        LAUNCHERS[point.program](_Start(point, job, having, pythons, output))


class _Start:
    """What all launchers need of one point."""

    def __init__(self, point: Point, job: str, having: Instruments, pythons: Pythons, output: object) -> None:
        self.point, self.job, self.having, self.pythons, self.output = point, job, having, pythons, output
        self.ranks: list[subprocess.Popen[bytes]] = []

    def wrapped(self, *options: str) -> list[str]:
        """roofline-agent run with the point's tags."""
        tags = [word for name, text in self.point.tags.items() for word in ("--tag", f"{name}={text}")]
        run = [
            str(COMMANDS / "roofline-agent"),
            "run",
            "--job",
            self.job,
            "--experiment",
            self.point.experiment,
        ]
        # A framework's profiler and the lines of kernels would disturb each other.
        kernels = ["--no-kernels"] if "traced" in self.point.tags else []
        return [*run, *tags, *kernels, *options, "--"]

    def start(self, command: Sequence[object], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [str(word) for word in command],
            env={**self.having.environ, **QUIET, **environ},
            stdin=subprocess.DEVNULL,
            stdout=self.output,  # type: ignore[call-overload]
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.ranks.append(process)
        return process

    def wait(self, first: subprocess.Popen[bytes]) -> None:
        """Until this one has ended well. Raises TrainingError when any ends badly, or it takes too long."""
        deadline = time.monotonic() + PATIENCE_S
        steps = self.point.tags.get("traced", "")
        while first.poll() is None:
            if steps and self._traces(steps):
                steps = ""
            if any(rank.poll() for rank in self.ranks) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        bad = [rank.returncode for rank in self.ranks if rank.poll()]
        if bad or first.poll() is None:
            self.output.flush()  # type: ignore[attr-defined]
            said = Path(self.output.name).read_text(errors="replace")[-TAIL:]  # type: ignore[attr-defined]
            why = f"exit code {bad[0]}" if bad else f"not done after {PATIENCE_S} s"
            raise TrainingError(f"{self.job}: {why}\n{said}")

    def _traces(self, steps: str) -> bool:
        """Whether its ranks have recorded so many steps: not before they step."""
        try:
            self.having.ask("trace", "--job", self.job, "--steps", steps)
        except ServiceError:
            return False
        return True

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                for rank in self.ranks:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(rank.pid, number)
                # nsenter ends at once; what it started still has to say how it ended.
                deadline = time.monotonic() + 8
                while any(map(_is_alive, self.ranks)) and time.monotonic() < deadline:
                    time.sleep(0.05)


def _is_alive(rank: subprocess.Popen[bytes]) -> bool:
    """Whether any process of its group is."""
    rank.poll()
    try:
        os.killpg(rank.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _servers(begun: _Start) -> None:
    """A node for each rank: the chief's, those of parameter servers, those of workers."""
    tags, nodes = begun.point.tags, begun.having.nodes
    sizes = {"ps": int(tags["ps"]), "worker": int(tags["workers"]), "chief": 1}
    places = {(role, index): nodes[f"{role}{index}"] for role in sizes for index in range(sizes[role])}
    cluster: dict[str, list[str]] = {role: [] for role in sizes}
    for (role, _), node in places.items():
        cluster[role].append(f"{node.address}:{PORT}")
    script = [begun.pythons.tensorflow, HERE / "train_ps.py", *_sizes(tags)]
    with begun.stopped():
        for (role, index), node in places.items():
            config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
            # Workers from the first CPU on, servers and chief from the last: always the same share one.
            cpu = index % CPUS if role == "worker" else (CPUS - 1 - index) % CPUS
            command = node.inside("taskset", "-c", cpu, *begun.wrapped(), *script)
            last = begun.start(command, {"TF_CONFIG": config, "TF_ENABLE_ONEDNN_OPTS": tags["onednn"]})
        begun.wait(last)


def _sizes(tags: Mapping[str, str]) -> list[str]:
    steps = str(STEPS[tags["network"]])
    return ["--network", tags["network"], "--batch", tags["batch"], "--steps", steps]


def _horovod(begun: _Start) -> None:
    """A node and a CPU for each rank; a rank that is asked for its threads has all CPUs."""
    tags = begun.point.tags
    script = [begun.pythons.tensorflow, HERE / "train_horovod.py", *_sizes(tags)]
    script += [word for name in ("intra", "inter") if name in tags for word in (f"--{name}", tags[name])]
    pinned = _PINNED if "intra" not in tags else []
    environ = {"TF_ENABLE_ONEDNN_OPTS": tags.get("onednn", "1")}
    slots = {f"worker{i}": 1 for i in range(int(tags["workers"]))}
    _horovodrun(begun, begun.pythons.tensorflow, slots, [*pinned, *begun.wrapped(), *script], environ)


def _torch(begun: _Start) -> None:
    _small_network(begun, begun.pythons.torch, "train_torch.py", "--tensors")


def _keras(begun: _Start) -> None:
    _small_network(begun, begun.pythons.tensorflow, "train_keras.py")


def _small_network(begun: _Start, python: Path, script: str, *options: str) -> None:
    """The network of examples/horovod. Of several nodes each has a CPU, one alone has all."""
    tags = begun.point.tags
    command = [python, ROOT / "examples" / "horovod" / script, *options]
    command += ["--steps", STEPS_OF_SMALL, "--batch", tags["batch"], "--threads", tags["threads"]]
    timeline = ["--horovod-timeline"] if begun.point.experiment in ("cycle", "fusion") else []
    pinned = _PINNED if int(tags["nodes"]) > 1 or begun.point.experiment == "nodes" else []
    environ = {
        "HOROVOD_CYCLE_TIME": tags["cycle"],
        "HOROVOD_FUSION_THRESHOLD": str(int(tags["fusion"]) << 20),
        "OMP_NUM_THREADS": tags["threads"],
    }
    slots = {f"worker{i}": int(tags["processes"]) for i in range(int(tags["nodes"]))}
    _horovodrun(begun, python, slots, [*pinned, *begun.wrapped(*timeline), *command], environ)


# Runs what follows on the CPU of its Horovod rank.
_PINNED = ["sh", "-c", f'exec taskset -c $((HOROVOD_RANK % {CPUS})) "$@"', "pinned"]


def _horovodrun(
    begun: _Start,
    python: Path,
    slots: Mapping[str, int],
    command: Sequence[object],
    environ: Mapping[str, str],
) -> None:
    """slots: ranks of each node. What horovodrun takes for ssh enters our nodes."""
    nodes = begun.having.nodes
    hosts = ",".join(f"{nodes[name].address}:{count}" for name, count in slots.items())
    known = " ".join(f"{node.address}={node.pid}" for node in nodes.values())
    path = f"{HERE / 'bin'}:{python.parent}:{os.environ['PATH']}"
    launcher = [python.with_name("horovodrun"), "-np", sum(slots.values()), "-H", hosts, "--gloo"]
    launcher += ["--network-interfaces", "cluster0", "--disable-cache"]
    with begun.stopped():
        begun.wait(
            begun.start([*launcher, *command], {**environ, "PATH": path, "ROOFLINE_PAPERS_NODES": known})
        )


def _layer(begun: _Start) -> None:
    """One convolution or LSTM, alone on a node with all its CPUs."""
    tags = dict(begun.point.tags)
    framework, layer = tags.pop("framework"), tags.pop("layer")
    swept = [word for name, text in tags.items() for word in (f"--{name}", text)]
    if framework == "torch":
        script = [begun.pythons.torch, ROOT / "examples" / "kernels" / f"{layer}.py"]
    else:
        script = [begun.pythons.tensorflow, HERE / "kernels_tensorflow.py", layer]
    node = begun.having.nodes["worker0"]
    command = node.inside(
        *begun.wrapped("--kernels", "all"), *script, "--threads", CPUS, "--steps", 20, *swept
    )
    with begun.stopped():
        begun.wait(begun.start(command, {"OMP_NUM_THREADS": str(CPUS)}))


LAUNCHERS = {"ps": _servers, "horovod": _horovod, "torch": _torch, "keras": _keras, "layer": _layer}
