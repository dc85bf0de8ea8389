"""Ranks in namespaces of their own, as containers have, with the agent outside; several jobs on one node."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from roofline_agent.kubernetes.patch import patch_for

from ..agent.kubernetes.samples import applied, environment
from ..fakes import ended
from .conftest import COMMANDS, REPOSITORY, Site, wait_until
from .training import KERNEL

pytestmark = pytest.mark.slow

PIDS = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
NETWORK = ("unshare", "--net")
PLAIN = sys._base_executable  # which has nothing of ours
APART = (*PIDS, "--mount", "--net", "--uts", "--ipc")
# Of the node there is only the folder of the socket, read-only, where ranks look for it without being told.
INSIDE = (
    "mount -t tmpfs none /run && mkdir /run/roofline && mount --bind -o ro $0 /run/roofline && "
    'hostname elsewhere && exec "$@"'
)

# Says its number, marks 20 steps as itself, or for workers that are threads of it, and waits to be ended. In
# each step it prints what it is given, as oneDNN does where it is asked to.
TRAINING = """
import os, sys, threading, time
import roofline_step

def train(of):
    for k in range(20):
        begin = time.monotonic_ns()
        end = time.thread_time() + 0.04
        while time.thread_time() < end: sum(range(1000))
        for line in sys.argv[2:]: print(line.format(stamp=time.time() * 1000 - 1.5), flush=True)
        roofline_step.mark(k, 4, roofline_step.BEGIN, of, time_ns=begin)
        roofline_step.mark(k, 4, roofline_step.END, of)

print("process", os.getpid(), flush=True)
speak_for = [("worker", i) for i in range(int(sys.argv[1]))] or [None]
threads = [threading.Thread(target=train, args=(of,)) for of in speak_for]
for one in threads: one.start()
for one in threads: one.join()
time.sleep(600)
"""
# Sends a megabyte to itself, over an interface that only its own network has.
TALKING = """
import fcntl, socket, struct, threading, time
import roofline_step
with socket.socket() as one:
    fcntl.ioctl(one, 0x8914, struct.pack("16sh22x", b"lo", 1 | 64))  # SIOCSIFFLAGS: up, running
listener = socket.create_server(("127.0.0.1", 0))
link = socket.create_connection(listener.getsockname())
other = listener.accept()[0]
reader = threading.Thread(target=lambda: [None for _ in iter(lambda: other.recv(1 << 16), b"")])
reader.start()
roofline_step.mark(0)
time.sleep(2)
for k in range(1, 40):
    link.sendall(bytes(1 << 20))
    time.sleep(0.1)
    roofline_step.mark(k)
time.sleep(600)
"""


def needs(words: tuple[str, ...]) -> None:
    try:
        done = subprocess.run([*words, "true"], capture_output=True, timeout=20)
    except FileNotFoundError:
        pytest.skip("no unshare(1) here")
    if done.returncode:
        pytest.skip(f"{' '.join(words)} is not permitted here: {done.stderr.decode().strip()}")


started: list[subprocess.Popen[bytes]] = []


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose agent is at work; the tests have jobs of their own there."""
    made = Site(tmp_path_factory.mktemp("node"))
    try:
        made.server("--seal", "0.5")
        made.agent()
        wait_until(lambda: "connected to server" in made.log("agent.log"), what="the agent at work")
        yield made
    finally:
        made.stop()


@pytest.fixture
def node(standing: Site) -> Iterator[Site]:
    yield standing
    while started:
        with ended(started.pop()):
            pass


@pytest.fixture
def job(request: pytest.FixtureRequest) -> str:
    """The agent sees all ranks of the machine: those of another test, or another run of it, are not ours."""
    return f"{request.node.name}-{os.getpid()}"


def start(site: Site, log: str, command: Sequence[Any], **environ: str) -> None:
    """A process that is killed after the test: unshare passes no other signal on."""
    started.append(site.start(list(command), log, **environ))


def python(code: str, *arguments: Any) -> list[Any]:
    return [sys.executable, "-c", code, *arguments]


def config(role: str, index: int) -> str:
    cluster = {"ps": ["h:1"], "worker": ["h:2", "h:3"], "chief": ["h:4"]}
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})


def apart(site: Site, *command: Any) -> list[Any]:
    """The command where it shares nothing with the node but the folder of the socket."""
    told = ("env", "-u", "ROOFLINE_SOCKET", "-u", "XDG_RUNTIME_DIR")
    return [*APART, "sh", "-c", INSIDE, site.socket.parent, *told, *command]


def numbers(pid: int | None) -> list[int]:
    """Of a process of this node, in its PID namespaces from the outermost on (proc(5), NSpid)."""
    (line,) = re.findall(r"^NSpid:(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return [int(number) for number in line.split()]


def known(site: Site, job: str) -> Any:
    """The report of a job that the server knows."""
    found = site.known(job)
    assert found is not None
    return found


def wait_for_steps(site: Site, job: str, rank: str, count: int = 20) -> dict[str, Any]:
    def seen() -> dict[str, Any] | None:
        values = site.seen(job).get(rank, {})
        complete = (values.get("steps") or 0) >= count and values.get("cpu_time_per_step") is not None
        return values if complete else None

    found: dict[str, Any] = wait_until(seen, what=f"{count} steps of {rank} of job {job}")
    return found


def test_rank_in_a_pid_namespace_of_its_own(node: Site, job: str) -> None:
    needs(PIDS)
    start(node, "rank.log", [*PIDS, *python(TRAINING, 0)], TF_CONFIG=config("worker", 1), ROOFLINE_JOB=job)
    values = wait_for_steps(node, job, "worker:1")
    assert values["steps"] == 20
    # Its CPU time was read under the number it has outside.
    assert 0.03 < values["cpu_time_per_step"] < 0.08
    assert set(node.seen(job)) == {"worker:1"}


def test_rank_that_shares_nothing_with_the_node_but_the_folder_of_the_socket(node: Site, job: str) -> None:
    """As in a pod: processes, files, network and host name of its own."""
    needs(APART)
    pod = {"JOB": f"team.{job}", "ROLE": "trainer", "INDEX": "3", "NAMESPACE": "team"}
    start(
        node,
        "rank.log",
        apart(node, *python(TRAINING, 0)),
        **{f"ROOFLINE_POD_{name}": text for name, text in pod.items()},
        ROOFLINE_POD="trainer-3-x7k2p",
    )
    values = wait_for_steps(node, f"team.{job}", "trainer:3")
    assert values["steps"] == 20
    assert 0.03 < values["cpu_time_per_step"] < 0.08
    (rank,) = known(node, f"team.{job}").ranks
    assert (rank.rank, rank.name, rank.host) == ("trainer:3", "trainer-3-x7k2p", socket.gethostname())
    assert numbers(rank.pid) == [rank.pid, 1], "outside, and as the first process of its container"


def test_wrapper_in_a_container_sends_kernels_and_the_exit_of_its_own_child(node: Site, job: str) -> None:
    """It is the first process there, and knows its child by another number than the node does."""
    needs(APART)
    wrap = [COMMANDS / "roofline-agent", "run", "--job", job, "--"]
    command = apart(node, *wrap, *python(TRAINING, 0, KERNEL))
    start(node, "kernels.log", command, TF_CONFIG=config("worker", 1))
    wait_for_steps(node, job, "worker:1")
    wait_until(lambda: node.worked("worker:1", 20, job), what="its kernels")
    values = node.seen(job)["worker:1"]
    assert (values["steps"], values["flops_per_step"]) == (20, 2 * 512**3)
    assert 0.03 < values["cpu_time_per_step"] < 0.08
    (rank,) = known(node, job).ranks
    said = re.search(r"^process (\d+)$", node.log("kernels.log"), re.MULTILINE)
    assert said and numbers(rank.pid) == [rank.pid, int(said[1])] and int(said[1]) > 1
    os.kill(rank.pid, signal.SIGTERM)
    exits = wait_until(lambda: [e for e in known(node, job).exits if e.state == "exited"], what="its exit")
    assert [(one.rank, one.status) for one in exits] == [("worker:1", -signal.SIGTERM)]


def test_pods_that_the_page_about_kubernetes_has_one_try_are_recorded(node: Site) -> None:
    """deploy/kubernetes/check.yaml: its command, with what the controller of jobs and the webhook add."""
    needs(APART)
    copied = node.socket.parent / "hooks"
    assert node.start([COMMANDS / "roofline-agent", "hooks", "--copy", copied], "hooks.log").wait(60) == 0
    check = yaml.safe_load((REPOSITORY / "deploy" / "kubernetes" / "check.yaml").read_text())
    name, pod = check["metadata"]["name"], check["spec"]["template"]
    namespace = f"team-{os.getpid()}"
    pod["metadata"]["labels"] = {"batch.kubernetes.io/job-name": name}
    pods = [f"{name}-{index}-x7k2p" for index in range(check["spec"]["completions"])]
    for index, called in enumerate(pods):
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = str(index)
        prepared = applied(pod, patch_for(pod, namespace).operations)
        _, *words = prepared["spec"]["containers"][0]["command"]
        start(node, "check.log", apart(node, PLAIN, *words), **environment(prepared, called))
    job = f"{namespace}.{name}"
    for index in range(len(pods)):
        values = wait_for_steps(node, job, f"worker:{index}", 200)
        assert values["steps"] == 200 and 0.018 < values["cpu_time_per_step"] < 0.04
    assert [(rank.rank, rank.name) for rank in known(node, job).ranks] == [
        (f"worker:{index}", called) for index, called in enumerate(pods)
    ]


def test_wrapper_in_a_pid_namespace_speaks_of_its_own_child(node: Site, job: str) -> None:
    needs(PIDS)
    code = "import time\nfor k in range(21): print('step', k); time.sleep(0.05)\ntime.sleep(600)"
    wrapped = ["--step-regex", r"step (?P<step>\d+)", "--", sys.executable, "-c", code]
    command = [*PIDS, COMMANDS / "roofline-agent", "run", "--job", job, *wrapped]
    start(node, "rank.log", command, TF_CONFIG=config("worker", 1))
    assert wait_for_steps(node, job, "worker:1")["steps"] == 20
    assert set(node.seen(job)) == {"worker:1"}


def test_two_jobs_on_one_node_stay_apart(node: Site, job: str) -> None:
    for one in (f"{job}-left", f"{job}-right"):
        for index in range(2):
            environ = {"TF_CONFIG": config("worker", index), "ROOFLINE_JOB": one}
            start(node, f"{one}{index}.log", python(TRAINING, 0), **environ)
    for one in (f"{job}-left", f"{job}-right"):
        for index in range(2):
            values = wait_for_steps(node, one, f"worker:{index}")
            assert (values["steps"], values["examples_per_second"] > 0) == (20, True)
        assert set(node.seen(one)) == {"worker:0", "worker:1"}


def test_ranks_that_are_threads_of_one_process(node: Site, job: str) -> None:
    start(node, "chief.log", python(TRAINING, 2), TF_CONFIG=config("chief", 0), ROOFLINE_JOB=job)

    def both() -> dict[str, dict[str, Any]] | None:
        found = node.seen(job)
        steps = [found.get(f"worker:{index}", {}).get("steps") for index in range(2)]
        return found if steps == [20, 20] else None

    found = wait_until(both, what="20 steps of both workers")
    assert set(found) == {"chief:0", "worker:0", "worker:1"}
    # Nobody can tell which thread's CPU time a worker's is.
    assert found["worker:0"].get("cpu_time_per_step") is None


def test_traffic_in_a_network_namespace_of_its_own(node: Site, job: str) -> None:
    needs(NETWORK)
    start(node, "rank.log", [*NETWORK, *python(TALKING)], TF_CONFIG=config("worker", 0), ROOFLINE_JOB=job)
    values = wait_for_steps(node, job, "worker:0", 39)
    sent = wait_until(lambda: node.seen(job)["worker:0"].get("sent_bytes_per_step"))
    # Exact counts are test_tcp.py's; steps of 0.1 s on counts of each second are not.
    assert sent > 1 << 17
    assert values["steps"] == 39
