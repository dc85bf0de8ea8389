"""Marks over a real socket: what the agent receives, and what the training never notices."""

from __future__ import annotations

import ast
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import roofline_step
from roofline_step._layout import MOST_HELD, layout
from roofline_step._sender import HOLD_NS, MAX_FACTS, Sender
from roofline_step._thread import LATE_NS, ThreadAccount
from roofline_step.packets import FACT, MARK, MAX_FACT, MAX_SPANS
from roofline_step.sockets import socket_paths, trusted
from roofline_step.variables import lost_variables

from tests.fakes import FakeAgent, clean_environ, decode_mark, decode_spans, wait_for

AGENT_FOLDER = Path(roofline_step.__file__).parents[1]
BEGIN, END, BORDER, PHASE_BEGIN, PHASE_END = range(1, 6)


class NothingKnown:
    """Stands for the account of the thread where that is not what a test is about."""

    on = False

    def over(self, step: int, now: int) -> None:
        return None

    def starts(self, step: int, now: int) -> None:
        return None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


@pytest.fixture
def agent(path: Path) -> Iterator[FakeAgent]:
    with FakeAgent(path) as agent:
        yield agent


@pytest.fixture
def sender(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sender]:
    """A fresh sender in the place of the module's own, which looks for an agent every time."""
    made = Sender([str(path)])
    monkeypatch.setattr(sys.modules["roofline_step._sender"], "RETRY_NS", 0)
    monkeypatch.setattr(roofline_step, "_agent", made)
    monkeypatch.setattr(roofline_step, "_send", made.send)
    monkeypatch.setattr(roofline_step, "_training_marks", False)
    monkeypatch.setattr(roofline_step, "thread_account", NothingKnown())
    yield made
    made.close()


def run(code: str, path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    environ = clean_environ(ROOFLINE_SOCKET=str(path), PYTHONPATH=str(AGENT_FOLDER))
    return subprocess.run(
        [sys.executable, *flags, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )


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


STEP = [(BEGIN, 1, None, 1, None, False), (END, 1, None, 2, None, False)]
SPAN = ("phase.input", 1, 2, None, 1)


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


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "arguments",
    [
        {"step": "one"},
        {"step": None},
        {"step": 1.5},
        {"step": 2**70},
        {"step": 1, "examples": 2**64},
        {"step": 1, "kind": 300},
        {"step": 1, "kind": "begin"},
        {"step": 1, "of": "worker"},
        {"step": 1, "of": ("worker",)},
        {"step": 1, "of": (3, 3)},
        {"step": 1, "of": 7},
        {"step": 1, "of": ("\ud800", 1)},
        {"step": 1, "of": ("worker", 2**40)},
        {"step": 1, "time_ns": "now"},
    ],
    ids=str,
)
def test_wrong_arguments_are_a_drop_and_no_exception(
    sender: Sender, agent: FakeAgent, arguments: dict
) -> None:
    roofline_step.mark(0)
    roofline_step.mark(**arguments)
    roofline_step.mark(2)
    told = type(arguments["step"]) is not int  # why, in a fact
    marks = [decode_mark(*one) for one in agent.receive(2 + told) if not one[1].startswith(FACT)]
    assert [m.step for m in marks] == [0, 2]
    assert marks[1].dropped == 1
    assert marks[1].pid == os.getpid()
    assert len(agent.peers) == 1, "a bad argument is no reason to reconnect"


@pytest.mark.parametrize("name", [None, 7, b"x"], ids=str)
def test_phase_takes_any_name(sender: Sender, agent: FakeAgent, name: object) -> None:
    with roofline_step.phase(name):  # type: ignore[arg-type]
        pass
    assert [m.phase for m in agent.marks(2)] == [str(name)] * 2


@pytest.mark.parametrize("name", ["\udc80", Hostile()], ids=["surrogate", "hostile"])
def test_phase_never_raises(sender: Sender, agent: FakeAgent, name: object) -> None:
    ran = False
    with roofline_step.phase(name):  # type: ignore[arg-type]
        ran = True
    assert ran
    with roofline_step.phase("input"):
        pass
    assert [m.phase for m in agent.marks(2)][-1] == "input", "what comes next is told"


def test_long_phase_name_is_cut_between_characters(sender: Sender, agent: FakeAgent) -> None:
    with roofline_step.phase("x" + "ü" * 64):
        pass
    for mark in agent.marks(2):
        assert mark.phase == "x" + "ü" * 31


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


# -- spans and facts -------------------------------------------------------------------------------


def packets(agent: FakeAgent, count: int) -> list[bytes]:
    return [data for _, data in agent.receive(count)]


def facts(agent: FakeAgent, count: int) -> list[str]:
    return [data[len(FACT) :].decode() for data in packets(agent, count)]


def test_spans_arrive_as_sent(sender: Sender, agent: FakeAgent) -> None:
    told = [
        ("phase.input", 1, 5, None, 1),
        ("asked.allreduce", 5, 6, 4096, 3),
        ("phase.input", 7, 9, None, 1),
    ]
    roofline_step.send_spans(told)
    assert decode_spans(packets(agent, 1)[0]) == told


def test_many_spans_go_in_several_packets(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.send_spans([("phase.input", k, k + 1, None, 1) for k in range(MAX_SPANS + 5)])
    first, second = packets(agent, 2)
    assert [span[1] for span in decode_spans(first) + decode_spans(second)] == list(range(MAX_SPANS + 5))


@pytest.mark.parametrize(
    "spans", [[("a",)], [(None, 1, 2, 3, 4)], [("a.b", "x", 2, 3, 4)], [("a.b", 2**70, 2, 3, 4)]]
)
def test_spans_that_cannot_be_sent_are_a_drop_and_no_exception(
    sender: Sender, agent: FakeAgent, spans: Any
) -> None:
    roofline_step.mark(1)
    roofline_step.send_spans(spans)
    assert (sender.dropped, sender.dropped_spans) == (0, 1)


def test_no_spans_are_no_packet(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.send_spans([])
    roofline_step.mark(3)
    (mark,) = agent.marks(1)
    assert mark.step == 3


def test_facts_are_sent_again_to_the_next_agent(sender: Sender, path: Path) -> None:
    with FakeAgent(path) as agent:
        roofline_step.send_fact("gradient.bytes", 1)
        roofline_step.send_fact("gradient.bytes", 42)
        roofline_step.send_fact("hook.x", "installed")
        assert facts(agent, 3) == ["gradient.bytes=1", "gradient.bytes=42", "hook.x=installed"]
    with FakeAgent(path) as agent:
        roofline_step.mark(1)  # finds out that the old one has gone
        roofline_step.mark(2)
        assert facts(agent, 2) == ["gradient.bytes=42", "hook.x=installed"]


TITLED = """
import ctypes, os, sys
import roofline_step
# As setproctitle does: NULs from the first argument to the end of the variables.
with open("/proc/self/stat") as file:
    fields = file.read().rpartition(")")[2].split()
begin, end = int(fields[47]), int(fields[48])  # env_start and env_end of proc(5)
if len(sys.argv) > 1:
    ctypes.memset(begin, 0, end - begin)
roofline_step.send_fact("a", 1)
roofline_step.mark(1)
"""


@pytest.mark.parametrize("title", [True, False])
def test_process_with_a_title_sends_the_variables_that_name_its_rank(
    title: bool, path: Path, agent: FakeAgent
) -> None:
    environ = clean_environ(
        ROOFLINE_SOCKET=str(path), PYTHONPATH=str(AGENT_FOLDER), SLURM_JOB_ID="77", RANK="1", SECRET="x"
    )
    command = [sys.executable, "-c", TITLED, *(["title"] if title else [])]
    subprocess.run(command, env=environ, check=True, timeout=60)
    sent = [data for data in packets(agent, 3 if title else 2) if data[:1] == b"F"]
    named = [data for data in sent if data.startswith(FACT + b"rank.started_with=")]
    assert len(named) == title and sent[-1] == FACT + b"a=1"
    for data in named:
        found = json.loads(data.partition(b"=")[2])
        assert found == {"ROOFLINE_SOCKET": str(path), "SLURM_JOB_ID": "77", "RANK": "1"}


def test_variables_that_are_too_many_are_not_sent(tmp_path: Path) -> None:
    shown = tmp_path / "environ"
    shown.write_bytes(b"\0" * 50)
    assert lost_variables({"RANK": "1"}, str(shown)) == '{"RANK": "1"}'
    assert lost_variables({"TF_CONFIG": "x" * MAX_FACT}, str(shown)) is None
    assert lost_variables({"PATH": "/bin"}, str(shown)) is None
    assert lost_variables({"RANK": "1"}, str(tmp_path / "missing")) is None
    shown.write_bytes(b"RANK=1\0")
    assert lost_variables({"RANK": "1"}, str(shown)) is None


def test_facts_are_bounded(sender: Sender, agent: FakeAgent) -> None:
    for number in range(MAX_FACTS + 10):
        roofline_step.send_fact(f"a.{number}", "x" * 10_000)
    assert len(packets(agent, 1)[0]) <= len(FACT) + MAX_FACT


def test_only_so_many_facts_are_kept_for_the_next_agent(sender: Sender, path: Path) -> None:
    for number in range(MAX_FACTS + 10):
        roofline_step.send_fact(f"a.{number}", "x")
    with FakeAgent(path) as agent:
        roofline_step.mark(1)
        received = packets(agent, MAX_FACTS + 1)
        assert received[-2:-1] == [FACT + b"a.%d=x" % (MAX_FACTS - 1)]
        assert received[-1][:1] == b"M"


def test_spans_do_not_hide_how_many_marks_were_dropped(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    sender.dropped = 5
    roofline_step.send_spans([("phase.input", 1, 2, None, 1)])
    roofline_step.mark(2)
    last = packets(agent, 3)[-1]
    assert decode_mark(0, last).dropped == 5


def test_a_step_is_one_packet_of_marks_and_spans(sender: Sender, agent: FakeAgent) -> None:
    sender.dropped = 0
    marks = [(BEGIN, 7, None, 10, None, False), (END, 7, 32, 20, ("worker", 1), True)]
    roofline_step.send_step(marks, [("phase.input", 11, 12, None, 1)])
    begin, end, spans = packets(agent, 3)
    first, last = decode_mark(0, begin), decode_mark(0, end)
    assert (first.kind, first.step, first.examples, first.time_ns) == (BEGIN, 7, None, 10)
    assert (last.kind, last.examples, last.role, last.index, last.asynchronous) == (
        END,
        32,
        "worker",
        1,
        True,
    )
    assert decode_spans(spans) == [("phase.input", 11, 12, None, 1)]


def test_step_with_very_many_spans_loses_none(sender: Sender, agent: FakeAgent) -> None:
    spans = [("phase.input", k, k + 1, None, 1) for k in range(2 * MAX_SPANS + 3)]
    roofline_step.send_step([(BORDER, 1, None, 5, None, False)], spans)
    mark, *rest = packets(agent, 4)
    assert decode_mark(0, mark).step == 1
    assert sum(len(decode_spans(packet)) for packet in rest) == len(spans)


def test_drops_before_a_step_are_reported_once(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    sender.dropped = 5
    roofline_step.send_step([(BEGIN, 2, None, 5, None, False), (END, 2, None, 6, None, False)], [])
    assert [decode_mark(0, packet).dropped for packet in packets(agent, 3)] == [0, 5, 0]
    assert sender.dropped == 0


def test_step_that_cannot_be_packed_is_a_drop_and_no_exception(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    roofline_step.send_step([(BORDER, "x", None, 5, None, False)], [])  # type: ignore[list-item]
    assert sender.dropped == 1


SPANS_OF_A_STEP = [
    ("phase.input", 1, 2, None, 1),
    ("phase.call", 4, 9, None, 1),
    ("phase.input", 10, 11, None, 1),
]
ITS_TIMES = [0, 1, 2, 4, 9, 10, 11, 12]


@pytest.mark.parametrize("examples", [None, 8])
def test_layout_sends_the_same_packet_as_send_step(
    sender: Sender, agent: FakeAgent, examples: int | None
) -> None:
    names = [span[0] for span in SPANS_OF_A_STEP]
    border = layout(sender, (roofline_step.BORDER,), names, (7, 1, 2, 3, 4, 5, 6))
    window = layout(sender, (BEGIN, END), (), (0, 7))
    assert not sender.off()
    sender.send_step([(roofline_step.BORDER, 5, examples, 12, None, False)], SPANS_OF_A_STEP)
    ends = [(BEGIN, 0), (END, 12)]
    sender.send_step([(kind, 5, examples, at, None, False) for kind, at in ends], ())
    assert border(5, examples, ITS_TIMES)
    assert window(5, examples, ITS_TIMES)
    sender.send_held()
    said = packets(agent, 8)
    assert said[:4] == said[4:]


def test_marked_steps_carry_what_their_thread_had(
    sender: Sender, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline_step, "thread_account", ThreadAccount({"ROOFLINE_OVERHEAD": "1.9"}))
    for number in range(20):
        with roofline_step.step(number):
            with roofline_step.phase("input"):
                until = time.thread_time_ns() + 2_000_000
                while time.thread_time_ns() < until:
                    pass
            time.sleep(0.002)
        spin = time.thread_time_ns() + 3_000_000  # of no step
        while time.thread_time_ns() < spin:
            pass
    got = agent.poll(0.1)
    marks = [decode_mark(*one) for one in got if one[1][:1] == b"M"]
    spans = [span for _, data in got if data[:1] == b"S" for span in decode_spans(data)]
    begins = [mark.time_ns for mark in marks if mark.kind == BEGIN]
    ends = [mark.time_ns for mark in marks if mark.kind == END]
    # Of a step whose border could not be read at once nothing is known.
    for name in ("thread.run.step", "thread.run.input"):
        found = {span.begin: span.count for span in spans if span.name == name}
        assert len(found) >= 2
        for at, count in found.items():
            assert any(begin < at < end for begin, end in zip(begins, ends, strict=True))
            # A reading stands for a moment LATE_NS before or after it, as if the thread ran meanwhile.
            assert 2e6 - LATE_NS <= count < 4e6


def test_layout_with_counts_sends_the_same_packet_as_send_step(sender: Sender, agent: FakeAgent) -> None:
    names = ("phase.input", "thread.gc", "thread.run.step")
    counted = layout(sender, (roofline_step.BORDER,), names, (4, 0, 1, 0, 4, 0, 4), counts=(2, 3))
    sender.hold_ns = 0
    assert not sender.off()
    assert counted(3, 16, (10, 20, 0, 77, 30))
    spans = [
        ("phase.input", 10, 20, None, 1),
        ("thread.gc", 10, 30, None, 0),
        ("thread.run.step", 10, 30, None, 77),
    ]
    roofline_step.send_step([(roofline_step.BORDER, 3, 16, 30, None, False)], spans)
    packets = [data for _, data in agent.receive(4)]
    assert packets[:2] == packets[2:]


def test_like_travels_with_marks_and_layouts(sender: Sender, agent: FakeAgent) -> None:
    assert not sender.off()
    sender.send_step([(roofline_step.BORDER, 5, None, 12, None, False, 65535)], ())
    assert layout(sender, (roofline_step.BORDER,), (), (0,), 65535)(6, None, [13])
    sender.send_held()
    assert [decode_mark(0, packet).like for packet in packets(agent, 2)] == [65535, 65535]


def step_ends(agent: FakeAgent, count: int) -> list[int]:
    return [decode_mark(0, packet).step for packet in packets(agent, count)]


def test_short_steps_go_together_and_long_ones_at_once(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    assert say(0, None, [HOLD_NS])
    assert step_ends(agent, 1) == [0]
    for step in (1, 2, 3):
        assert say(step, None, [HOLD_NS + step * HOLD_NS // 3])
        assert bool(sender.held) == (step < 3)
    assert step_ends(agent, 3) == [1, 2, 3]


def test_many_steps_are_not_held(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    for step in range(MOST_HELD):
        assert say(step, None, [step])
    assert step_ends(agent, MOST_HELD) == list(range(MOST_HELD))


@pytest.mark.parametrize(
    "other",
    [
        lambda sender: sender.send_step([(BORDER, 2, None, 6, None, False)], ()),
        lambda sender: sender.send(BORDER, 2, None, 6, None, False, ""),
    ],
)
def test_what_is_held_goes_before_what_comes_later(
    sender: Sender, agent: FakeAgent, other: Callable[[Sender], None]
) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    assert say(1, None, [5])
    other(sender)
    assert step_ends(agent, 2) == [1, 2]


@pytest.mark.parametrize(
    "how", ["import sys; sys.exit(3)", "import os; os._exit(3)", "raise KeyboardInterrupt", "pass"]
)
@pytest.mark.parametrize("where", ["main", "fork", "spawn"])
def test_steps_that_are_held_are_sent_at_the_end(agent: FakeAgent, path: Path, how: str, where: str) -> None:
    program = f"""
import multiprocessing, roofline_step
from roofline_step import _agent
def train():
    layout = roofline_step.step_layout((3,), (), (0,))
    assert not _agent.off()
    assert layout(7, None, [5])
    {how}
if __name__ == "__main__":
    if "{where}" == "main":
        train()
    else:
        child = multiprocessing.get_context("{where}").Process(target=train)
        child.start()
        child.join()
"""
    script = path.with_name("program.py")
    script.write_text(program)
    environ = clean_environ(ROOFLINE_SOCKET=str(path), PYTHONPATH=str(AGENT_FOLDER))
    subprocess.run([sys.executable, script], env=environ, capture_output=True, timeout=60)
    assert step_ends(agent, 1) == [7]


def test_end_at_once_can_be_pickled(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    assert pickle.loads(pickle.dumps(os._exit)) is os._exit


def test_steps_that_are_held_can_be_sent_before_an_end_that_python_does_not_see(
    agent: FakeAgent, path: Path
) -> None:
    program = """
import os, types, roofline_step
from roofline_agent.hooks.marker import Marker
layout = roofline_step.step_layout((3,), (), (0,))
assert not roofline_step._agent.off()
assert layout(7, None, [5])
Marker(roofline_step, {}).flush()
old = types.SimpleNamespace(BEGIN=1, END=2, BORDER=3, said_by_training=bool)
Marker(old, {}).flush()
os._exit(0)
"""
    environ = clean_environ(ROOFLINE_SOCKET=str(path), PYTHONPATH=str(AGENT_FOLDER))
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert step_ends(agent, 1) == [7]


def test_step_that_a_hook_sends_after_the_end_goes_at_once(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    assert say(1, None, [5])
    sender._end()
    assert say(2, None, [6])
    assert step_ends(agent, 2) == [1, 2]


def test_forked_child_does_not_send_the_steps_of_its_parent(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    assert say(1, None, [5])
    child = os.fork()
    if child == 0:
        os._exit(len(sender.held))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(sender.held) == 1


def test_layout_leaves_losses_and_what_it_cannot_pack_to_others(sender: Sender, path: Path) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not say(1, None, [5]), "nobody has connected yet"
    with FakeAgent(path):
        assert not sender.off()
        assert say(2, None, [5])
        assert say("2", None, [5])  # type: ignore[arg-type]
        sender.send_held()
        assert sender.dropped == 1, "that one cannot be packed; the other is sent"
        assert not say(2, None, [5]), "the next mark tells of it"


def test_layout_counts_what_a_full_socket_does_not_take(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), ("phase.call",), (0, 0, 0))
    assert not sender.off()
    said = 0
    while say(said, None, [5]):
        said += 1
    assert sender.dropped == sender.dropped_spans == MOST_HELD
