"""The wrapper's way to the agent over a real socket: what did not reach one is counted."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_agent.marks.listener import MarkListener
from roofline_agent.marks.packets import parse_calls, parse_shape
from roofline_agent.marks.receiver import MarkReceiver
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.records import KernelShape
from roofline_agent.run import agent_link
from roofline_agent.run.agent_link import DROPPED, AgentLink, Border
from roofline_agent.verbose import KernelStretch, TimedCall
from roofline_step.packets import KERNEL

from tests.fakes import FakeAgent, clean_environ, ended

SPAN = ("engine.allreduce", 1, 2, None, 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


@pytest.fixture
def link(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentLink]:
    """It looks for an agent every time, not once a second."""
    monkeypatch.setattr(agent_link, "RECONNECT_S", 0.0)
    link = AgentLink(os.getpid(), [str(path)])
    yield link
    link.close()


def facts(agent: FakeAgent) -> list[str]:
    return [data[4:].decode() for _, data in agent.poll(0.2) if data[:1] == b"F"]


def connect(link: AgentLink) -> bool:
    link.send_spans([])
    return link.connected


def test_what_came_without_an_agent_is_counted(link: AgentLink, path: Path) -> None:
    for step in range(3):
        link.send_borders([Border(step, None, step)])
    link.send_spans([SPAN])
    link.send_fact("a", "b")
    with FakeAgent(path) as agent:
        assert connect(link)
        assert sorted(facts(agent)) == ["a=b", f"{DROPPED}=4 packets of marks and spans"]


def test_what_an_agent_did_not_take_before_it_went_is_counted(link: AgentLink, path: Path) -> None:
    with FakeAgent(path):
        assert connect(link)
        while not link.waiting_packets:  # until its socket is full
            link.send_spans([SPAN] * 1000)
        link.send_spans([SPAN])
        waiting = link.waiting_packets
        assert waiting >= 2
    link.send_spans([])
    assert not link.connected
    with FakeAgent(path) as agent:
        assert connect(link)
        assert facts(agent) == [f"{DROPPED}={waiting} packets of marks and spans"]


def test_times_that_cannot_be_cost_only_themselves(link: AgentLink, path: Path) -> None:
    shape = KernelShape("onednn", "convolution", "", "f32", "jit", "mb1", 10, 20)
    with FakeAgent(path) as agent:
        assert connect(link)
        link.send_calls([TimedCall(shape, 10**30, 1)], 10)
        link.send_calls([TimedCall(shape, 1, 1)], 20)
        assert sum(data[:1] == b"C" for _, data in agent.poll(0.2)) == 1


def test_agent_of_an_earlier_release_understands_kernels_of_cpus(link: AgentLink, path: Path) -> None:
    shape = KernelShape("onednn", "convolution", "", "f32", "jit", "mb1", 10, 20)
    on_gpu = shape._replace(on_gpu=True, counted=False)
    with FakeAgent(path) as agent:
        assert connect(link)
        link.send_calls([TimedCall(shape, 1, 1), TimedCall(on_gpu, 2, 1)], 10)
        kernels = [data[KERNEL.size :] for _, data in agent.poll(0.2) if data[:1] == b"K"]
    assert [len(json.loads(data)) for data in kernels] == [13, 15]
    assert [parse_shape(data) for data in kernels] == [shape, on_gpu]


def test_only_the_time_of_stretches_is_claimed(link: AgentLink, path: Path) -> None:
    shape = KernelShape("mkl", "gemm", "", "f32", "sgemm", "2,2,2", 16, 48, "")
    call = TimedCall(shape, 1_700_000_000_000_000_000, 10)
    with FakeAgent(path) as agent:
        assert connect(link)
        assert link.agent == os.getpid()
        link.send_stretches([KernelStretch(100, 200, [call, call]), KernelStretch(500, 600, [call])])
        calls = [parse_calls(data) for _, data in agent.poll(0.2) if data[:1] == b"C"]
    assert [(c.begin, c.through, len(c.kernels)) for c in calls] == [(100, 200, 2), (500, 600, 1)]


# -- what the agent asks for -----------------------------------------------------------------------------


@contextlib.contextmanager
def receiving(path: Path) -> Iterator[MarkReceiver]:
    listener = MarkListener(path, False)
    receiver = MarkReceiver(listener, Discovery())
    try:
        yield receiver
    finally:
        listener.close()


def test_wrapper_is_told_that_its_command_is_known(path: Path) -> None:
    environ = clean_environ(ROOFLINE_WRAPPED="1", ROOFLINE_JOB="j")
    # What it prints tells that it runs: right after its start its variables may not be there yet.
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    child = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE)
    with receiving(path) as receiver, ended(child):
        assert child.stdout is not None
        child.stdout.readline()
        links = AgentLink(child.pid, [str(path)]), AgentLink(os.getpid(), [str(path)])
        receiver.accept()
        receiver.receive()
        assert [link.is_seen(0.0) for link in links] == [True, False]
        assert links[0].is_seen(0.0), "once known is known"
        for link in links:
            link.close()


def test_wrappers_are_asked_for_fewer_kernels_and_nobody_else(link: AgentLink, path: Path) -> None:
    with receiving(path) as receiver:
        assert connect(link) and link.take_fewer() == 1
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as training:
            training.connect(str(path))
            training.setblocking(False)
            receiver.accept()
            for fewer in (4, 2, 1):
                receiver.fewer = fewer
                receiver.receive()
                assert link.take_fewer() == fewer
                assert link.take_fewer() == fewer, "until it is asked for something else"
            with pytest.raises(BlockingIOError):
                training.recv(100)


def test_wrapper_that_comes_later_is_asked_too(link: AgentLink, path: Path) -> None:
    with receiving(path) as receiver:
        receiver.fewer = 4
        receiver.receive()
        assert connect(link)
        receiver.accept()
        receiver.receive()
        assert link.take_fewer() == 4


def test_what_an_agent_asked_for_ends_with_it(link: AgentLink, path: Path) -> None:
    with receiving(path) as receiver:
        assert connect(link)
        receiver.accept()
        receiver.fewer = 4
        receiver.receive()
        assert link.take_fewer() == 4
        (connection,) = receiver._connections
        connection.close()
    assert link.take_fewer() == 1 and not link.connected


def test_wrapper_that_reads_nothing_stops_no_agent(link: AgentLink, path: Path) -> None:
    with receiving(path) as receiver:
        assert connect(link)
        receiver.accept()
        for number in range(5000):
            receiver.fewer = 1 + number % 2
            receiver.receive()
