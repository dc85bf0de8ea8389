"""A running agent: ranks found, batches sent, signals, hostile processes; and a clean end."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
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
from roofline_agent.config import Config
from roofline_agent.daemon import Daemon
from roofline_agent.errors import Unavailable
from roofline_agent.records import EventKind
from roofline_step.packets import pack_mark

from tests.fakes import AGENT, clean_environ, ended, inherited, wait_for

from .place import Place


def test_file_system_without_locks_is_no_other_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Lustre that is mounted without flock."""

    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(Unavailable, match=r"cannot lock .*Function not implemented; choose a --state"):
        Daemon(Config(state=str(tmp_path)))


class Inbox(ingest_pb2_grpc.IngestServicer):
    """A server that keeps what comes and acks it."""

    def __init__(self) -> None:
        self.hellos: list[Any] = []
        self.batches: list[Any] = []
        self.hold_ms = 0

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
                ack = pb.Ack(sequence=message.batch.sequence, hold_ms=self.hold_ms)
                yield pb.ServerMessage(ack=ack)

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


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_ends_the_agent_cleanly(place: Place, inbox: Inbox, number: int) -> None:
    with inherited(number, signal.SIG_DFL):
        agent = place.start("--server", f"127.0.0.1:{inbox.port}")  # type: ignore[attr-defined]
    with ended(agent):
        wait_for(lambda: inbox.batches)
        agent.send_signal(number)
        assert agent.wait(20) == 0
    assert not place.socket.exists()
    assert "Traceback" not in place.log.read_text()
    sequences = [batch.sequence for batch in inbox.batches]
    assert sequences == list(range(1, len(sequences) + 1))
    ends = [(b.begin_ns, b.end_ns) for b in inbox.batches]
    assert all(a[1] == b[0] for a, b in pairwise(ends)), "no time is left out between batches"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signal_that_was_ignored_at_the_start_does_not_end_the_agent(
    place: Place, inbox: Inbox, number: int
) -> None:
    with inherited(number, signal.SIG_IGN):
        agent = place.start("--server", f"127.0.0.1:{inbox.port}")  # type: ignore[attr-defined]
    with ended(agent):
        wait_for(lambda: inbox.batches)
        agent.send_signal(number)
        sent = len(inbox.batches)
        wait_for(lambda: len(inbox.batches) >= sent + 3 or agent.poll() is not None)
        assert agent.poll() is None
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(20) == 0


def test_no_thread_of_the_agent_takes_a_cpu_from_a_training(place: Place, inbox: Inbox) -> None:
    with ended(place.start("--server", f"127.0.0.1:{inbox.port}")) as agent:  # type: ignore[attr-defined]
        wait_for(lambda: inbox.batches)
        threads = [int(one.name) for one in Path(f"/proc/{agent.pid}/task").iterdir()]
        assert {os.sched_getscheduler(one) for one in threads} == {os.SCHED_BATCH}


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


def test_agent_gathers_as_long_as_acks_ask_and_goes_back(place: Place, inbox: Inbox) -> None:
    def lengths_s() -> list[float]:
        return [(batch.end_ns - batch.begin_ns) / 1e9 for batch in inbox.batches]

    with ended(place.start("--server", f"127.0.0.1:{inbox.port}")):  # type: ignore[attr-defined]
        wait_for(lambda: inbox.batches)
        assert max(lengths_s()) < 2.5
        inbox.hold_ms = 2500
        wait_for(lambda: lengths_s()[-1] >= 2.5)
        (said,) = {event.text for event in inbox.batches[-1].events}
        assert said == "batches.held=2.5 s: the server was busy"
        inbox.hold_ms = 0
        before = len(inbox.batches)
        wait_for(lambda: len(inbox.batches) > before + 2)
        wait_for(lambda: max(lengths_s()[-2:]) < 2.5)
        assert not inbox.batches[-1].events
    spans = [(batch.begin_ns, batch.end_ns) for batch in inbox.batches]
    assert all(a[1] == b[0] for a, b in pairwise(spans)), "no time is left out between batches"


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

            def reported(kind: int, text: str = "") -> bool:
                events = [e for b in inbox.batches for e in b.events if e.rank in ours(b)]
                return any(e.kind == kind and text in e.text for e in events)

            def sampled() -> bool:
                return any(n in ints(s.rank) for b in inbox.batches for s in b.samples for n in ours(b))

            wait_for(sampled, "samples of the rank")
            wait_for(lambda: any(n in ints(b.marks.rank) for b in inbox.batches for n in ours(b)), "its mark")
            wait_for(lambda: reported(pb.EVENT_KIND_RANK_STARTED), "its start")
            for fact in ("setting.OMP_NUM_THREADS=3", "setting.processes_per_node=1"):
                assert reported(pb.EVENT_KIND_FACT, fact)
        wait_for(lambda: reported(pb.EVENT_KIND_RANK_EXITED), "its end")
        agent.terminate()
        assert agent.wait(20) == 0
    (hello, *_) = inbox.hellos
    assert [s.name for s in hello.sources] == ["process"]
    assert hello.interval_ns == 100_000_000
    assert len(inbox.events(pb.EVENT_KIND_AGENT_STARTED)) == 1


LAST_MARK = """
import sys, roofline_step
roofline_step.mark(0)
print(flush=True); sys.stdin.readline()
roofline_step.mark(1)
"""


def test_end_of_a_rank_has_its_step_that_was_marked_while_a_batch_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon(Config(state=str(tmp_path), socket=str(tmp_path / "agent.sock"), sources=("process",)))
    job = f"t{os.getpid()}-{time.monotonic_ns()}"
    naming = {"ROOFLINE_JOB": job, "ROOFLINE_RANK": "0", "ROOFLINE_SOCKET": str(tmp_path / "agent.sock")}
    pipe = subprocess.PIPE
    command = [AGENT[0], "-c", LAST_MARK]
    with ended(subprocess.Popen(command, env=clean_environ(**naming), stdin=pipe, stdout=pipe)) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        daemon._receiver.accept()
        daemon._scan(time.monotonic_ns())
        with monkeypatch.context() as patched:
            patched.setattr(daemon._sampler, "wait", lambda seconds: rank.communicate(b"\n"))
            batch = daemon._gather(time.monotonic_ns())
    daemon._sampler.close()
    daemon._listener.close()
    daemon._spool.close()
    os.close(daemon._lock)
    ends = [e.step for e in batch.events if e.kind is EventKind.RANK_EXITED and e.rank and e.rank.job == job]
    assert ends == [1]
    assert [mark.step for mark in batch.marks if mark.rank.job == job] == [0, 1]


LATE_RANK = """
import sys, roofline_step
roofline_step.send_fact("hook.torch", "installed")
print(flush=True); sys.stdin.readline()
roofline_step.send_fact("rank.variables", '{"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "a"}')
roofline_step.mark(0)
print(flush=True); sys.stdin.read()
"""


@pytest.mark.slow
def test_agent_whose_socket_is_removed_takes_marks_again(place: Place, inbox: Inbox) -> None:
    address = f"127.0.0.1:{inbox.port}"  # type: ignore[attr-defined]
    with ended(place.start("--server", address)):
        wait_for(place.socket.exists)
        place.socket.unlink()
        wait_for(place.socket.exists)
        environ = clean_environ(ROOFLINE_SOCKET=str(place.socket), ROOFLINE_JOB="again", ROOFLINE_RANK="0")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with ended(subprocess.Popen([AGENT[0], "-c", TRAINING], env=environ, **pipes)):  # type: ignore[call-overload]
            wait_for(lambda: any(b.marks.rank for b in inbox.batches), "a mark")
    assert "had been removed" in place.log.read_text()


def test_what_a_process_was_taken_for_is_revoked_with_its_first_mark(place: Place, inbox: Inbox) -> None:
    address = f"127.0.0.1:{inbox.port}"  # type: ignore[attr-defined]
    with ended(place.start("--server", address, "--sources", "process")):
        environ = clean_environ(ROOFLINE_SOCKET=str(place.socket), ROOFLINE_WRAPPED="1", ROOFLINE_JOB="late")
        rank = subprocess.Popen(
            [AGENT[0], "-c", LATE_RANK], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with ended(rank):
            assert rank.stdin and rank.stdout
            rank.stdout.readline()
            wait_for(lambda: inbox.events(pb.EVENT_KIND_RANK_STARTED), "its start as worker:0")
            rank.stdin.write(b"\n")
            rank.stdin.flush()

            def marked() -> Any:
                return next((b for b in inbox.batches if b.marks.rank), None)

            batch = wait_for(marked, "its mark")
            (left,) = [e for e in batch.events if e.text.startswith("rank.left=")]
            assert (batch.ranks[left.rank].role, batch.ranks[left.rank].index) == ("worker", 0)
            (number,) = ints(batch.marks.rank)
            assert (batch.ranks[number].role, batch.ranks[number].index) == ("ddp", 3)


ONE_OF_TWO = """
import sys, roofline_step
roofline_step.send_fact("hook.torch", "installed")
roofline_step.mark(0)
print(flush=True); sys.stdin.read()
"""


def test_process_that_becomes_another_rank_has_ended_as_what_it_was(place: Place, inbox: Inbox) -> None:
    address = f"127.0.0.1:{inbox.port}"  # type: ignore[attr-defined]
    environ = clean_environ(ROOFLINE_SOCKET=str(place.socket), ROOFLINE_JOB="two", ROOFLINE_RANK="0")
    command = [AGENT[0], "-c", ONE_OF_TWO]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with ended(place.start("--server", address, "--sources", "process")):
        # Else the agent may look for ranks between the first fact and the marks.
        wait_for(lambda: inbox.batches)
        both = [subprocess.Popen(command, env=environ, **pipes) for _ in range(2)]  # type: ignore[call-overload]
        with ended(both[0]), ended(both[1]):
            for process in both:
                process.stdout.readline()
            wait_for(lambda: any(r.index == 1 for b in inbox.batches for r in b.ranks), "the second rank")

        def without_end() -> set[tuple[int, int]]:
            named = {(r.index, r.pid) for batch in inbox.batches for r in batch.ranks}
            return named - {
                (batch.ranks[event.rank].index, batch.ranks[event.rank].pid)
                for batch in inbox.batches
                for event in batch.events
                if event.kind == pb.EVENT_KIND_RANK_EXITED
            }

        wait_for(lambda: not without_end(), "an end of each process as each rank that it was")


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


def test_damaged_spool_does_not_silence_its_node(place: Place, inbox: Inbox) -> None:
    place.root.joinpath("state").mkdir()
    place.root.joinpath("state", "spool.db").write_bytes(b"\0" * 8192)
    with place.root.joinpath("state", "spool.db").open("r+b") as file:
        file.write(b"SQLite format 3\0")
    with ended(place.start("--server", f"127.0.0.1:{inbox.port}")):  # type: ignore[attr-defined]
        (lost,) = wait_for(lambda: inbox.events(pb.EVENT_KIND_LOST))
    assert (lost.count, lost.text) == (1, "batches (spool damaged)")
    assert "spool.db is damaged" in place.log.read_text()
