"""The agent as its user meets it: real processes, exit codes, one clear line for every error."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import ingest_pb2_grpc
from roofline_step._packets import pack_mark

from tests.fakes import AGENT, clean_environ, ended, wait_for


class Inbox(ingest_pb2_grpc.IngestServicer):
    """A server that keeps what comes and acks it."""

    def __init__(self) -> None:
        self.hellos: list[Any] = []
        self.batches: list[Any] = []

    def Stream(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        welcomed = False
        for message in requests:
            if message.HasField("hello"):
                self.hellos.append(message.hello)
                if not welcomed:
                    welcomed = True
                    yield pb.ServerMessage(welcome=pb.Welcome(acked=0))
            elif message.HasField("batch"):
                self.batches.append(message.batch)
                yield pb.ServerMessage(ack=pb.Ack(sequence=message.batch.sequence))

    def events(self, kind: int) -> list[Any]:
        return [event for batch in self.batches for event in batch.events if event.kind == kind]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    server = grpc.server(futures.ThreadPoolExecutor(4))
    ingest_pb2_grpc.add_IngestServicer_to_server(inbox, server)
    inbox.port = server.add_insecure_port("127.0.0.1:0")  # type: ignore[attr-defined]
    server.start()
    yield inbox
    server.stop(0).wait()


class Place:
    """Where one agent lives, and the agents started there."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.socket = root / "agent.sock"
        self.log = root / "log"

    def arguments(self, *more: str) -> list[str]:
        return [*AGENT, "--state", str(self.root / "state"), "--socket", str(self.socket), *more]

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        log = self.log.open("wb")
        with log:
            agent = subprocess.Popen(self.arguments(*more), env=clean_environ(), stderr=log)
        wait_for(lambda: self.socket.exists() or agent.poll() is not None, "the agent's socket")
        return agent

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return run(*self.arguments(*arguments)[len(AGENT) :], **environ)


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*AGENT, *arguments], env=clean_environ(**environ), capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_agent_cleanly(place: Place, inbox: Inbox, number: int) -> None:
    with ended(place.start("--server", f"127.0.0.1:{inbox.port}")) as agent:  # type: ignore[attr-defined]
        wait_for(lambda: inbox.batches)
        agent.send_signal(number)
        assert agent.wait(20) == 0
    assert not place.socket.exists()
    assert "Traceback" not in place.log.read_text()
    sequences = [batch.sequence for batch in inbox.batches]
    assert sequences == list(range(1, len(sequences) + 1))
    ends = [(b.begin_ns, b.end_ns) for b in inbox.batches]
    assert all(a[1] == b[0] for a, b in pairwise(ends)), "no time is left out between batches"


def test_agent_without_a_server_ends_cleanly_and_keeps_its_batches(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        free = one.getsockname()[1]
    with ended(place.start("--server", f"127.0.0.1:{free}")) as agent:
        wait_for(lambda: "does not answer" in place.log.read_text())
        agent.terminate()
        assert agent.wait(20) == 0
    log = place.log.read_text()
    assert "the rest waits in" in log and "Traceback" not in log


def test_server_that_only_listens_holds_nothing_up(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        server = f"127.0.0.1:{mute.getsockname()[1]}"
        with ended(place.start("--server", server)) as agent:
            mute.settimeout(20)
            mute.accept()[0].close()
            agent.terminate()
            assert agent.wait(20) == 0
    assert "Traceback" not in place.log.read_text()


TRAINING = """
import os, sys, time, roofline_step
roofline_step.mark(0, examples=3)
print(flush=True); sys.stdin.read()
"""


def test_rank_is_found_sampled_marked_and_missed(place: Place, inbox: Inbox) -> None:
    address = f"127.0.0.1:{inbox.port}"  # type: ignore[attr-defined]
    with ended(place.start("--server", address, "--interval", "0.1", "--sources", "process")) as agent:
        job = f"t{os.getpid()}-{time.monotonic_ns()}"
        naming = {"ROOFLINE_JOB": job, "ROOFLINE_RANK": "4", "OMP_NUM_THREADS": "3"}
        environ = clean_environ(ROOFLINE_SOCKET=str(place.socket), **naming)
        command = [AGENT[0], "-c", TRAINING]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with ended(subprocess.Popen(command, env=environ, **pipes)) as rank:  # type: ignore[call-overload]
            rank.stdout.readline()

            def ours(batch: Any) -> set[int]:
                return {n for n, r in enumerate(batch.ranks) if (r.job, r.pid) == (job, rank.pid)}

            def told(kind: int, text: str = "") -> bool:
                events = [e for b in inbox.batches for e in b.events if e.rank in ours(b)]
                return any(e.kind == kind and text in e.text for e in events)

            def sampled() -> bool:
                return any(n in ints(s.rank) for b in inbox.batches for s in b.samples for n in ours(b))

            wait_for(sampled, "samples of the rank")
            wait_for(lambda: any(n in ints(b.marks.rank) for b in inbox.batches for n in ours(b)), "its mark")
            wait_for(lambda: told(pb.EVENT_KIND_RANK_STARTED), "word of its start")
            for fact in ("setting.OMP_NUM_THREADS=3", "setting.processes_per_node=1"):
                assert told(pb.EVENT_KIND_FACT, fact)
        wait_for(lambda: told(pb.EVENT_KIND_RANK_EXITED), "word of its end")
        agent.terminate()
        assert agent.wait(20) == 0
    (hello, *_) = inbox.hellos
    assert [s.name for s in hello.sources] == ["process"]
    assert hello.interval_ns == 100_000_000
    assert len(inbox.events(pb.EVENT_KIND_AGENT_STARTED)) == 1


def ints(column: bytes) -> list[int]:
    return [int.from_bytes(column[n : n + 8], "little", signed=True) for n in range(0, len(column), 8)]


@pytest.mark.slow
def test_mark_for_a_negative_rank_does_not_end_the_agent(place: Place, inbox: Inbox) -> None:
    address = f"127.0.0.1:{inbox.port}"  # type: ignore[attr-defined]
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ended(place.start("--server", address)) as agent, link:
        link.connect(str(place.socket))
        link.send(pack_mark(3, 1, 0, 1, ("worker", -1)))
        sent = len(inbox.batches)
        wait_for(lambda: len(inbox.batches) > sent + 2 or agent.poll() is not None)
        assert agent.poll() is None


@pytest.mark.slow
def test_hostile_tf_config_does_not_end_the_agent(place: Place, inbox: Inbox) -> None:
    config = '{"task": {"type": "worker", "index": 5000000000}}'
    address = f"127.0.0.1:{inbox.port}"  # type: ignore[attr-defined]
    rank = subprocess.Popen(["sleep", "60"], env=clean_environ(TF_CONFIG=config))
    with ended(rank), ended(place.start("--server", address)) as agent:
        wait_for(lambda: len(inbox.batches) > 2 or agent.poll() is not None)
        assert agent.poll() is None


@pytest.mark.slow
def test_identity_and_sequence_survive_a_kill(place: Place, inbox: Inbox) -> None:
    address = f"127.0.0.1:{inbox.port}"  # type: ignore[attr-defined]
    for _ in range(2):
        with ended(place.start("--server", address)) as agent:
            seen = len(inbox.batches)
            wait_for(lambda seen=seen: len(inbox.batches) > seen)
            agent.kill()
    first, *_, last = inbox.hellos
    assert first.agent == last.agent
    assert first.instance != last.instance


def test_second_agent_on_one_state_is_told_so(place: Place) -> None:
    with ended(place.start()):
        second = run("--state", str(place.root / "state"), "--socket", str(place.root / "other.sock"))
        third = run("--state", str(place.root / "fresh"), "--socket", str(place.socket))
    assert (second.returncode, third.returncode) == (6, 6)
    assert "another agent already works with" in second.stderr and "--state" in second.stderr
    assert "another agent listens at" in third.stderr and "--socket" in third.stderr
    assert len(second.stderr.splitlines()) == len(third.stderr.splitlines()) == 1


def test_place_that_cannot_be_had(place: Place) -> None:
    (place.root / "file").write_text("")
    done = run("--state", str(place.root / "file" / "x"))
    assert done.returncode == 6
    assert "choose another --state" in done.stderr and "Traceback" not in done.stderr


def test_malformed_configuration(place: Place) -> None:
    config = place.root / "agent.toml"
    config.write_text("interval = ")
    done = place.run("--config", str(config))
    assert done.returncode == 3
    assert str(config) in done.stderr and "TOML" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--interval", "100"], 3, "interval = 100.0 s is outside 0.01 .. 60.0 s"),
        (["--interval", "soon"], 2, "--interval"),
        (["--server", "nowhere"], 3, "must be HOST:PORT"),
        (["--sources", "process,x"], 3, "unknown source 'x'"),
        (["--nonsense"], 2, "--nonsense"),
        (["nonsense"], 2, "nonsense"),
        (["run"], 2, "Missing argument"),
        (["doctor", "--format", "xml"], 2, "--format"),
    ],
    ids=str,
)
def test_wrong_usage(place: Place, arguments: list[str], status: int, says: str) -> None:
    done = place.run(*arguments)
    assert done.returncode == status
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_variables_are_named_as_the_place_of_an_error(place: Place) -> None:
    done = place.run(ROOFLINE_INTERVAL="0")
    assert done.returncode == 3
    assert "environment" in done.stderr


def test_sources_may_have_spaces(place: Place) -> None:
    assert place.run("--sources", "process, tcp", "doctor").returncode == 0


def test_sources_before_calibrate_are_no_wrong_configuration(place: Place) -> None:
    config = '{"cluster": {"worker": ["node1:1"]}, "task": {"type": "worker", "index": 0}}'
    training = subprocess.Popen(["sleep", "60"], env=clean_environ(TF_CONFIG=config))
    with ended(training):
        done = place.run("--sources", "process,tcp", "calibrate", "--quick")
    assert done.returncode == 6, "it refuses to measure beside a training, and nothing else"


def test_doctor_for_people_and_for_programs(place: Place) -> None:
    text = place.run("--server", "127.0.0.1:1", "doctor")
    assert text.returncode == 0
    assert "ok   source process" in text.stdout
    lines = text.stdout.splitlines()
    (at,) = [n for n, line in enumerate(lines) if line.startswith("off  agent")]
    assert lines[at + 1].strip().startswith("fix: ")
    (at,) = [n for n, line in enumerate(lines) if line.startswith("ok   source process")]
    assert lines[at + 1].strip() == "fills: CPU time and utilization, memory"
    (at,) = [n for n, line in enumerate(lines) if line.startswith("off  kernels ncu")]
    assert "ROOFLINE_NCU" in lines[at + 1]
    findings = json.loads(place.run("--server", "127.0.0.1:1", "doctor", "--format", "json").stdout)
    assert {f["what"]: f["works"] for f in findings}["source process"] is True
    assert all(f["works"] or f["text"] for f in findings)
    assert all(f["fills"] for f in findings if f["what"].startswith("source "))


def test_doctor_fails_where_no_source_works(place: Place) -> None:
    done = place.run("--sources", "perf", "doctor", ROOFLINE_PERF="/nonexistent/perf")
    assert done.returncode == 1
    assert "perf is not installed" in done.stdout


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("roofline-agent 0.")


def test_help_shows_examples_and_exit_codes() -> None:
    done = run("--help")
    assert done.returncode == 0
    for part in (
        "Examples:",
        "roofline-agent run --job 42 -- python train.py",
        "Exit codes:",
        "--server",
        "doctor",
    ):
        assert part in done.stdout
    assert "Example:" in run("run", "--help").stdout


def test_wrapping_loads_nothing_heavy() -> None:
    code = "import sys, roofline_agent.run.wrapper, roofline_agent.cli; print(*sys.modules)"
    done = subprocess.run([AGENT[0], "-c", code], capture_output=True, text=True, timeout=60)
    assert not {"grpc", "google.protobuf", "psutil", "sqlite3", "numpy"} & set(done.stdout.split())
    assert "roofline_agent.run.wrapper" in done.stdout.split()


def test_settings_before_run_reach_the_rank(place: Place) -> None:
    show = "import os; print(os.environ['ROOFLINE_SOCKET'], os.environ['ROOFLINE_JOB'])"
    done = place.run("--socket", "/tmp/its.sock", "--job", "9", "run", "--", sys.executable, "-c", show)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["/tmp/its.sock", "9"]
    done = place.run(
        "--job",
        "9",
        "run",
        "--job",
        "10",
        "--",
        sys.executable,
        "-c",
        "import os; print(os.environ['ROOFLINE_JOB'])",
    )
    assert done.stdout.split() == ["10"], "the one nearer to the rank counts"
