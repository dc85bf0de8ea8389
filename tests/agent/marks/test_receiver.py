"""Packets over real sockets become marks, kernel calls and events; garbage is refused and counted."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from roofline_agent.errors import Unavailable
from roofline_agent.marks import gathered, listener, senders
from roofline_agent.marks.listener import MarkListener, PeerProcess
from roofline_agent.marks.packets import SEEN, WRAPPED
from roofline_agent.marks.receiver import LAUNCHER_EXIT
from roofline_agent.marks.refusals import (
    END_BY_OTHER_USER,
    MALFORMED,
    PROCESS_OF_OTHER_USER,
    RANK_OF_OTHER_USER,
    TOO_MANY_CONNECTIONS,
)
from roofline_agent.marks.senders import LOOK_AGAIN_NS
from roofline_agent.ranks import slurm
from roofline_agent.ranks.names import job_of
from roofline_agent.records import Call, Event, EventKind, Mark, Rank
from roofline_step._sender import Sender
from roofline_step.packets import KERNEL, pack_fact

from tests.fakes import add_process, ended, wait_for

from .receiving import IDENTITY, SHAPE, Site, calls_packet, covered, kernel, lost, mark, wrapped


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
    assert refusal.rank == site.discovery.ranks[os.getpid()], "no other job of this node has a note about it"


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
    assert events[0].rank is not None and events[0].rank.key == "chief:0", "it has tried"


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


def launcher_exits(events: list[Event]) -> list[tuple[str | None, str]]:
    return [(e.rank and e.rank.key, e.text) for e in events if e.text.startswith(LAUNCHER_EXIT)]


def test_script_around_programs_one_after_the_other_tells_their_ranks_how_it_ended(site: Site) -> None:
    add_process(site.proc, 900, {}, ("bash", "train.sh"), parent=os.getpid())
    link = wrapped(site, 900)
    for number in (1, 2):
        add_process(site.proc, 900 + number, {**IDENTITY, "ROOFLINE_RANK": str(number)}, parent=900)
        link.send(calls_packet())
        site.now_ns += LOOK_AGAIN_NS
        site.take()
        shutil.rmtree(site.proc / str(900 + number))
    shutil.rmtree(site.proc / "900")
    link.send(pack_fact("exit", f"3 {site.now_ns}"))
    assert launcher_exits(site.take()[2]) == [
        ("chief:1", "tag.launcher.exit=3"),
        ("chief:2", "tag.launcher.exit=3"),
    ]


def test_script_tells_how_it_ended_if_its_wrapper_sent_nothing_while_its_rank_lived(site: Site) -> None:
    add_process(site.proc, 900, {}, ("bash", "train.sh"))
    add_process(site.proc, os.getpid(), IDENTITY, parent=900)
    link = wrapped(site, 900)
    training = site.connect()
    training.send(mark())
    site.take()
    shutil.rmtree(site.proc / str(os.getpid()))
    shutil.rmtree(site.proc / "900")
    link.send(pack_fact("exit", f"3 {site.now_ns}"))
    assert launcher_exits(site.take()[2]) == [("chief:0", "tag.launcher.exit=3")]


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


def test_running_out_of_descriptors_does_not_end_the_agent(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first = site.connect()
    site.take()
    site.connect()
    os.close(lowest := os.dup(0))  # that is free: all below it are in use
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        for _ in range(3):
            site.receiver.accept()
            assert site.listener.full
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [line.partition(" (")[0] for line in caplog.messages] == ["no more processes can connect for now"]
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


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    thesis, link = tmp_path / "thesis.tex", tmp_path / "link"
    thesis.write_text("years of work")
    link.symlink_to(thesis)
    for path in (thesis, link):
        with pytest.raises(Unavailable, match="is not a socket; choose another --socket"):
            MarkListener(path, everyone=False)
    assert link.is_symlink() and thesis.read_text() == "years of work"
