"""deploy/containers: images built from the Dockerfiles, and a training in one container that an agent in
another one records."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from roofline_agent.kubernetes.patch import patch_for

from tests.fakes import free_port

from ..agent.kubernetes.samples import SAMPLES, applied, environment
from ..end_to_end.conftest import COMMANDS, REPOSITORY, TRAINING
from .kubernetes_cluster import tool
from .slurm_cluster import wait_until

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]
DEPLOYED = REPOSITORY / "deploy" / "containers"
ROLES = ("server", "agent", "client")
BASE = os.environ.get("ROOFLINE_BASE_ROOT", "")  # a root of Debian with Python: no registry is asked for one
STEPS = 60


def test_dockerfiles_are_linted() -> None:
    program = tool("hadolint")
    if program is None:
        pytest.skip("no hadolint: make .venv-kubernetes/.ready")
    files = [DEPLOYED / f"{role}.Dockerfile" for role in ROLES]
    done = subprocess.run([program, *files], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def compose() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOYED / "compose.yaml").read_text())["services"]
    return services


def test_agent_of_compose_has_the_rights_of_the_unit_and_sees_the_node() -> None:
    unit = (REPOSITORY / "deploy" / "systemd" / "roofline-agent.service").read_text()
    (line,) = [one for one in unit.splitlines() if one.startswith("AmbientCapabilities=")]
    agent = compose()["agent"]
    assert {f"CAP_{name}" for name in agent["cap_add"]} == set(line.partition("=")[2].split())
    assert (agent["cap_drop"], agent["pid"], agent["network_mode"]) == (["ALL"], "host", "host")
    assert agent["cgroup"] == "host"
    assert compose()["server"]["cap_drop"] == ["ALL"] and "cap_add" not in compose()["server"]


class Podman:
    """Containers and images in a folder, without a registry, cgroups or a daemon. Takes root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = ["--root", folder / "store", "--runroot", folder / "run", "--storage-driver", "overlay"]
        self._store = [str(word) for word in store]
        self._running: list[subprocess.Popen[bytes]] = []

    def apart(self, *words: Any) -> list[str]:
        # crun takes no hybrid of cgroups, as some machines have it: in a mount namespace there is one kind.
        inside = 'umount /sys/fs/cgroup/unified 2>/dev/null; exec "$@"'
        return ["unshare", "--mount", "sh", "-c", inside, "-", *(str(word) for word in words)]

    def command(self, program: str, *words: Any) -> list[str]:
        return self.apart(program, *self._store, *words)

    def run(self, program: str, *words: Any) -> str:
        done = subprocess.run(self.command(program, *words), capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def container(self, *words: Any) -> list[str]:
        limits = ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]
        engine = ["--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", "crun"]
        return self.command("podman", *engine, "run", "--rm", "--cgroups=disabled", *limits, *words)

    def once(self, *words: Any) -> str:
        """What a container says that ends by itself."""
        done = subprocess.run(self.container(*words), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{words}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout

    def start(self, log: str, *words: Any) -> None:
        with open(self.folder / log, "ab") as file:
            self._running.append(subprocess.Popen(self.container(*words), stdout=file, stderr=file))

    def start_on_host(self, image: str, words: list[str], rights: list[str], mounts: dict[Path, str]) -> None:
        """A container with processes and network of the host, which podman has only with cgroups: by crun.

        rights: its capabilities. mounts: folder of the host -> where it is in the container.
        """
        bundle = self.folder / "bundle"
        bundle.mkdir()
        subprocess.run(["crun", "spec"], cwd=bundle, check=True)
        config = json.loads((bundle / "config.json").read_text())
        config["root"] = {"path": "@ROOT@", "readonly": True}
        held = [f"CAP_{name}" for name in rights]
        config["process"] |= {
            "terminal": False,
            "args": words,
            "env": ["PATH=/opt/roofline/bin:/usr/bin:/bin", "HOME=/tmp"],
            "rlimits": [],
            "noNewPrivileges": True,
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted"), held),
        }
        config.pop("hostname")
        config["linux"] = {"namespaces": [{"type": "mount"}, {"type": "ipc"}]}
        bound = {Path("/sys"): "/sys", **mounts}
        config["mounts"] = [
            *(one for one in config["mounts"] if one["type"] in ("proc", "tmpfs", "devpts", "mqueue")),
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]},
            *(
                {"destination": there, "type": "bind", "source": str(here), "options": ["rbind"]}
                for here, there in bound.items()
            ),
        ]
        (bundle / "config.in").write_text(json.dumps(config))
        begun = self.run("buildah", "from", "--pull-never", f"localhost/{image}").strip()
        text = (
            'root=$("$@" mount $0) && sed "s#@ROOT@#$root#" config.in > config.json && '
            f"exec crun --root {self.folder}/crun --cgroup-manager=disabled run -b {bundle} agent"
        )
        with open(self.folder / "agent.log", "ab") as file:
            command = self.apart("sh", "-c", text, begun, "buildah", *self._store)
            self._running.append(subprocess.Popen(command, stdout=file, stderr=file, cwd=bundle))

    def stop(self) -> None:
        for process in reversed(self._running):
            process.terminate()
        for process in reversed(self._running):
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wheels(folder: Path, python: str) -> None:
    """All that the images need, for the base's version of Python."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [
        *project["dependencies"],
        *(one for extra in ("server", "page", "client", "webhook") for one in extras[extra]),
    ]
    needed = [one for one in needed if not one.startswith(project["name"])]
    options = ["--only-binary=:all:", "--python-version", python, "--quiet", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "download", *options, "--dest", folder]
    subprocess.run([*pip, *needed, "hatchling"], check=True, timeout=600)


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    missing = [name for name in ("podman", "buildah", "crun") if not shutil.which(name)]
    if os.getuid() or missing or not BASE:
        pytest.skip("takes root, podman, buildah, crun, and make test-containers for a base")
    folder = tmp_path_factory.mktemp("containers")
    for above in (folder, folder.parent):
        above.chmod(0o755)
    made = Podman(folder)
    python = subprocess.run(
        ["chroot", BASE, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    wheels(folder / "wheels", python)
    begun = made.run("buildah", "from", "scratch").strip()
    made.run("buildah", "copy", "--quiet", begun, BASE, "/")
    made.run("buildah", "commit", "--quiet", begun, "python-base")
    arguments = ["BASE=localhost/python-base", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/wheels"]
    options = [word for one in arguments for word in ("--build-arg", one)]
    options += ["--isolation", "chroot", "--network", "host", "--volume", f"{folder / 'wheels'}:/wheels:ro"]
    for role in ROLES:
        file = DEPLOYED / f"{role}.Dockerfile"
        made.run("buildah", "bud", *options, "-f", file, "-t", f"roofline-{role}", REPOSITORY)
    yield made
    made.stop()


@pytest.mark.parametrize("role", ROLES)
def test_image_runs_its_program_as_who_it_should(podman: Podman, role: str) -> None:
    assert podman.once("--network=none", f"roofline-{role}", "--version").startswith(f"roofline-{role} ")
    user = podman.once("--network=none", "--entrypoint=id", f"roofline-{role}", "-u").strip()
    assert user == ("0" if role == "agent" else "10001")


class Node:
    """A server and an agent in containers, as compose.yaml has them, and a client that has joined."""

    def __init__(self, podman: Podman) -> None:
        self.podman, folder = podman, podman.folder
        self.run, self.address = folder / "node", f"127.0.0.1:{free_port()}"
        data, state = folder / "data", folder / "state"
        for place in (data, state, self.run):
            place.mkdir()
        os.chown(data, 10001, 10001)
        server = [
            "--network=host",
            "--cap-drop=all",
            "--read-only",
            "-e",
            "HOME=/tmp",
            "-v",
            f"{data}:/var/lib/roofline",
        ]
        of_server = ["roofline-server", "--data", "/var/lib/roofline/server"]
        podman.once(*server, of_server[0], "init", *of_server[1:])
        listening = ["--listen", self.address, "--http", "off", "--no-page"]
        podman.start("server.log", *server, *of_server, *listening)
        new = [*server, of_server[0], "token", "new", *of_server[1:]]
        join, reader = (podman.once(*new, "--role", role).split()[-1] for role in ("agent", "reader"))
        mounts = ["-v", f"{self.run}:/run/roofline", "-v", f"{state}:/var/lib/roofline/agent"]
        agent = [
            "--network=host",
            "--cap-drop=all",
            "--read-only",
            "-e",
            "HOME=/tmp",
            *mounts,
            "roofline-agent",
        ]
        joining = [*agent, "--state", "/var/lib/roofline/agent", "join", self.address, join]
        wait_until(
            lambda: subprocess.run(podman.container(*joining)).returncode == 0, 90, "the agent has joined"
        )
        podman.once(*agent, "hooks", "--copy", "/run/roofline/hooks")
        words = [
            "roofline-agent",
            "--state",
            "/var/lib/roofline/agent",
            "--socket",
            "/run/roofline/agent.sock",
        ]
        places = {self.run: "/run/roofline", state: "/var/lib/roofline/agent"}
        rights = compose()["agent"]["cap_add"]
        podman.start_on_host("roofline-agent", [*words, "--interval", "0.2"], rights, places)
        wait_until((self.run / "agent.sock").is_socket, what="the agent listens")
        self.client("join", self.address, reader)

    def client(self, *words: str) -> str:
        environ = {**os.environ, "HOME": str(self.podman.folder)}
        environ.pop("ROOFLINE_SERVER", None)
        done = subprocess.run(
            [COMMANDS / "roofline-client", *words], env=environ, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def train(self, **environ: str) -> None:
        """In an image that has nothing of ours."""
        mount = ["-v", f"{DEPLOYED}/training.py:/training.py:ro", "--entrypoint=python3"]
        said = self._in_container([*mount, "python-base", "/training.py", str(STEPS)], environ)
        assert f"{STEPS} steps done" in said

    def train_wrapped(self, job: str) -> None:
        """In an image that has the agent's program, by `roofline-agent run`."""
        training = ["python3", "/training.py", str(STEPS), "0.02", "8"]
        words = ["-v", f"{TRAINING}:/training.py:ro", "roofline-agent", "run", "--job", job, "--", *training]
        assert f"step {STEPS}" in self._in_container(words, {})

    def _in_container(self, words: list[str], environ: Mapping[str, str]) -> str:
        """With processes, files, network, host name and user of its own."""
        given = [word for name, text in environ.items() for word in ("-e", f"{name}={text}")]
        apart = ["--network=none", "--hostname=elsewhere", "--user=4711", "--cap-drop=all"]
        return self.podman.once(*apart, "-v", f"{self.run}:/run/roofline:ro", *given, *words)

    def ranks(self, job: str) -> dict[str, dict[str, Any]]:
        """By key, once all steps are known; a rank that is not there yet: nothing."""

        def known() -> dict[str, dict[str, Any]] | None:
            if job not in {one["job"] for one in json.loads(self.client("jobs", "--format", "json"))["jobs"]}:
                return None
            words = ["report", "--job", job, "--steps", "all", "--format", "json"]
            ranks = {one["rank"]: one for one in json.loads(self.client(*words))["ranks"]}
            values = [one["summary"]["values"] for one in ranks.values()]
            done = all(
                one["steps"]["value"] == STEPS and one["cpu_time_per_step"]["value"] is not None
                for one in values
            )
            return ranks if ranks and done else None

        found: dict[str, dict[str, Any]] = wait_until(known, 60, f"all of job {job}")
        return found


@pytest.fixture(scope="module")
def node(podman: Podman) -> Node:
    return Node(podman)


def check(ranks: dict[str, dict[str, Any]], key: str) -> None:
    assert list(ranks) == [key]
    # training.py works 20 ms of CPU time a step.
    assert 0.018 < ranks[key]["summary"]["values"]["cpu_time_per_step"]["value"] < 0.04


def test_training_in_a_container_is_recorded_by_an_agent_in_another(node: Node) -> None:
    node.train(**compose()["training"]["environment"])
    check(node.ranks("compose"), "worker:0")
    (job,) = [
        one for one in json.loads(node.client("jobs", "--format", "json"))["jobs"] if one["job"] == "compose"
    ]
    assert job["hosts"] == [socket.gethostname()], "the node's name, not that of a container"


def test_training_with_the_variables_of_a_pod_is_its_rank(node: Node) -> None:
    pod = SAMPLES["JobSet, one job of many pods"].pod
    prepared = applied(pod, patch_for(pod, "team-a").operations)
    node.train(**environment(prepared, "gpt-workers-0-5-x7k2p"))
    ranks = node.ranks("team-a.gpt")
    check(ranks, "workers:5")
    assert ranks["workers:5"]["name"] == "gpt-workers-0-5-x7k2p"


def test_training_under_run_in_a_container_has_kernels_too(node: Node) -> None:
    node.train_wrapped("wrapped")

    def flops() -> float | None:
        (values,) = [one["summary"]["values"] for one in node.ranks("wrapped").values()]
        found: float | None = values["flops_per_step"]["value"]
        return found

    assert wait_until(flops, 60, "its kernels") == 2 * 512**3
