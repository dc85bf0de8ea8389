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
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.child_process import Exit
from roofline_agent.netbench import rpc
from roofline_agent.netbench.bench import NetBench
from roofline_agent.netbench.child import BenchmarkProcess, explain_exit
from roofline_agent.netbench.errors import NetBenchError
from roofline_agent.netbench.messages import BenchReport, MeasureOrder, ServeOrder, Serving
from roofline_agent.netbench.payloads import MIXED
from roofline_agent.netbench.tcp import MIN_TRIPS
from roofline_agent.netbench.workers import Workers

from tests.fakes import wait_for

from .doubles import CEILING, Standing

pytestmark = pytest.mark.slow  # they measure the link of this machine to itself

KEY = "secret"
PATIENCE_S = 60.0


class Reports:
    """What a child reports, in order."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[BenchReport] = queue.SimpleQueue()

    def __call__(self, report: BenchReport) -> None:
        self._queue.put(report)

    def next(self) -> BenchReport:
        return self._queue.get(timeout=PATIENCE_S)

    def last(self) -> BenchReport:
        while not ((report := self.next()).done or report.error):
            pass
        return report

    def result(self) -> BenchReport:
        while not (report := self.next()).result:
            assert not report.error, report.error
        return report


class Bench:
    """A serving end and what is started against it."""

    def __init__(self) -> None:
        self.children: list[BenchmarkProcess] = []
        self.reports = Reports()
        self.serve = self.start(ServeOrder(KEY, 60), self.reports)
        first = self.reports.next()
        assert first.serving, first
        self.serving: Serving = first.serving

    def start(self, order: ServeOrder | MeasureOrder, reports: Reports) -> BenchmarkProcess:
        self.children.append(BenchmarkProcess(order, reports))
        return self.children[-1]

    def order(self, **changes: Any) -> MeasureOrder:
        ports = (self.serving.tcp_port, self.serving.grpc_port)
        return MeasureOrder(KEY, "a", "localhost", self.serving.addresses, *ports, 0.1, True)._replace(
            **changes
        )

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
    reports = Reports()
    bench.start(bench.order(), reports)
    first = reports.next()
    assert first.progress == "1 of 7: tcp.latency"
    last = reports.last()
    assert last.done, last.error
    assert {c.name for c in last.ceilings} == {"net.tcp", "net.grpc", "net.tcp.latency", "net.grpc.latency"}
    assert bench.reports.last() == BenchReport(done=True)
    wait_for(bench.closed)


def test_serving_ends_with_the_measuring_process(bench: Bench) -> None:
    reports = Reports()
    measuring = bench.start(bench.order(quick=False), reports)
    reports.result()
    measuring.kill()
    assert reports.last().error == explain_exit(Exit(-signal.SIGKILL, ""))
    assert bench.reports.last() == BenchReport(done=True)
    wait_for(bench.closed)


def test_measuring_ends_with_the_serving_process(bench: Bench) -> None:
    reports = Reports()
    bench.start(bench.order(quick=False), reports)
    reports.result()
    bench.serve.kill()
    assert "has gone" in reports.last().error
    assert "SIGKILL" in bench.reports.last().error


def test_stop_ends_both(bench: Bench) -> None:
    reports = Reports()
    measuring = bench.start(bench.order(quick=False), reports)
    reports.result()
    measuring.stop()
    assert reports.last() == BenchReport(error="it was stopped")
    assert bench.reports.last() == BenchReport(done=True)
    wait_for(bench.closed)


@pytest.mark.slow
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
        for pid in workers.pids:
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(NetBenchError, match="has ended"):
            workers.work(MIXED, False, 0.1)
    finally:
        workers.close()


def test_killed_agent_takes_its_child_with_it(tmp_path: Path) -> None:
    """The child of a process that is killed reads the end of its pipe."""
    code = (
        "import time; from roofline_agent.netbench.child import BenchmarkProcess\n"
        "from roofline_agent.netbench.messages import ServeOrder\n"
        "child = BenchmarkProcess(ServeOrder('k', 60), lambda report: print(child.pid, flush=True))\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    child.wait(60)


def test_another_key_measures_nothing(bench: Bench) -> None:
    reports = Reports()
    bench.start(bench.order(key="another", addresses=()), reports)
    assert "cannot be reached" in reports.last().error


def test_the_key_is_in_no_command_line(bench: Bench) -> None:
    assert KEY not in " ".join(psutil.Process(bench.serve.pid).cmdline())
    assert KEY not in Path(f"/proc/{bench.serve.pid}/environ").read_text()


def test_nobody_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = Reports()
    BenchmarkProcess(ServeOrder(KEY, 0.2), reports)
    assert reports.next().serving
    assert "nobody came" in reports.last().error


def test_exits_in_words() -> None:
    assert "SIGKILL; perhaps for memory" in explain_exit(Exit(-9, ""))
    assert explain_exit(Exit(1, "Traceback\nModuleNotFoundError: x")).endswith(
        "status 1: ModuleNotFoundError: x"
    )


# -- one at a time -----------------------------------------------------------------------------------


class Desk:
    def __init__(self) -> None:
        self.kept: list[tuple[Ceiling, ...]] = []
        self.started: list[Standing] = []
        self.bench = NetBench(self.kept.append, self._start)  # type: ignore[arg-type]

    def _start(self, order: ServeOrder | MeasureOrder, report: Any) -> Standing:
        self.started.append(Standing(order, report))
        return self.started[-1]


MEASURE = MeasureOrder("k", "a", "b", (), 1, 2, 0, False)


def test_an_agent_is_at_one_benchmark_at_a_time() -> None:
    desk, reports = Desk(), list[BenchReport]()
    desk.bench.begin(ServeOrder("k", 9), reports.append)
    for other in (ServeOrder("other", 9), MEASURE._replace(key="other"), ServeOrder("k", 9)):
        desk.bench.begin(other, reports.append)
        assert reports.pop().error.startswith("busy")
    desk.bench.begin(MEASURE, reports.append)  # the same one over loopback
    assert len(desk.started) == 2 and reports == []
    for child in desk.started:
        child.report(BenchReport(done=True))
    desk.bench.begin(ServeOrder("other", 9), reports.append)
    assert len(desk.started) == 3


def test_ceilings_are_kept_before_the_last_report() -> None:
    desk, reports = Desk(), list[BenchReport]()
    desk.bench.begin(
        MEASURE, lambda one: reports.append(one) or (not one.done or desk.kept or reports.clear())
    )
    desk.started[0].report(BenchReport(ceilings=(CEILING,), done=True))
    assert desk.kept == [(CEILING,)] and reports[-1].done


def test_ceilings_that_cannot_be_kept_are_a_failure() -> None:
    def full(new: Any) -> None:
        raise OSError("no space left")

    desk, reports = Desk(), list[BenchReport]()
    desk.bench = NetBench(full, desk._start)  # type: ignore[arg-type]
    desk.bench.begin(MEASURE, reports.append)
    desk.started[0].report(BenchReport(ceilings=(CEILING,), done=True))
    assert not reports[-1].done and "no space left" in reports[-1].error


def test_stop_needs_the_key_that_runs() -> None:
    desk = Desk()
    desk.bench.begin(ServeOrder("k", 9), lambda report: None)
    desk.bench.stop("other")
    assert not desk.started[0].stopped
    desk.bench.stop("k")
    assert desk.started[0].stopped
    desk.bench.begin(ServeOrder("n", 9), lambda report: None)
    desk.bench.stop()
    assert desk.started[1].stopped


def test_a_process_that_cannot_be_started_is_reported() -> None:
    def none(order: Any, report: Any) -> Any:
        raise OSError(os.strerror(12))

    reports = list[BenchReport]()
    NetBench(lambda new: None, none).begin(MEASURE, reports.append)
    assert "cannot be started" in reports[0].error
