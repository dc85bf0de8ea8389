"""Packets over real sockets become marks, kernel calls and events; garbage is refused and counted."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from roofline_agent.errors import Unavailable
from roofline_agent.marks import gathered, listener, senders
from roofline_agent.marks.listener import MarkListener, PeerProcess
from roofline_agent.marks.packets import SEEN, WRAPPED
from roofline_agent.marks.receiver import MAX_FACTS, MarkReceiver
from roofline_agent.marks.refusals import (
    END_BY_OTHER_USER,
    MALFORMED,
    PROCESS_OF_OTHER_USER,
    RANK_OF_OTHER_USER,
    TOO_MANY_CONNECTIONS,
)
from roofline_agent.marks.senders import LOOK_AGAIN_NS
from roofline_agent.ranks import slurm
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.ranks.names import job_of
from roofline_agent.ranks.new_names import TOO_MANY_NAMES
from roofline_agent.records import Batch, Call, Event, EventKind, KernelShape, Mark, Rank, Span, StepRows
from roofline_agent.uplink import bounds
from roofline_agent.uplink.encoding import encode
from roofline_server.ingest import columns, service
from roofline_server.ingest import marks as server_marks
from roofline_server.ingest import steps as server_steps
from roofline_step._sender import Sender
from roofline_step.packets import (
    ABSENT,
    CALLS,
    FACT,
    KERNEL,
    MARK,
    MAX_FACT,
    SPANS,
    STARTED_WITH,
    STEPS,
    VARIABLES,
    StepForm,
    pack_fact,
    pack_spans,
    pack_steps,
)

from tests.fakes import add_process, ended, wait_for

SHAPE = KernelShape("onednn", "convolution", "", "f32", "jit", "mb1", 10, 20)
IDENTITY = {"ROOFLINE_JOB": "j", "ROOFLINE_ROLE": "chief", "ROOFLINE_RANK": "0"}


class Site:
    """A receiver on a real socket with a made-up /proc in which this test's process is a rank."""

    def __init__(self, root: Path) -> None:
        self.proc = root / "proc"
        self.proc.mkdir()
        add_process(self.proc, os.getpid(), IDENTITY)
        self.discovery = Discovery(str(self.proc))
        self.listener = MarkListener(root / "agent.sock", everyone=True)
        self.now_ns = 1_000_000_000
        self.receiver = MarkReceiver(self.listener, self.discovery, clock=lambda: self.now_ns)
        self.spans: list[Span] = []  # of the last take
        self.steps: list[StepRows] = []  # likewise
        self.links: list[socket.socket] = []

    def connect(self) -> socket.socket:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.connect(str(self.listener.path))
        self.links.append(link)
        return link

    def take(self) -> tuple[list[Mark], list[Call], list[Event]]:
        self.receiver.accept()
        self.receiver.receive()
        received = self.receiver.take(1)
        self.spans, self.steps = received.spans, received.steps
        return received.marks, received.calls, received.events

    def close(self) -> None:
        for link in self.links:
            link.close()
        self.listener.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


def mark(
    kind: int = 3,
    step: int = 1,
    of: tuple[bytes, int] = (b"", -1),
    dropped: int = 0,
    examples: int = ABSENT,
    time_ns: int = 77,
    phase: bytes = b"",
) -> bytes:
    sizes = len(of[0]), len(phase)
    return MARK.pack(b"M", kind, 0, *sizes, 0, dropped, of[1], step, examples, time_ns) + of[0] + phase


def test_mark_of_a_rank(site: Site) -> None:
    sender = Sender([str(site.listener.path)])
    assert not sender.off()
    sender.send(1, 5, 64, 99, None, True, "")
    sender.send(4, -1, None, 100, None, False, "input")
    marks, calls, events = site.take()
    rank = site.discovery.ranks[os.getpid()]
    assert rank.key == "chief:0"
    assert marks == [Mark(rank, rank, 1, 5, 64, 99, "", True), Mark(rank, rank, 4, -1, None, 100, "input")]
    assert (calls, events) == ([], [])
    assert site.take() == ([], [], []), "handed over once"
    sender.close()


def test_two_trainings_with_one_rank_keep_their_own_steps(site: Site) -> None:
    add_process(site.proc, 21, IDENTITY, start_ticks=10**6)
    peer = PeerProcess(21, os.getuid())
    link = site.connect()
    link.send(mark(step=1))
    assert [(m.rank.key, m.step) for m in site.take()[0]] == [("chief:0", 1)]
    site.now_ns += 500_000_000
    site.receiver.take_in(peer, [mark(step=7)])
    link.send(mark(step=2))
    found = [(m.rank.key, m.rank.pid, m.step) for m in site.take()[0]]
    assert sorted(found) == [("chief:0", os.getpid(), 2), ("chief:1", 21, 7)]


def test_training_that_follows_on_one_that_has_not_ended_yet_is_the_same_rank(site: Site) -> None:
    link = site.connect()
    link.send(mark(step=1))
    site.take()
    add_process(site.proc, 21, IDENTITY, start_ticks=10**6)
    site.now_ns += 3_000_000_000
    site.receiver.take_in(PeerProcess(21, os.getuid()), [mark(step=2)])
    assert [(m.rank.key, m.rank.pid) for m in site.take()[0]] == [("chief:0", 21)]


def test_order_is_kept_and_nothing_is_lost_over_strides(site: Site) -> None:
    link = site.connect()
    for step in range(200):
        link.send(mark(step=step))
    link.close()
    marks, _, events = site.take()
    assert ([m.step for m in marks], events) == (list(range(200)), [])


@pytest.mark.parametrize(
    "packet",
    [
        b"M",
        b"M" * 39,
        b"x" * 100,
        mark(kind=0),
        mark(kind=6),
        mark(kind=255),
        mark(of=(b"\xff\xfe", 1)),
        b"C",
        b"K\0\0\0",
        b"W",
    ],
    ids=repr,
)
def test_garbage_is_refused_counted_and_harms_no_other(site: Site, packet: bytes) -> None:
    link = site.connect()
    link.send(packet)
    link.send(packet)
    link.send(mark(step=9))
    marks, calls, events = site.take()
    assert [m.step for m in marks] == [9]
    assert calls == []
    (refusal,) = [e for e in events if e.kind is EventKind.REFUSED]
    assert refusal.count == 2
    assert refusal.text


def kernel(number: int = 0, body: object = SHAPE) -> bytes:
    return KERNEL.pack(b"K", number) + json.dumps(body).encode()


def calls_packet(*calls: tuple[int, int, int], begin: int = 0, through: int = 100) -> bytes:
    columns = [call[n] for n in range(3) for call in calls]
    return CALLS.pack(b"C", len(calls), begin, through) + struct.pack(f"<{len(columns)}q", *columns)


def wrapped(site: Site, pid: int | None = None) -> socket.socket:
    link = site.connect()
    link.send(WRAPPED.pack(b"W", os.getpid() if pid is None else pid))
    return link


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(KERNEL.pack(b"K", 0) + b"[" * 60_000, id="deep-json"),
        pytest.param(kernel(body=[1, 2, 3, 4, 5, 6, "many", "bytes"]), id="wrong-types"),
        pytest.param(kernel(body=[["a"], "b", "c", "d", "e", "f", 1, 2]), id="unhashable"),
        pytest.param(kernel(body=["\ud800", "b", "c", "d", "e", "f", 1, 2]), id="half-a-pair"),
        pytest.param(kernel(body=[*SHAPE[:9], 1, 2, "many"]), id="level-of-wrong-type"),
        pytest.param(kernel(body=[*SHAPE[:9], 1, -2, 3]), id="level-below-zero"),
        pytest.param(kernel(body=[*SHAPE[:13], 1, None]), id="flag-of-wrong-type"),
    ],
)
def test_hostile_kernel_is_refused(site: Site, packet: bytes) -> None:
    link = wrapped(site)
    link.send(packet)
    _, _, events = site.take()
    assert [e.kind for e in events] == [EventKind.REFUSED]


def test_mark_for_a_negative_rank_is_refused(site: Site) -> None:
    site.connect().send(mark(of=(b"worker", -1)))
    marks, _, events = site.take()
    assert marks == []
    assert [e.kind for e in events] == [EventKind.REFUSED]


def test_drops_the_training_counted_are_reported_once(site: Site) -> None:
    link = site.connect()
    for dropped in (0, 3, 0, 2):
        link.send(mark(dropped=dropped))
    _, _, events = site.take()
    assert [(e.kind, e.count, e.text) for e in events] == [
        (EventKind.LOST, 3, "marks"),
        (EventKind.LOST, 2, "marks"),
    ]


def test_negative_examples_are_unknown(site: Site) -> None:
    site.connect().send(mark(examples=-5))
    assert [m.examples for m in site.take()[0]] == [None]


def test_chief_marks_for_a_worker_of_this_node(site: Site) -> None:
    add_process(site.proc, 11, {**IDENTITY, "ROOFLINE_ROLE": "worker", "ROOFLINE_RANK": "2"})
    owner = os.stat(site.proc / "11").st_uid
    site.discovery.scan()
    site.connect().send(mark(of=(b"worker", 2)))
    ((one,), _, events) = site.take()
    assert (one.rank.pid, one.rank.index, one.rank.uid, one.sender.key) == (11, 2, owner, "chief:0")
    assert events == []


def test_chief_marks_for_a_worker_elsewhere(site: Site) -> None:
    site.connect().send(mark(of=(b"worker", 7)))
    ((one,), _, _) = site.take()
    assert one.rank == Rank("j", "worker", 7, framework="roofline")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to have a process of another user")
def test_mark_for_another_users_rank_is_refused(site: Site) -> None:
    add_process(site.proc, 11, {**IDENTITY, "ROOFLINE_ROLE": "worker", "ROOFLINE_RANK": "2"})
    os.chown(site.proc / "11", 12345, -1)
    site.discovery.scan()
    site.connect().send(mark(of=(b"worker", 2)))
    marks, _, events = site.take()
    assert marks == []
    assert [(e.kind, e.count) for e in events] == [(EventKind.REFUSED, 1)]
    assert events[0].text == RANK_OF_OTHER_USER


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to have a process of another user")
def test_process_of_another_user_is_no_rank_of_a_job_that_it_names(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    add_process(site.proc, 11, {**IDENTITY, "ROOFLINE_ROLE": "worker", "ROOFLINE_RANK": "2"})
    os.chown(site.proc / "11", 12345, -1)
    for _ in range(3):
        site.discovery.scan()
    job_of = {rank.uid: rank.job for rank in site.discovery.ranks.values()}
    job = job_of[12345]  # of the older process
    assert job_of[os.getuid()] == f"{job} of user {os.getuid()}"
    assert [
        site.discovery.job_of_other(rank) for rank in site.discovery.ranks.values() if rank.pid != 11
    ] == [job]
    assert caplog.text.count("which on this node belongs to user") == 1


NOBODY = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect(sys.argv[1])
for packet in sys.argv[2:]: link.send(bytes.fromhex(packet))
print(flush=True); sys.stdin.read()
"""


def test_end_of_a_job_from_slurms_epilog(site: Site) -> None:
    end = slurm.End("7", "FAILED", "3", "4")
    site.connect().send(pack_fact(slurm.ENDED, slurm.packed(end)))
    site.connect().send(pack_fact(slurm.ENDED, "nonsense"))
    _, _, events = site.take()
    assert site.receiver.ended == [end]
    assert [(event.kind, event.text) for event in events] == [(EventKind.REFUSED, MALFORMED)]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to have a process of another user")
def test_other_users_cannot_end_a_job() -> None:
    with socket_folder() as folder:
        site = Site(folder)
        packet = pack_fact(slurm.ENDED, slurm.packed(slurm.End("7", "FAILED", "3")))
        command = [sys.executable, "-c", NOBODY, str(site.listener.path), packet.hex()]
        with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as child:
            child.stdout.readline()
            _, _, events = site.take()
        assert [event.text for event in events] == [END_BY_OTHER_USER]
        assert site.receiver.ended == []
        site.close()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to have a process of another user")
def test_sender_is_the_one_that_the_kernel_names() -> None:
    # Not tmp_path: nobody may not enter root's.
    with socket_folder() as folder:
        site = Site(folder)
        rank_pid = os.getpid()
        packets = [
            mark(step=1).hex(),
            WRAPPED.pack(b"W", rank_pid).hex(),
            kernel().hex(),
            calls_packet((0, 1, 2)).hex(),
            mark(step=2).hex(),
        ]
        command = [sys.executable, "-c", NOBODY, str(site.listener.path), *packets]
        with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as child:
            child.stdout.readline()
            add_process(site.proc, child.pid, {})
            marks, calls, events = site.take()
            assert calls == []
            (refused,) = [event for event in events if event.text == PROCESS_OF_OTHER_USER]
            assert refused.count == 2, "the calls, and the mark as that rank's wrapper"
            # It marks as itself: adopted, with its own uid.
            assert [(m.rank.pid, m.rank.uid, m.rank.framework, m.step) for m in marks] == [
                (child.pid, 65534, "marks", 1)
            ]
        site.close()


class socket_folder:
    def __enter__(self) -> Path:
        self.path = Path(f"/tmp/roofline-test-{os.getpid()}")
        self.path.mkdir(mode=0o755)
        return self.path

    def __exit__(self, *_: object) -> None:
        subprocess.run(["rm", "-r", str(self.path)], check=True)


def test_unknown_process_that_marks_is_adopted(site: Site) -> None:
    add_process(site.proc, os.getpid(), {})
    site.connect().send(mark())
    ((one,), _, _) = site.take()
    assert (one.rank.pid, one.rank.framework) == (os.getpid(), "marks")
    assert one.rank.job == job_of(site.discovery.processes, os.getpid(), of_session=False)
    started, _ = site.discovery.scan()
    assert started == [one.rank]


def test_mark_of_a_process_already_gone_is_refused(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (site.proc / str(os.getpid())).rename(tmp_path / "gone")
    site.connect().send(mark())
    marks, _, events = site.take()
    assert marks == [] and [e.count for e in events] == [1]
    site.close()


def test_marks_of_a_rank_that_ended_before_they_were_read_are_kept(tmp_path: Path) -> None:
    site = Site(tmp_path)
    ((known,), _) = site.discovery.scan()
    link = site.connect()
    for step in range(3):
        link.send(mark(step=step))
    (site.proc / str(os.getpid())).rename(tmp_path / "gone")
    marks, _, events = site.take()
    assert [(one.rank, one.step) for one in marks] == [(known, step) for step in range(3)]
    assert events == []
    site.close()


def test_process_that_has_got_the_pid_of_a_rank_is_not_that_rank(tmp_path: Path) -> None:
    site = Site(tmp_path)
    ((known,), _) = site.discovery.scan()
    shutil.rmtree(site.proc / str(os.getpid()))
    site.discovery.scan()
    add_process(site.proc, os.getpid(), {"ROOFLINE_DISABLE": "1"}, start_ticks=9000)
    site.connect().send(mark())
    marks, _, events = site.take()
    assert marks == [] and [e.kind for e in events] == [EventKind.REFUSED]
    assert site.discovery.ended(known.pid) == known
    site.close()


def test_kernel_calls_of_a_wrapped_rank(site: Site) -> None:
    link = wrapped(site)
    link.send(kernel(0))
    on_gpu = SHAPE._replace(operation="matmul", on_gpu=True, counted=False)
    link.send(kernel(1, on_gpu))
    link.send(calls_packet((0, 10, 5), (1, 20, 6), begin=5, through=50))
    _, calls, events = site.take()
    rank = site.discovery.ranks[os.getpid()]
    assert calls == [Call(rank, SHAPE, 10, 5), Call(rank, on_gpu, 20, 6)]
    assert events == [Event(EventKind.KERNELS_COVERED, 5, 50, rank)]


def covered(events: list[Event]) -> list[tuple[int, int]]:
    return sorted((e.begin_ns, e.end_ns) for e in events if e.kind is EventKind.KERNELS_COVERED)


def test_mark_of_a_wrapper_is_the_ranks_it_wraps(site: Site) -> None:
    add_process(site.proc, 4242, {**IDENTITY, "ROOFLINE_RANK": "7"})
    link = site.connect()
    link.send(WRAPPED.pack(b"W", 4242))
    link.send(mark(step=3))
    shutil.chown(site.proc / "4242", os.getuid())
    marks, _, events = site.take()
    assert [(m.rank.key, m.rank.pid, m.sender.pid, m.step) for m in marks] == [("chief:7", 4242, 4242, 3)]
    assert events == []


def test_wrapper_in_a_container_names_its_child_by_another_number(site: Site) -> None:
    """The wrapper says 7, as it knows its child; here that is somebody else."""
    add_process(site.proc, 7, {**IDENTITY, "ROOFLINE_RANK": "1"})
    add_process(site.proc, 4242, {**IDENTITY, "ROOFLINE_RANK": "2"}, parent=os.getpid())
    (site.proc / str(os.getpid()) / "status").write_text(f"Name:\tx\nNSpid:\t{os.getpid()}\t1\n")
    (site.proc / "4242" / "status").write_text("Name:\ty\nNSpid:\t4242\t7\n")
    add_process(site.proc, os.getpid(), IDENTITY, command=["roofline-agent", "run"])
    link = site.connect()
    link.send(WRAPPED.pack(b"W", 7))
    link.send(mark(step=3))
    link.send(WRAPPED.pack(b"W", 8))
    link.send(mark(step=4))
    marks, _, _ = site.take()
    assert [(m.rank.key, m.rank.pid, m.step) for m in marks] == [("chief:2", 4242, 3)]


def test_coverage_that_joins_is_one_and_a_gap_stays(site: Site) -> None:
    link = wrapped(site)
    for begin, through in [(0, 10), (10, 25), (30, 40), (40, 50)]:
        link.send(calls_packet(begin=begin, through=through))
    assert covered(site.take()[2]) == [(0, 25), (30, 50)]
    link.send(calls_packet(begin=50, through=60))
    assert covered(site.take()[2]) == [(50, 60)]


def test_calls_of_an_undescribed_kernel_cover_nothing(site: Site) -> None:
    link = wrapped(site)
    link.send(calls_packet((3, 10, 5)))
    _, calls, events = site.take()
    assert (calls, covered(events)) == ([], [])
    assert [e.kind for e in events] == [EventKind.REFUSED]


def test_second_program_of_a_wrapped_script_gets_its_own_kernels(tmp_path: Path) -> None:
    site = Site(tmp_path)
    me = os.getpid()
    add_process(site.proc, me, IDENTITY, ("bash", "train.sh"))
    add_process(site.proc, 900, IDENTITY, parent=me)
    link = wrapped(site)
    link.send(kernel())
    link.send(calls_packet((0, 1, 1)))
    assert [c.rank.pid for c in site.take()[1]] == [900]
    (site.proc / "900").rename(tmp_path / "gone")
    add_process(site.proc, 901, IDENTITY, parent=me, start_ticks=500)
    link.send(calls_packet((0, 2, 1), begin=100, through=200))
    pids = [c.rank.pid for c in site.take()[1]]
    site.close()
    assert pids == [901]


def test_kernels_sent_after_the_end_belong_to_the_rank_that_ended(site: Site) -> None:
    """A profiler has its table when the command has ended."""
    link = wrapped(site)
    link.send(calls_packet())
    site.take()
    rank = site.discovery.ranks[os.getpid()]
    shutil.rmtree(site.proc / str(os.getpid()))
    link.send(kernel())
    link.send(calls_packet((0, 10, 5)))
    _, calls, _ = site.take()
    assert [call.rank for call in calls] == [rank]


def test_wrapped_launcher_tells_all_its_ranks_how_it_ended(site: Site) -> None:
    add_process(site.proc, 900, {}, command=["torchrun"], parent=os.getpid())
    for number in (1, 2):
        add_process(site.proc, 900 + number, {**IDENTITY, "ROOFLINE_RANK": str(number)}, parent=900)
    link = wrapped(site, 900)
    link.send(pack_fact("tag.nodes", "4"))
    site.take()
    for number in (1, 2):
        shutil.rmtree(site.proc / str(900 + number))
    link.send(pack_fact("exit", f"1 {site.now_ns}"))
    _, _, events = site.take()
    assert [(e.kind, e.rank and e.rank.key, e.text) for e in events if e.kind is not EventKind.REFUSED] == [
        (EventKind.FACT, "chief:1", "tag.launcher.exit=1"),
        (EventKind.FACT, "chief:2", "tag.launcher.exit=1"),
    ]


def test_wrapped_rank_that_ends_before_the_first_scan_is_known_with_its_exit(site: Site) -> None:
    add_process(site.proc, 900, {**IDENTITY, "ROOFLINE_RANK": "9"}, parent=os.getpid())
    link = wrapped(site, 900)
    assert site.take() == ([], [], [])
    shutil.rmtree(site.proc / "900")
    link.send(pack_fact("tag.nodes", "4"))
    link.send(pack_fact("exit", f"1 {site.now_ns}"))
    _, _, events = site.take()
    assert [(e.kind, e.rank and e.rank.key, e.status, e.text) for e in events] == [
        (EventKind.FACT, "chief:9", None, "tag.nodes=4"),
        (EventKind.RANK_EXITED, "chief:9", 1, ""),
    ]
    started, gone = site.discovery.changes()
    assert "chief:9" in [rank.key for rank in started] and [rank.key for rank in gone] == ["chief:9"]
    assert site.discovery.environment(gone[0])["ROOFLINE_RANK"] == "9"


def test_wrapper_is_told_once_that_its_command_is_known(site: Site) -> None:
    add_process(site.proc, 900, IDENTITY, ("bash", "train.sh"), parent=os.getpid())
    link = wrapped(site, 900)
    link.setblocking(False)
    site.take()
    with pytest.raises(BlockingIOError):
        link.recv(100)
    add_process(site.proc, 901, {**IDENTITY, "ROOFLINE_RANK": "9"}, parent=900)
    link.send(mark())
    site.now_ns += LOOK_AGAIN_NS
    site.take()
    site.take()
    assert link.recv(100) == SEEN.pack(b"R")
    with pytest.raises(BlockingIOError):
        link.recv(100)


def test_wrapped_script_that_has_not_started_its_program_is_not_refused(site: Site) -> None:
    add_process(site.proc, os.getpid(), IDENTITY, ("bash", "train.sh"))
    wrapped(site).send(calls_packet())
    assert site.take()[2] == []


def test_second_agent_at_one_socket_is_refused(site: Site) -> None:
    with pytest.raises(Unavailable, match="another agent listens"):
        MarkListener(site.listener.path, everyone=True)
    assert site.listener.path.exists()


def test_socket_left_by_a_killed_agent_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dead:
        dead.bind(str(path))
    listener = MarkListener(path, everyone=False)
    assert path.stat().st_mode & 0o777 == 0o600
    listener.close()
    assert not path.exists()


def test_socket_that_was_removed_is_made_again_and_who_was_connected_stays(site: Site) -> None:
    before = site.connect()
    site.receiver.accept()
    assert not site.listener.renew()
    site.listener.path.unlink()
    assert site.listener.renew() and not site.listener.renew()
    before.send(mark(step=1))
    site.connect().send(mark(step=2))
    assert [found.step for found in site.take()[0]] == [1, 2]


def test_socket_of_another_agent_is_left_to_it(site: Site) -> None:
    site.listener.path.unlink()
    other = MarkListener(site.listener.path, everyone=True)
    with pytest.raises(Unavailable, match="another agent listens"):
        site.listener.renew()
    site.listener.close()
    assert site.listener.path.exists()
    other.close()


def test_socket_of_the_systems_agent_is_for_everyone(site: Site) -> None:
    assert site.listener.path.stat().st_mode & 0o777 == 0o666


def test_path_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="choose another --socket"):
        MarkListener(tmp_path / "file" / "agent.sock", everyone=True)


def test_path_that_is_too_long_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="choose another --socket"):
        MarkListener(tmp_path / ("x" * 120), everyone=True)
    gc.collect()


def test_connections_that_end_are_closed(site: Site) -> None:
    site.connect().close()
    site.take()
    assert site.listener.connections == 0
    assert site.receiver.connections == 0


def test_running_out_of_descriptors_does_not_end_the_agent(site: Site) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = site.connect()
    site.take()
    site.connect()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
        site.receiver.accept()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    first.send(mark(step=4))
    wait_for(lambda: any(m.step == 4 for m in site.take()[0]))


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to connect as another user")
def test_who_opens_as_many_connections_as_there_can_be_keeps_nobody_else_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 3)
    with tempfile.TemporaryDirectory() as root, contextlib.closing(Site(Path(root))) as site:
        os.chmod(root, 0o755)
        flood = [site.connect() for _ in range(5)]
        os.seteuid(12345)
        try:
            other = site.connect()
        finally:
            os.seteuid(0)
        events = site.take()[2]
        assert (site.listener.connections, site.receiver.connections) == (3, 3)
        assert [(e.text, e.count) for e in events] == [(TOO_MANY_CONNECTIONS, 3)]
        flood[0].send(mark(step=1))
        other.send(mark(step=2))
        assert [m.step for m in site.take()[0]] == [1, 2], "the first of the one who has many stay"
        assert flood[2].recv(1) == b"", "the newest made room"


def test_what_is_kept_of_a_users_connections_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(senders, "MAX_HELD", 3 * len(pack_fact("a.b", "x" * 100)))
    first, second = site.connect(), site.connect()
    first.send(pack_fact("a.b", "x" * 100))
    assert lost(site.take()[2]) == {}
    second.send(pack_fact("a.b", "x" * 300))
    assert lost(site.take()[2]) == {"facts (more than a batch holds)": 1}
    first.close()
    site.take()
    second.send(pack_fact("a.b", "x" * 100))
    assert lost(site.take()[2]) == {}, "what the first had is free again"


def test_marks_for_ranks_elsewhere_leave_nothing_behind(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "MAX_LAST_STEPS", 1)
    link = site.connect()
    link.send(mark(step=4))
    link.send(mark(step=9, of=(b"worker", 1)) + mark(step=9, of=(b"worker", 2)))
    rank = site.take()[0][0].rank
    exited = Event(EventKind.RANK_EXITED, 1, 1, rank)
    assert site.receiver.with_last_step(exited).step == 4


# -- spans and facts -------------------------------------------------------------------------------

SPAN = ("phase.input", 10, 20, None, 1)


def test_spans_are_those_of_whoever_sent_them(site: Site) -> None:
    site.connect().send(pack_spans([SPAN, ("asked.allreduce", 11, 11, 4096, 3)]))
    site.take()
    first, second = site.spans
    assert (first.rank.key, *first[1:]) == ("chief:0", "phase.input", 10, 20, None, 1)
    assert second[1:] == ("asked.allreduce", 11, 11, 4096, 3)
    site.take()
    assert site.spans == []


def test_spans_of_a_wrapper_are_the_ranks_it_wraps(site: Site) -> None:
    link = site.connect()
    link.send(WRAPPED.pack(b"W", os.getpid()))
    link.send(pack_spans([SPAN]))
    site.take()
    assert [span.rank.key for span in site.spans] == ["chief:0"]


@pytest.mark.parametrize(
    "packet",
    [
        pack_spans([("Phase.Input", 10, 20, None, 1)]),
        pack_spans([("phase", 10, 20, None, 1)]),
        pack_spans([("phase." + "x" * 60, 10, 20, None, 1)]),
        pack_spans([("phase.input", 20, 10, None, 1)]),
        pack_spans([("phase.input", 10, 20, None, -1)]),
        pack_spans([("phase.input", 10, 20, None, 2**50)]),
        pack_spans([("phase.input", 10, 20, 2**50 + 1, 1)]),
        pack_spans([("phase.input", -(2**62), 20, 1, 1)]),
        pack_spans([("phase.input", 10, 2**62, 1, 1)]),
        pack_spans([SPAN])[:-1],
        SPANS.pack(b"S", 2**31, 1),
        SPANS.pack(b"S", 11, 1) + b"phase.input" + struct.pack("<5q", 1, 10, 20, 0, 1),
        b"S",
    ],
)
def test_span_that_cannot_be_is_refused(site: Site, packet: bytes) -> None:
    site.connect().send(packet)
    _, _, events = site.take()
    assert [event.kind for event in events] == [EventKind.REFUSED]
    assert site.spans == []


def test_fact_belongs_to_its_rank(site: Site) -> None:
    site.connect().send(pack_fact("hook.torch", "installed\x1b[31m"))
    _, _, (event,) = site.take()
    assert (event.kind, event.text) == (EventKind.FACT, "hook.torch=installed?[31m")
    assert event.rank is not None
    assert event.rank.key == "chief:0"


def test_fact_makes_no_rank_of_a_process_and_waits_until_it_is_one(tmp_path: Path) -> None:
    site = Site(tmp_path)
    shutil.rmtree(site.proc / str(os.getpid()))
    add_process(site.proc, os.getpid(), {})
    link = site.connect()
    link.send(pack_fact("hook.torch", "installed"))
    assert site.take()[2] == []
    link.send(mark())
    _, _, events = site.take()
    assert [event.text for event in events if event.kind == EventKind.FACT] == ["hook.torch=installed"]
    site.close()


def test_facts_of_an_unknown_process_are_bounded(tmp_path: Path) -> None:
    site = Site(tmp_path)
    shutil.rmtree(site.proc / str(os.getpid()))
    add_process(site.proc, os.getpid(), {})
    link = site.connect()
    for number in range(MAX_FACTS + 10):
        link.send(pack_fact("a.b", str(number)))
        site.take()
    link.send(mark())
    assert sum(event.kind == EventKind.FACT for event in site.take()[2]) == MAX_FACTS
    site.close()


def test_a_packet_may_hold_marks_and_spans(site: Site) -> None:
    packet = mark(kind=1, step=4) + mark(kind=2, step=4) + pack_spans([SPAN]) + mark(kind=3, step=5)
    site.connect().send(packet)
    marks, _, events = site.take()
    assert [(m.kind, m.step) for m in marks] == [(1, 4), (2, 4), (3, 5)]
    assert [span.name for span in site.spans] == ["phase.input"]
    assert events == []


def test_what_is_wrong_in_a_packet_costs_itself_and_what_follows(site: Site) -> None:
    site.connect().send(mark(step=4) + pack_spans([("BAD", 1, 2, None, 1)]) + mark(step=5))
    marks, _, (event,) = site.take()
    assert [m.step for m in marks] == [4]
    assert event.kind == EventKind.REFUSED
    site.connect().send(mark(step=6) + b"garbage")
    marks, _, (event,) = site.take()
    assert [m.step for m in marks] == [6]
    assert event.kind == EventKind.REFUSED


# -- what the server would refuse with all else in the batch ---------------------------------------


def encoded(site: Site) -> bytes:
    marks, calls, events = site.take()
    return encode(Batch(1, 2, {}, marks, calls, events, (), site.spans), 1)


def lost(events: list[Event]) -> dict[str, int]:
    return {event.text: event.count for event in events if event.kind == EventKind.LOST}


def test_limits_are_the_servers() -> None:
    assert (bounds.MAX_TIME_NS, bounds.MAX_SPAN_NAMES, bounds.MAX_FORMS) == (
        columns.MAX_TIME_NS,
        server_marks.MAX_SPAN_NAMES,
        server_steps.MAX_FORMS,
    )
    assert service.MAX_BATCH_BYTES == bounds.MAX_BATCH
    assert bounds.ROWS_BYTES + bounds.FACTS_BYTES + (3 << 20) <= bounds.MAX_BATCH


@pytest.mark.parametrize(
    "packet",
    [
        mark(time_ns=2**62),
        mark(time_ns=-(2**62)),
        mark(time_ns=2**62, dropped=1),
        mark(step=2**63 - 1),
        mark(examples=2**60),
    ],
)
def test_mark_out_of_range_costs_only_itself(site: Site, packet: bytes) -> None:
    site.connect().send(mark(step=1) + packet + mark(step=2))
    marks, _, events = site.take()
    assert [m.step for m in marks] == [1, 2]
    assert [e.kind for e in events] == [EventKind.REFUSED]


def test_phase_keeps_only_printable_characters(site: Site) -> None:
    site.connect().send(mark(kind=4, phase=b"in\nput") + mark(kind=4, phase=b"x" * 255))
    assert [m.phase for m in site.take()[0]] == ["in?put", "x" * 255]


def test_rank_elsewhere_with_a_name_that_cannot_be_read_is_refused(site: Site) -> None:
    site.connect().send(mark(of=(b"wor\nker", 1)))
    marks, _, events = site.take()
    assert (marks, [e.kind for e in events]) == ([], [EventKind.REFUSED])


def test_ranks_elsewhere_are_bounded(site: Site) -> None:
    link = site.connect()
    for index in range(bounds.MAX_NAMED + 5):
        link.send(mark(of=(b"worker", index)))
        if index % 100 == 0:
            site.receiver.accept()
            site.receiver.receive()
    marks, _, events = site.take()
    assert len(marks) == bounds.MAX_NAMED
    assert lost(events) == {"marks for ranks elsewhere (more than a batch holds)": 5}


def test_new_names_of_a_day_are_bounded_and_known_ones_go_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathered, "KERNELS", 2)
    site.receiver = MarkReceiver(site.listener, site.discovery, clock=lambda: site.now_ns)
    link = wrapped(site)
    link.send(kernel(0))
    link.send(kernel(1, SHAPE._replace(problem="mb2")))
    link.send(calls_packet((0, 1, 1)))
    link.send(calls_packet((1, 1, 1)))
    link.send(calls_packet((0, 1, 1)))
    _, calls, events = site.take()
    assert [call.shape for call in calls] == [SHAPE, SHAPE]
    assert lost(events) == {f"kernels ({TOO_MANY_NAMES})": 1}


def test_names_of_spans_are_bounded_in_each_batch(site: Site) -> None:
    link = site.connect()
    link.send(pack_spans([(f"phase.x{n}", 1, 2, None, 1) for n in range(bounds.MAX_SPAN_NAMES)]))
    link.send(pack_spans([SPAN, ("phase.x1", 1, 2, None, 1), SPAN]))
    events = site.take()[2]
    assert len(site.spans) == bounds.MAX_SPAN_NAMES + 1
    assert lost(events) == {"spans (more than a batch holds)": 2}
    link.send(pack_spans([SPAN]))
    site.take()
    assert len(site.spans) == 1


def flood(site: Site, link: socket.socket, packet: bytes, times: int) -> None:
    site.receiver.accept()
    for _ in range(times):
        link.send(packet)
        site.receiver.receive()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("packet", "what"),
    [
        (mark() * 1000, "marks"),
        (pack_spans([SPAN] * 1000), "spans"),
        (calls_packet(*[(0, 1, 1)] * 1000), "kernels"),
    ],
    ids=["marks", "spans", "kernels"],
)
def test_rows_of_a_batch_are_bounded_and_the_rest_is_counted(site: Site, packet: bytes, what: str) -> None:
    link = wrapped(site)
    link.send(kernel())
    flood(site, link, packet, 150)
    marks, spans, calls, events, _ = site.receiver.take(1)
    kept = len(marks) + len(calls) + len(spans)
    assert kept >= 60_000
    assert lost(events) == {f"{what} (more than a batch holds)": 150_000 - kept}
    assert len(encode(Batch(1, 2, {}, marks, calls, events, (), spans), 1)) < bounds.ROWS_BYTES + (1 << 20)
    flood(site, link, packet, 1)
    assert lost(site.take()[2]) == {}, "the next batch has room again"


def test_kernels_that_are_lost_are_not_claimed(site: Site) -> None:
    link = wrapped(site)
    link.send(kernel())
    site.take()
    flood(site, link, mark() * 1000, 70)
    link.send(calls_packet((0, 1, 1)))
    _, calls, events = site.take()
    assert (calls, covered(events)) == ([], [])


def test_kernel_out_of_time_is_refused(site: Site) -> None:
    link = wrapped(site)
    link.send(kernel())
    for packet in (calls_packet((0, 2**62, 1)), calls_packet((0, 1, -1)), calls_packet(through=2**62)):
        link.send(packet)
    _, calls, events = site.take()
    assert calls == []
    assert [(e.kind, e.count) for e in events] == [(EventKind.REFUSED, 3)]


def test_descriptions_of_kernels_are_bounded(site: Site) -> None:
    link = wrapped(site)
    site.receiver.accept()
    for number in range(60):
        link.send(kernel(number, SHAPE._replace(problem=f"{number}" + "x" * 100_000)))
        link.send(calls_packet((number, 1, 1)))
        site.receiver.receive()
    assert len(encoded(site)) < service.MAX_BATCH_BYTES


def test_facts_are_cut_and_bounded(site: Site) -> None:
    link = site.connect()
    site.receiver.accept()
    for _ in range(600):
        link.send(FACT + b"a=" + b"x" * 50_000)
        site.receiver.receive()
    _, _, events = site.take()
    facts = [event.text for event in events if event.kind == EventKind.FACT]
    assert {len(text) for text in facts} == {MAX_FACT}
    assert 200 < len(facts) < 600
    assert lost(events) == {"facts (more than a batch holds)": 600 - len(facts)}
    for _ in range(bounds.MAX_BATCH_FACTS + 7):
        link.send(pack_fact("a", "b"))
        site.receiver.receive()
    assert lost(site.take()[2]) == {"facts (more than a batch holds)": 7}


# -- a wrapper whose rank cannot be told -----------------------------------------------------------


def test_proc_is_walked_once_a_second_for_a_wrapper_without_a_rank(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_process(site.proc, os.getpid(), IDENTITY, ("bash", "train.sh"))
    walks: list[int] = []
    look = site.discovery.ranks_below

    def walk(pid: int) -> list[Rank]:
        walks.append(pid)
        return look(pid)

    monkeypatch.setattr(site.discovery, "ranks_below", walk)
    link = wrapped(site)
    for _ in range(50):
        link.send(mark())
    site.take()
    assert len(walks) == 1
    add_process(site.proc, 900, IDENTITY, parent=os.getpid())
    site.now_ns += LOOK_AGAIN_NS
    link.send(mark(step=5))
    assert [m.rank.pid for m in site.take()[0]] == [900]
    assert len(walks) == 2


# -- a rank that sends its kernels and says which rank it is -------------------------------------------------


def test_rank_sends_its_kernels_itself(site: Site) -> None:
    sender = Sender([str(site.listener.path)])
    assert not sender.off()
    number = sender.describe_kernel(tuple(SHAPE))
    assert number == 0 == sender.describe_kernel(tuple(SHAPE))
    sender.send_calls([(0, 5, 10), (0, 20, 7)], 0, 100)
    _, calls, events = site.take()
    rank = site.discovery.ranks[os.getpid()]
    assert calls == [Call(rank, SHAPE, 5, 10), Call(rank, SHAPE, 20, 7)]
    assert [(e.kind, e.begin_ns, e.end_ns) for e in events] == [(EventKind.KERNELS_COVERED, 0, 100)]
    sender.close()


def test_kernels_are_described_to_an_agent_that_comes_later(site: Site) -> None:
    sender = Sender([str(site.listener.path)])
    sender._kernels[tuple(SHAPE)] = 0
    sender.send_calls([(0, 5, 10)], 0, 100)
    assert [call.shape for call in site.take()[1]] == [SHAPE]
    sender.close()


def test_lines_of_a_library_are_no_kernels_beside_those_the_rank_sends(site: Site) -> None:
    own, wrapper = site.connect(), wrapped(site)
    own.send(kernel())
    own.send(calls_packet((0, 5, 10)))
    wrapper.send(kernel())
    wrapper.send(calls_packet((0, 6, 3), begin=0, through=900))
    _, calls, events = site.take()
    assert [call.start_ns for call in calls] == [5]
    assert [(e.begin_ns, e.end_ns) for e in events] == [(0, 100)]


def test_what_a_profiler_recorded_stands_beside_kernels_that_the_rank_sends(site: Site) -> None:
    own, wrapper = site.connect(), wrapped(site)
    own.send(kernel())
    own.send(calls_packet((0, 5, 10)))
    wrapper.send(kernel(0, SHAPE._replace(library="jax")))
    wrapper.send(calls_packet((0, 206, 3), begin=200, through=300))
    _, calls, events = site.take()
    assert [(call.start_ns, call.shape.library) for call in calls] == [(5, SHAPE.library), (206, "jax")]
    assert [(e.begin_ns, e.end_ns) for e in events] == [(0, 100), (200, 300)]


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(calls_packet((3, 5, 10)), id="not-described"),
        pytest.param(calls_packet((0, 5, -10)), id="backwards"),
        pytest.param(calls_packet((0, 5, 10))[:-1], id="cut"),
        pytest.param(calls_packet((0, 5, 10), through=2**62), id="never"),
    ],
)
def test_hostile_calls_of_a_rank_are_refused(site: Site, packet: bytes) -> None:
    link = site.connect()
    link.send(kernel())
    link.send(packet)
    _, calls, events = site.take()
    assert (calls, [e.kind for e in events]) == ([], [EventKind.REFUSED])


def variables(**values: object) -> bytes:
    return pack_fact(VARIABLES, json.dumps(values))


def test_process_reports_which_rank_it_is(site: Site) -> None:
    add_process(site.proc, os.getpid(), {"ROOFLINE_WRAPPED": "1", "ROOFLINE_JOB": "j"})
    link = site.connect()
    link.send(pack_fact("hook.a", "installed"))
    link.send(variables(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1"))
    link.send(mark())
    ((one,), _, events) = site.take()
    assert (one.rank.job, one.rank.key, one.rank.world) == ("j", "ddp:1", 2)
    facts = [(e.rank.key, e.text) for e in events if e.kind is EventKind.FACT and e.rank is not None]
    assert ("ddp:1", "hook.a=installed") in facts, "what was said before is said of the rank it is"
    assert not [text for _, text in facts if text.startswith(VARIABLES)], "an address does not leave the node"


def test_wrapper_is_told_what_its_rank_says_it_is(site: Site) -> None:
    started = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "ROOFLINE_JOB": "j"}
    add_process(site.proc, os.getpid(), started)
    wrapper, link = wrapped(site), site.connect()
    wrapper.send(pack_fact("cost.kernels", "none"))
    events = site.take()[2]
    link.send(variables(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1"))
    events += site.take()[2]
    wrapper.send(pack_fact("exit", f"3 {site.now_ns}"))
    events += site.take()[2]
    facts = [(event.rank.key, event.text) for event in events if event.rank is not None]
    assert ("horovod:1", "cost.kernels=none") in facts and ("ddp:1", "cost.kernels=none") in facts
    (exited,) = [event for event in events if event.kind is EventKind.RANK_EXITED]
    assert exited.rank is not None and (exited.rank.key, exited.status) == ("ddp:1", 3)


SENDS = """
import socket, sys
link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
link.connect(sys.argv[1])
for packet in sys.argv[2:]:
    link.send(bytes.fromhex(packet))
print("sent", flush=True)
sys.stdin.read()
"""


def test_process_that_a_rank_has_started_reports_which_rank_it_is_for_itself_alone(site: Site) -> None:
    """As the workers of Ray do, which have their driver's environment."""
    reports = variables(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1"), mark(step=5)
    command = [sys.executable, "-c", SENDS, str(site.listener.path), *(packet.hex() for packet in reports)]
    with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) as child:
        add_process(site.proc, child.pid, IDENTITY, parent=os.getpid(), start_ticks=101)
        driver = site.connect()
        driver.send(mark(step=3))
        ((of_driver,), _, _) = site.take()
        child.stdout.readline()
        ((of_child,), _, _) = site.take()
        driver.send(mark(step=4))
        ((again,), _, _) = site.take()
    assert (of_child.rank.pid, of_child.rank.key) == (child.pid, "ddp:1")
    assert again.rank == of_driver.rank


@pytest.mark.parametrize(
    "packet",
    [
        variables(PATH="/bin"),
        variables(RANK=1),
        variables(RANK="\n"),
        pack_fact(VARIABLES, "[]"),
        pack_fact(VARIABLES, "{"),
    ],
    ids=repr,
)
def test_other_variables_are_refused(site: Site, packet: bytes) -> None:
    site.connect().send(packet)
    assert [e.kind for e in site.take()[2]] == [EventKind.REFUSED]


def test_process_with_a_title_says_with_which_variables_it_was_started(site: Site) -> None:
    add_process(site.proc, os.getpid(), b"\0" * 90, ("train resnet50",))
    link = site.connect()
    link.send(pack_fact("hook.torch", "installed"))
    link.send(pack_fact(STARTED_WITH, json.dumps({**IDENTITY, "ROOFLINE_RANK": "4"})))
    link.send(mark(step=3))
    marks, _, events = site.take()
    assert [(one.rank.job, one.rank.key) for one in marks] == [("j", "chief:4")]
    assert [event.text for event in events if event.kind == EventKind.FACT] == ["hook.torch=installed"]


@pytest.mark.parametrize("text", ["{", "[]", '{"PATH": "/bin"}', '{"RANK": 1}', '{"RANK": "\\u0000"}'])
def test_variables_that_name_no_rank_are_refused(site: Site, text: str) -> None:
    site.connect().send(pack_fact(STARTED_WITH, text))
    assert [event.kind for event in site.take()[2]] == [EventKind.REFUSED]


def test_wrapper_cannot_say_which_rank_another_process_is(site: Site) -> None:
    wrapped(site).send(variables(RANK="1", WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1"))
    assert [e.kind for e in site.take()[2]] == [EventKind.REFUSED]
    assert [rank.key for rank in site.discovery.ranks.values()] == ["chief:0"]


def record(at: int, names: tuple[str, ...], wrong: bool) -> bytes:
    """A step with a span of each of these names, which end before they begin where it is wrong."""
    begin, end = 100 * at, 100 * at + (-10 if wrong else 10)
    spans = [(name, begin, end, None if at % 2 else 8, at) for name in names]
    return mark(step=at, time_ns=end, examples=ABSENT if at % 3 else 32) + (
        pack_spans(spans) if spans else b""
    )


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(
            [("phase.input",), ("phase.input", "phase.forward"), ("phase.input", "thread.gc"), ()]
        ),
        st.sampled_from([False] * 9 + [True]),
    ),
    max_size=30,
)


@given(RECORDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_steps_behind_one_another_are_read_as_each_by_itself(site: Site, records: list[Any]) -> None:
    packets = [record(at, *one) for at, one in enumerate(records)]
    # What follows on a malformed record is lost with it, and the mark before its spans is not.
    whole = next((at for at, (names, wrong) in enumerate(records) if wrong and names), len(records))
    link = site.connect()
    for packet in packets[: whole + 1]:
        link.send(packet)
    apart, _, _ = site.take()
    spans = sorted(site.spans)
    if packets:
        link.send(b"".join(packets))
    together, _, events = site.take()
    assert together == apart
    assert sorted(site.spans) == spans
    assert len(events) == (whole < len(records))


FORM = StepForm(1, ("phase.input", "thread.gc"), 1, 7)  # the second of these spans has a count
# step, examples, border, begin and end of each span, count: ns, here of more than an hour
STEP = (3, 32, 50, 10, 20, 10, 50, 4_000_000_000_000)


def test_steps_of_one_form_stay_as_they_were_packed(site: Site) -> None:
    other = FORM._replace(names=(), counted=0)
    link = site.connect()
    link.send(pack_steps(FORM, [STEP]) + pack_steps(other, [(4, ABSENT, 60)]))
    link.send(mark(step=5) + pack_steps(FORM, [(6, *STEP[1:]), (7, *STEP[1:])]))
    marks, _, events = site.take()
    rank = site.discovery.ranks[os.getpid()]
    assert ([one.step for one in marks], events) == ([5], [])
    assert site.steps == [
        StepRows(rank, FORM, struct.pack("<24q", *STEP, 6, *STEP[1:], 7, *STEP[1:])),
        StepRows(rank, other, struct.pack("<3q", 4, ABSENT, 60)),
    ]
    ended = Event(EventKind.RANK_EXITED, 1, 1, rank)
    assert site.receiver.with_last_step(ended).step == 7
    site.take()
    assert site.steps == [], "handed over once"


@pytest.mark.parametrize(
    "row",
    [
        (3, 2**50 + 1, *STEP[2:]),
        (2**62, *STEP[1:]),
        (*STEP[:2], -(2**62), *STEP[3:]),
        (*STEP[:3], 21, *STEP[4:]),
        (*STEP[:7], -1),
        (*STEP[:7], 2**50),
    ],
)
def test_steps_that_cannot_be_are_refused_and_no_others(site: Site, row: tuple[int, ...]) -> None:
    link = site.connect()
    link.send(mark(step=5) + pack_steps(FORM, [STEP, row]))
    link.send(pack_steps(FORM, [STEP]))
    marks, _, events = site.take()
    assert [one.step for one in marks] == [5]
    assert [(one.kind, one.count) for one in events] == [(EventKind.REFUSED, 1)]
    assert [one.numbers for one in site.steps] == [2 * struct.pack("<8q", *STEP)]
    link.send(pack_steps(FORM, [row]))
    assert [(one.kind, one.count) for one in site.take()[2]] == [(EventKind.REFUSED, 1)]
    assert site.steps == []


@pytest.mark.parametrize(
    ("form", "row"),
    [
        (FORM._replace(marks=3), (*STEP, 5, 6)),
        (FORM._replace(marks=0), STEP[:2] + STEP[3:]),
        (FORM._replace(counted=3), (*STEP, 5, 6)),
        (FORM._replace(names=("phase.input", "Phase")), STEP),
    ],
)
def test_steps_of_a_form_that_cannot_be_are_refused(site: Site, form: StepForm, row: tuple[int, ...]) -> None:
    link = site.connect()
    link.send(mark(step=5) + pack_steps(form, [row]))
    link.send(pack_steps(FORM, [STEP]))
    marks, _, events = site.take()
    assert [one.step for one in marks] == [5], "what stood before them"
    assert [(one.kind, one.count) for one in events] == [(EventKind.REFUSED, 1)]
    assert [one.numbers for one in site.steps] == [struct.pack("<8q", *STEP)], "others are taken"


@pytest.mark.parametrize("cut", [1, STEPS.size - 1, STEPS.size + 3, -8, -1])
def test_part_of_a_record_of_steps_is_refused(site: Site, cut: int) -> None:
    site.connect().send(pack_steps(FORM, [STEP])[:cut])
    assert [one.kind for one in site.take()[2]] == [EventKind.REFUSED]
    assert site.steps == []


def test_steps_that_a_batch_cannot_hold_are_counted(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_FORMS", 2)
    link = site.connect()
    for like in (1, 2, 3, 1):
        link.send(pack_steps(FORM._replace(like=like), [STEP, STEP]))
    _, _, events = site.take()
    assert [(len(one.numbers), one.form.like) for one in site.steps] == [(256, 1), (128, 2)]
    lost = "(more than a batch holds)"
    assert [(one.text, one.count) for one in events] == [(f"marks {lost}", 2), (f"spans {lost}", 4)]


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    thesis, link = tmp_path / "thesis.tex", tmp_path / "link"
    thesis.write_text("years of work")
    link.symlink_to(thesis)
    for path in (thesis, link):
        with pytest.raises(Unavailable, match="is not a socket; choose another --socket"):
            MarkListener(path, everyone=False)
    assert link.is_symlink() and thesis.read_text() == "years of work"
