"""Marks over a real socket: what the agent receives, and what the training never notices."""

from __future__ import annotations

import ast
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import roofline_step
from roofline_step._sender import Sender
from roofline_step.packets import FACT, MARK
from roofline_step.sockets import socket_paths, trusted

from tests.fakes import FakeAgent, decode_mark, wait_for

from .sending import AGENT_FOLDER, BEGIN, BORDER, END, PHASE_BEGIN, PHASE_END, SPAN, STEP, run


def test_who_opts_out_sends_nothing(
    sender: Sender, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFLINE_DISABLE", "1")
    roofline_step.mark(1)
    assert agent.poll(0.05) == []
    for step, value in enumerate(("0", ""), 2):
        monkeypatch.setenv("ROOFLINE_DISABLE", value)
        roofline_step.mark(step)
        assert [mark.step for mark in agent.marks(1)] == [step]


def test_mark_carries_step_examples_and_the_time_it_happened(sender: Sender, agent: FakeAgent) -> None:
    before = time.monotonic_ns()
    roofline_step.mark(7, examples=64)
    after = time.monotonic_ns()
    (mark,) = agent.marks(1)
    assert (mark.kind, mark.step, mark.examples, mark.pid) == (BORDER, 7, 64, os.getpid())
    assert (mark.role, mark.index, mark.phase, mark.asynchronous, mark.dropped) == ("", -1, "", False, 0)
    assert before <= mark.time_ns <= after


def test_coordinator_marks_for_its_worker(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(2, kind=roofline_step.END, of=("worker", 3), asynchronous=True, time_ns=123)
    (mark,) = agent.marks(1)
    assert (mark.kind, mark.role, mark.index, mark.asynchronous, mark.time_ns) == (
        END,
        "worker",
        3,
        True,
        123,
    )
    assert mark.examples is None


def test_no_examples_differ_from_zero_examples(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    roofline_step.mark(2, examples=0)
    assert [mark.examples for mark in agent.marks(2)] == [None, 0]


@pytest.mark.parametrize(
    ("step", "examples", "found"),
    [
        (3, 256 / 2, (3, 128)),
        (3.0, 31.6, (3, 32)),
        (np.int64(3), np.float32(8), (3, 8)),
        (np.float64(3), np.array(8), (3, 8)),
        (3, float("nan"), (3, None)),
        (3, "many", (3, None)),
    ],
)
def test_numbers_of_any_kind_are_taken_and_never_cost_the_step(
    sender: Sender, agent: FakeAgent, step: Any, examples: Any, found: tuple[int, int | None]
) -> None:
    roofline_step.mark(step, examples=examples)
    marks = [
        decode_mark(*one) for one in agent.receive(1 + (found[1] is None)) if not one[1].startswith(FACT)
    ]
    assert [(mark.step, mark.examples, mark.dropped) for mark in marks] == [(*found, 0)]


def test_mark_without_a_step_leaves_the_steps_to_the_hooks(
    sender: Sender, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline_step, "_training_marks", False)
    for step in (0.5, "first", None):
        roofline_step.mark(step)  # type: ignore[arg-type]
    assert not roofline_step.said_by_training()
    assert b"is no whole number" in agent.receive(1)[0][1]
    roofline_step.mark(1)
    assert roofline_step.said_by_training()


def test_step_and_phase_nest(sender: Sender, agent: FakeAgent) -> None:
    with roofline_step.step(5, examples=8), roofline_step.phase("input"):
        pass
    marks = agent.marks(4)
    assert [(m.kind, m.step, m.phase) for m in marks] == [
        (BEGIN, 5, ""),
        (PHASE_BEGIN, -1, "input"),
        (PHASE_END, -1, "input"),
        (END, 5, ""),
    ]
    assert [m.time_ns for m in marks] == sorted(m.time_ns for m in marks)


def test_step_left_by_an_exception_has_no_end(sender: Sender, agent: FakeAgent) -> None:
    with pytest.raises(KeyError), roofline_step.step(5):
        raise KeyError
    roofline_step.mark(99)
    assert [(m.kind, m.step) for m in agent.marks(2)] == [(BEGIN, 5), (BORDER, 99)]


def test_phase_left_by_an_exception_has_ended(sender: Sender, agent: FakeAgent) -> None:
    with pytest.raises(KeyError), roofline_step.phase("input"):
        raise KeyError
    assert [m.kind for m in agent.marks(2)] == [PHASE_BEGIN, PHASE_END]


def test_without_an_agent_nothing_happens(path: Path) -> None:
    code = """
import roofline_step as r
for k in range(100):
    with r.step(k, examples=1), r.phase("x"):
        r.mark(k)
"""
    done = run(code, path, "-W", "error", "-X", "dev")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_agent_that_appears_later_is_found(sender: Sender, path: Path) -> None:
    roofline_step.mark(1)
    with FakeAgent(path) as agent:
        roofline_step.mark(2)
        assert [m.step for m in agent.marks(1)] == [2]


def test_an_absent_agent_is_looked_for_once_a_second_only(path: Path) -> None:
    sender = Sender([str(path)])
    assert sender.off()
    with FakeAgent(path):
        assert sender.off()  # the next look is due in a second
        wait_for(lambda: not sender.off(), "the next look")
    sender.close()


def test_restarted_agent_gets_marks_and_the_number_dropped(sender: Sender, path: Path) -> None:
    with FakeAgent(path) as first:
        roofline_step.mark(1)
        first.marks(1)
    roofline_step.mark(2)
    with FakeAgent(path) as second:
        roofline_step.mark(3)
        (mark,) = second.marks(1)
    assert (mark.step, mark.dropped) == (3, 1)


def test_every_mark_of_an_outage_is_counted(sender: Sender, path: Path) -> None:
    with FakeAgent(path) as first:
        roofline_step.mark(1)
        first.marks(1)
    for step in range(2, 7):
        roofline_step.mark(step)
    with FakeAgent(path) as second:
        roofline_step.mark(7)
        (mark,) = second.marks(1)
    assert (mark.step, mark.dropped) == (7, 5)


def test_full_socket_drops_and_counts_and_never_blocks(sender: Sender, agent: FakeAgent) -> None:
    for step in range(20_000):  # returns at all: nobody reads meanwhile
        roofline_step.mark(step)
    got = [decode_mark(pid, data) for pid, data in agent.poll(0.1)]
    dropped = sender.dropped
    assert dropped > 0
    assert len(got) + dropped == 20_000
    assert [m.step for m in got] == list(range(len(got))), "the oldest are the ones that got through"
    roofline_step.mark(-7)
    (after,) = agent.marks(1)
    assert (after.step, after.dropped) == (-7, dropped)
    assert sender.dropped == 0, "said once"


def test_threads_share_one_connection_and_lose_nothing(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(-1)
    agent.marks(1)

    def work(first: int) -> None:
        for step in range(first, first + 20):
            roofline_step.mark(step)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    steps = sorted(m.step for m in agent.marks(80))
    assert steps == sorted(100 * n + k for n in range(1, 5) for k in range(20))
    assert len(agent.peers) == 1


def test_mark_of_another_thread_while_connecting_is_sent_or_counted(agent: FakeAgent, path: Path) -> None:
    class Paths:
        def __iter__(self) -> Iterator[str]:
            other.start()
            other.join(0.5)
            yield str(path)

    def mark(step: int) -> None:
        made.send(BORDER, step, None, None, None, False, b"")

    made = Sender(Paths())  # type: ignore[arg-type]
    other = threading.Thread(target=mark, args=(2,))
    mark(1)
    other.join()
    arrived = [decode_mark(pid, data) for pid, data in agent.poll(0.2)]
    made._socket.close()  # type: ignore[union-attr]
    assert len(arrived) + made.dropped + sum(mark.dropped for mark in arrived) == 2


def test_handler_that_marks_while_the_same_thread_connects_does_not_wait(path: Path) -> None:
    class Paths:
        def __iter__(self) -> Iterator[str]:
            assert made.off(), "as a signal's handler would, in the middle of connecting"
            return iter(())

    made = Sender(Paths())  # type: ignore[arg-type]
    thread = threading.Thread(target=made.off, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert made.dropped == 1


def test_all_marks_of_a_lost_packet_are_counted_and_spans_by_themselves(
    sender: Sender, agent: FakeAgent
) -> None:
    roofline_step.mark(1)
    while not sender.dropped:
        roofline_step.mark(2)
    before = sender.dropped
    roofline_step.send_step(STEP, [SPAN] * 3)
    roofline_step.send_spans([SPAN] * 1000)
    assert (sender.dropped - before, sender.dropped_spans) == (2, 1003)
    agent.poll(0.2)
    roofline_step.mark(7)
    (pid, mark), (_, fact) = agent.receive(2)
    assert decode_mark(pid, mark).dropped == before + 2
    assert fact == FACT + b"spans.dropped=1003"
    roofline_step.mark(8)
    assert [m.step for m in agent.marks(1)] == [8], "said once"


def test_marks_and_spans_of_an_outage_are_counted(sender: Sender, path: Path) -> None:
    with FakeAgent(path) as agent:
        roofline_step.mark(1)
        agent.marks(1)
    roofline_step.send_step(STEP, [SPAN] * 3)
    roofline_step.send_spans([SPAN] * 5)
    roofline_step.send_fact("a", "b")
    assert (sender.dropped, sender.dropped_spans) == (2, 8)


FORK = """
import os, roofline_step as r
r.mark(1)
child = os.fork()
if child == 0:
    r.mark(2)
    os._exit(0)
os.waitpid(child, 0)
r.mark(3)
print(os.getpid(), child)
"""


def test_forked_child_speaks_for_itself(agent: FakeAgent, path: Path) -> None:
    done = run(FORK, path)
    parent, child = map(int, done.stdout.split())
    assert sorted((m.step, m.pid) for m in agent.marks(3)) == [(1, parent), (2, child), (3, parent)]


def closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False


@pytest.fixture
def replaced(sender: Sender, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The other end of a socket that the training has in the place of ours."""
    monkeypatch.setattr(sys.modules["roofline_step._sender"], "SURE_NS", 0)
    roofline_step.mark(1)
    assert sender._socket is not None
    ours = sender._socket.fileno()
    end, other = socket.socketpair()
    with end, other:
        os.dup2(end.fileno(), ours)
        yield other
        os.close(ours)


def test_socket_of_the_training_in_the_place_of_ours_gets_nothing(
    sender: Sender, agent: FakeAgent, replaced: socket.socket
) -> None:
    roofline_step.mark(2)
    assert [mark.step for mark in agent.marks(2)] == [1, 2], "over another connection"
    assert sender.dropped == 0
    with pytest.raises(BlockingIOError):
        replaced.recv(1, socket.MSG_DONTWAIT)


def test_forked_child_keeps_the_socket_of_the_training_open(sender: Sender, replaced: socket.socket) -> None:
    assert sender._socket is not None
    descriptor = sender._socket.fileno()
    sender._reset()
    assert not closed(descriptor)


def test_socket_that_the_training_closed_is_followed_by_another(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    assert sender._socket is not None
    os.close(sender._socket.fileno())
    sender._sure_ns = 0
    roofline_step.mark(2)
    assert [mark.step for mark in agent.marks(2)] == [1, 2]


def test_fork_prints_no_warning(agent: FakeAgent, path: Path) -> None:
    assert run(FORK, path, "-X", "dev").stderr == ""


def test_forked_child_has_dropped_nothing_yet(agent: FakeAgent, path: Path) -> None:
    done = run(FORK.replace("child = os", "r.mark(1, of=7); child = os"), path)
    child = int(done.stdout.split()[1])
    assert [m.dropped for m in agent.marks(3) if m.pid == child] == [0]


def test_said_by_training_counts_mark_and_step_not_hooks(sender: Sender) -> None:
    roofline_step.send_mark(BORDER, 1, None, None, None, False)
    with roofline_step.phase("input"):
        pass
    assert not roofline_step.said_by_training()
    roofline_step.mark(1)  # also without an agent
    assert roofline_step.said_by_training()


def test_step_is_the_word_of_training(sender: Sender) -> None:
    with roofline_step.step(1):
        assert roofline_step.said_by_training()


def test_socket_of_another_user_is_not_trusted(path: Path, agent: FakeAgent) -> None:
    assert trusted(str(path), os.getuid())
    if os.getuid() != 0:
        pytest.skip("needs root to give a file away")
    os.chown(path, 12345, -1)
    assert not trusted(str(path), os.getuid())
    assert trusted(str(path), 12345)
    assert Sender([str(path)]).off()


def test_place_of_the_system_is_trusted_whoever_has_it(
    path: Path, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent may have a user of its own, and root alone gives the place away."""
    if os.getuid() != 0:
        pytest.skip("needs root to give a file away")
    os.chown(path, 12345, -1)
    monkeypatch.setattr("roofline_step.sockets.SYSTEM_SOCKET", str(path))
    assert trusted(str(path), 4321)
    assert not trusted(str(path) + "x", 4321)


def test_socket_places_in_order() -> None:
    system = "/run/roofline/agent.sock"
    assert socket_paths({"ROOFLINE_SOCKET": "/x", "XDG_RUNTIME_DIR": "/r"}, 5) == ["/x"]
    login, other = "/run/user/5/roofline/agent.sock", "/tmp/roofline-5/agent.sock"
    assert socket_paths({"XDG_RUNTIME_DIR": "/r"}, 5) == ["/r/roofline/agent.sock", login, other, system]
    assert socket_paths({"XDG_RUNTIME_DIR": "/run/user/5"}, 5) == [login, other, system]
    assert socket_paths({}, 5) == [login, other, system], "of cron, where an agent is of a login"


def test_packet_of_a_mark_is_as_documented() -> None:
    assert MARK.size == 40


@pytest.mark.parametrize(
    "source",
    [
        *AGENT_FOLDER.glob("roofline_step/*.py"),
        *AGENT_FOLDER.glob("roofline_agent/hooks/**/*.py"),
    ],
    ids=lambda p: str(p.relative_to(AGENT_FOLDER)),
)
def test_what_training_loads_is_python_3_8_and_standard_library_only(source: Path) -> None:
    tree = ast.parse(source.read_text(), feature_version=(3, 8))
    absolute = [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    absolute += [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and not n.level]
    roots = {name.partition(".")[0] for name in absolute}
    assert roots <= {*sys.stdlib_module_names, "sitecustomize"}
