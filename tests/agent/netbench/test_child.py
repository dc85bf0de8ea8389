"""Both ends as real processes: they measure, and none of them outlives what it was started for."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from roofline_agent.calibrate.records import Ceiling
from roofline_agent.netbench import rpc
from roofline_agent.netbench.bench import NetBench
from roofline_agent.netbench.child import Child, explain
from roofline_agent.netbench.errors import NetBenchError
from roofline_agent.netbench.payloads import MIXED
from roofline_agent.netbench.records import Measure, Said, Serve, Serving
from roofline_agent.netbench.tcp import MIN_TRIPS
from roofline_agent.netbench.workers import Workers

from tests.fakes import wait_for

KEY = "secret"
PATIENCE_S = 60.0


class Heard:
    """What a child says, in order."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Said] = queue.SimpleQueue()

    def __call__(self, said: Said) -> None:
        self._queue.put(said)

    def next(self) -> Said:
        return self._queue.get(timeout=PATIENCE_S)

    def last(self) -> Said:
        while not ((said := self.next()).done or said.error):
            pass
        return said

    def result(self) -> Said:
        while not (said := self.next()).result:
            assert not said.error, said.error
        return said


class Bench:
    """A serving end and what is started against it."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.heard = Heard()
        self.serve = self.start(Serve(KEY, 60), self.heard)
        said = self.heard.next()
        assert said.serving, said
        self.serving: Serving = said.serving

    def start(self, order: Serve | Measure, heard: Heard) -> Child:
        self.children.append(Child(order, heard))
        return self.children[-1]

    def order(self, **changes: Any) -> Measure:
        ports = (self.serving.tcp_port, self.serving.grpc_port)
        return Measure(KEY, "a", "localhost", self.serving.addresses, *ports, 0.1, True)._replace(**changes)

    def closed(self) -> bool:
        """Nobody listens at the ports any more."""
        for port in (self.serving.tcp_port, self.serving.grpc_port):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return False
        return True


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    for child in made.children:
        child.stop()
        child.join(60)


def test_both_ends_measure_and_end(bench: Bench) -> None:
    heard = Heard()
    bench.start(bench.order(), heard)
    first = heard.next()
    assert first.progress == "1 of 7: tcp.latency"
    last = heard.last()
    assert last.done, last.error
    assert {c.name for c in last.ceilings} == {"net.tcp", "net.grpc", "net.tcp.latency", "net.grpc.latency"}
    assert bench.heard.last() == Said(done=True)
    wait_for(bench.closed)


def test_serving_ends_with_the_measuring_process(bench: Bench) -> None:
    heard = Heard()
    measuring = bench.start(bench.order(quick=False), heard)
    heard.result()
    measuring._process.kill()
    assert heard.last().error == explain(-signal.SIGKILL, "")
    assert bench.heard.last() == Said(done=True)
    wait_for(bench.closed)


def test_measuring_ends_with_the_serving_process(bench: Bench) -> None:
    heard = Heard()
    bench.start(bench.order(quick=False), heard)
    heard.result()
    bench.serve._process.kill()
    assert "has gone" in heard.last().error
    assert "SIGKILL" in bench.heard.last().error


def test_stop_ends_both(bench: Bench) -> None:
    heard = Heard()
    measuring = bench.start(bench.order(quick=False), heard)
    heard.result()
    measuring.stop()
    assert heard.last() == Said(error="it was stopped")
    assert bench.heard.last() == Said(done=True)
    wait_for(bench.closed)


def test_workers_pull_and_push_until_one_is_lost() -> None:
    server, port = rpc.serve(KEY)
    workers = Workers("127.0.0.1", port, KEY, 2)
    try:
        for serialized in (False, True):
            ends = workers.work(MIXED, serialized, 0.1)
            assert len(ends) == 2
            assert all(len(one) >= MIN_TRIPS and one == sorted(one) and len(one) % 2 == 0 for one in ends)
        server.stop(None).wait()
        with pytest.raises(NetBenchError, match="gRPC failed"):
            workers.work(MIXED, False, 0.1)
        for child in workers._children:
            child.kill()
        with pytest.raises(NetBenchError, match="has ended"):
            workers.work(MIXED, False, 0.1)
    finally:
        workers.close()


def test_killed_agent_takes_its_child_with_it(tmp_path: Path) -> None:
    """The child of a process that is killed reads the end of its pipe."""
    code = (
        "import time; from roofline_agent.netbench.child import Child; from roofline_agent.netbench.records "
        "import Serve; child = Child(Serve('k', 60), lambda said: print(child._process.pid, flush=True)); "
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(60)


def test_another_key_measures_nothing(bench: Bench) -> None:
    heard = Heard()
    bench.start(bench.order(key="another", addresses=()), heard)
    assert "cannot be reached" in heard.last().error


def test_the_key_is_in_no_command_line(bench: Bench) -> None:
    assert KEY not in " ".join(psutil.Process(bench.serve._process.pid).cmdline())
    assert KEY not in Path(f"/proc/{bench.serve._process.pid}/environ").read_text()


def test_nobody_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    Child(Serve(KEY, 0.2), heard)
    assert heard.next().serving
    assert "nobody came" in heard.last().error


def test_exits_in_words() -> None:
    assert "SIGKILL; perhaps for memory" in explain(-9, "")
    assert explain(1, "Traceback\nModuleNotFoundError: x").endswith("status 1: ModuleNotFoundError: x")


# -- one at a time -----------------------------------------------------------------------------------


class Standing:
    """A child that does nothing until it is told."""

    def __init__(self, order: Serve | Measure, say: Any) -> None:
        self.order, self.say, self.stopped = order, say, False

    def stop(self) -> None:
        self.stopped = True
        self.say(Said(error="it was stopped"))

    def join(self, seconds: float) -> None:
        pass


class Desk:
    def __init__(self) -> None:
        self.kept: list[tuple[Ceiling, ...]] = []
        self.started: list[Standing] = []
        self.bench = NetBench(self.kept.append, self._start)  # type: ignore[arg-type]

    def _start(self, order: Serve | Measure, say: Any) -> Standing:
        self.started.append(Standing(order, say))
        return self.started[-1]


MEASURE = Measure("k", "a", "b", (), 1, 2, 0, False)
CEILING = Ceiling("net.tcp", "network", "network", "", 0, 1.0, "byte/s", 0.0, "how", 5, peer="b")


def test_an_agent_is_at_one_benchmark_at_a_time() -> None:
    desk, said = Desk(), list[Said]()
    desk.bench.begin(Serve("k", 9), said.append)
    for other in (Serve("other", 9), MEASURE._replace(key="other"), Serve("k", 9)):
        desk.bench.begin(other, said.append)
        assert said.pop().error.startswith("busy")
    desk.bench.begin(MEASURE, said.append)  # the same one over loopback
    assert len(desk.started) == 2 and said == []
    for child in desk.started:
        child.say(Said(done=True))
    desk.bench.begin(Serve("other", 9), said.append)
    assert len(desk.started) == 3


def test_ceilings_are_kept_before_the_end_is_said() -> None:
    desk, said = Desk(), list[Said]()
    desk.bench.begin(MEASURE, lambda one: said.append(one) or (not one.done or desk.kept or said.clear()))
    desk.started[0].say(Said(ceilings=(CEILING,), done=True))
    assert desk.kept == [(CEILING,)] and said[-1].done


def test_ceilings_that_cannot_be_kept_are_a_failure() -> None:
    def full(new: Any) -> None:
        raise OSError("no space left")

    desk, said = Desk(), list[Said]()
    desk.bench = NetBench(full, desk._start)  # type: ignore[arg-type]
    desk.bench.begin(MEASURE, said.append)
    desk.started[0].say(Said(ceilings=(CEILING,), done=True))
    assert not said[-1].done and "no space left" in said[-1].error


def test_stop_needs_the_key_that_runs() -> None:
    desk = Desk()
    desk.bench.begin(Serve("k", 9), lambda said: None)
    desk.bench.stop("other")
    assert not desk.started[0].stopped
    desk.bench.stop("k")
    assert desk.started[0].stopped
    desk.bench.begin(Serve("n", 9), lambda said: None)
    desk.bench.stop()
    assert desk.started[1].stopped


def test_a_process_that_cannot_be_started_is_said() -> None:
    def none(order: Any, say: Any) -> Any:
        raise OSError(os.strerror(12))

    said = list[Said]()
    NetBench(lambda new: None, none).begin(MEASURE, said.append)
    assert "cannot be started" in said[0].error
