"""A program that only starts the training is not its rank: who marks is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.marks.listener import MarkListener
from roofline_agent.marks.packets import WRAPPED
from roofline_agent.marks.receiver import LAUNCHER_EXIT, MarkReceiver
from roofline_agent.marks.refusals import SENDER_GONE
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.records import EventKind
from roofline_step.packets import pack_fact, pack_mark

from tests.fakes import add_process, ended

OF_SLURM = {"SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
DRIVER, SHELL = 11, 12
# Sends each line that it reads, in hexadecimal, as a packet.
SENDS = (
    "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(sys.argv[1])\n"
    "print(flush=True)\n"
    "for line in sys.stdin: s.send(bytes.fromhex(line)); print(flush=True)"
)


class Child:
    """A process that is connected."""

    def __init__(self, process: Any) -> None:
        self.pid: int = process.pid
        self._process = process
        process.stdout.readline()

    def send(self, packet: bytes) -> None:
        self._process.stdin.write(packet.hex() + "\n")
        self._process.stdin.flush()
        self._process.stdout.readline()

    def mark(self, step: int) -> None:
        self.send(pack_mark(3, step, None, 77 + step, None, False, "", 0))


class Tree:
    """A driver, a shell below it, and processes below that, which are real as far as the socket goes."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.proc = root / "proc"
        add_process(self.proc, DRIVER, OF_SLURM, ("python", "driver.py"))
        add_process(self.proc, SHELL, OF_SLURM, ("bash",), parent=DRIVER)
        self.discovery = Discovery(str(self.proc))
        self.listener = MarkListener(root / "agent.sock", everyone=True)
        self.now_ns = 1_000_000_000
        self.receiver = MarkReceiver(self.listener, self.discovery, clock=lambda: self.now_ns)
        self.discovery.scan()

    def start(self, parent: int = SHELL) -> Child:
        command = [sys.executable, "-c", SENDS, str(self.listener.path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        child = Child(self._stack.enter_context(ended(process)))
        add_process(self.proc, child.pid, OF_SLURM, ("python", "train.py"), parent=parent)
        self.receiver.accept()
        return child

    def marked(self) -> list[tuple[int, str]]:
        """Of each mark since the last call the process that it is of, and its rank."""
        self.receiver.receive()
        return sorted((mark.rank.pid, mark.rank.key) for mark in self.receiver.take(1).marks)

    def ranks(self) -> list[int]:
        return list(self.discovery.ranks)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    with ExitStack() as stack:
        tree = Tree(tmp_path, stack)
        yield tree
        tree.listener.close()


def test_process_that_marks_is_the_rank_and_not_what_has_started_it(tree: Tree) -> None:
    train, _ = tree.start(), tree.start()
    assert tree.ranks() == [DRIVER]
    train.mark(1)
    assert tree.marked() == [(train.pid, "worker:0")]
    assert [rank.pid for rank in tree.discovery.take_left()] == [DRIVER]
    for _ in range(40):
        tree.discovery.scan()
    assert tree.ranks() == [train.pid]


def test_programs_that_one_process_has_started_are_ranks_each(tree: Tree) -> None:
    """As trials of a sweep: one after the other is one rank, side by side are two."""
    first, second = tree.start(), tree.start()
    first.mark(1)
    second.mark(1)
    rank_3_may_be_on_another_node = [(first.pid, "worker:0"), (second.pid, "worker:4")]
    assert tree.marked() == rank_3_may_be_on_another_node
    first.mark(2)
    second.mark(2)
    assert tree.marked() == rank_3_may_be_on_another_node
    third = tree.start()
    third.mark(1)
    assert [pid for pid, _ in tree.marked()] == [third.pid]


def test_training_that_marks_first_stays_the_rank_though_another_is_older(tree: Tree) -> None:
    """As trials that are forked together: else steps of both would be among those of one rank."""
    older, younger = tree.start(), tree.start()
    younger.mark(1)
    assert tree.marked() == [(younger.pid, "worker:0")]
    older.mark(1)
    younger.mark(2)
    assert dict(tree.marked()) == {younger.pid: "worker:0", older.pid: "worker:4"}


def test_training_that_was_started_while_another_marked_does_not_follow_on_that(tree: Tree) -> None:
    tree.now_ns = 60_000_000_000  # behind the start of both
    first, second = tree.start(), tree.start()
    first.mark(1)
    assert tree.marked() == [(first.pid, "worker:0")]
    tree.now_ns += 30_000_000_000  # in which it evaluates
    second.send(pack_fact("batch.size", "7"))
    second.mark(1)
    tree.receiver.receive()
    received = tree.receiver.take(1)
    assert [mark.rank.key for mark in received.marks] == ["worker:4"]
    facts = [event.rank for event in received.events if event.text == "batch.size=7"]
    assert [rank.key for rank in facts if rank and rank.pid == second.pid] == ["worker:4"]
    first.mark(2)
    assert tree.marked() == [(first.pid, "worker:0")]


def test_child_of_a_process_that_marks_marks_for_it(tree: Tree) -> None:
    outer = tree.start()
    outer.mark(1)
    inner = tree.start(outer.pid)
    inner.mark(2)
    assert tree.marked() == [(outer.pid, "worker:0")] * 2


def test_process_that_marks_later_than_what_it_has_started_is_the_rank_again(tree: Tree) -> None:
    outer = tree.start()
    inner = tree.start(outer.pid)
    inner.mark(1)
    assert tree.marked() == [(inner.pid, "worker:0")]
    outer.mark(1)
    assert tree.marked() == [(outer.pid, "worker:0")]
    assert tree.ranks() == [outer.pid]


def test_process_that_ended_before_its_marks_were_read_is_a_rank_of_its_own(tree: Tree) -> None:
    """As short trials of a pool."""
    train = tree.start()
    train.mark(1)
    shutil.rmtree(tree.proc / str(train.pid))
    assert tree.marked() == [(train.pid, "worker:0")]
    started, gone = tree.discovery.changes()
    assert [rank.pid for rank in started] == [train.pid]
    assert [rank.pid for rank in gone] == [DRIVER, train.pid]
    later = tree.start()
    later.mark(1)
    shutil.rmtree(tree.proc / str(later.pid))
    assert tree.marked() == [(later.pid, "worker:0")]


def test_marks_of_an_ended_process_of_which_nothing_is_known_are_refused(tree: Tree) -> None:
    train = tree.start()
    train.mark(1)
    shutil.rmtree(tree.proc / str(train.pid))
    tree.discovery.scan()
    tree.receiver.receive()
    received = tree.receiver.take(1)
    assert received.marks == []
    (refused,) = [event for event in received.events if event.kind is EventKind.REFUSED]
    assert (refused.rank and refused.rank.pid, refused.text) == (DRIVER, SENDER_GONE)


def test_child_that_ended_before_its_marks_were_read_marks_for_the_process_that_trains(tree: Tree) -> None:
    outer = tree.start()
    outer.mark(1)
    tree.marked()
    inner = tree.start(outer.pid)
    inner.mark(2)
    shutil.rmtree(tree.proc / str(inner.pid))
    assert tree.marked() == [(outer.pid, "worker:0")]


def test_what_a_wrapper_says_is_of_the_process_that_marks(tree: Tree) -> None:
    wrapper = tree.start()
    add_process(tree.proc, wrapper.pid, {}, ("roofline-agent", "run"))
    add_process(tree.proc, DRIVER, OF_SLURM, ("python", "driver.py"), parent=wrapper.pid)
    wrapper.send(WRAPPED.pack(b"W", DRIVER))
    wrapper.send(pack_fact("tag.experiment", "x"))
    tree.marked()
    train = tree.start()
    train.mark(1)
    tree.marked()
    wrapper.send(pack_fact("tag.more", "y"))
    wrapper.send(pack_fact("exit", "3 123456789"))
    tree.receiver.receive()
    events = [event for event in tree.receiver.take(2).events if event.rank is not None]
    of_training = {event.text for event in events if event.rank is not None and event.rank.pid == train.pid}
    assert {"tag.experiment=x", "tag.more=y", f"{LAUNCHER_EXIT}=3"} <= of_training
