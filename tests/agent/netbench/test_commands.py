"""Network benchmarks on command, over a real stream to a server that the test plays; children are made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_agent.machine import Machine
from roofline_agent.netbench.bench import NetBench
from roofline_agent.netbench.messages import BenchReport, MeasureOrder, ServeOrder, Serving
from roofline_agent.uplink.encoding import Greeting
from roofline_agent.uplink.exporter import Exporter
from roofline_agent.uplink.spool import Spool

from tests.fakes import wait_for

from ..uplink.lines import Line, Script, ack
from .doubles import CEILING, Standing

GREETING = Greeting("agent", "i", "boot", "1", Machine("here", "cpu", 1, 2, 4, 8, "k"), (), (), 5)
ENDS = {"from_agent": "agent", "to_agent": "agent"}
SERVE = pb.Command(id=7, serve_net=pb.ServeNet(key="k", seconds=9, **ENDS))
MEASURE = pb.Command(id=8, measure_net=pb.MeasureNet(key="k", host="b", tcp_port=1, grpc_port=2, **ENDS))


class Commanded:
    """An exporter with a bench of made-up children, connected to a script."""

    def __init__(self, path: Path, line: Line) -> None:
        self.children: list[Standing] = []
        self.script = line.up(Script(ack))
        bench = NetBench(self._keep, self._start)  # type: ignore[arg-type]
        spool = Spool(path / "net.db")
        line.exporter = Exporter(f"127.0.0.1:{line.port}", spool, lambda: GREETING, net_bench=bench)
        self.exporter = line.exporter
        self.exporter.start()
        wait_for(lambda: self.exporter.connected)

    def _keep(self, new: Any) -> None:
        self.exporter.greet_again()

    def _start(self, order: ServeOrder | MeasureOrder, report: Any) -> Standing:
        self.children.append(Standing(order, report))
        return self.children[-1]

    def send(self, command: pb.Command) -> None:
        self.script.say(pb.ServerMessage(command=command))

    def results(self, count: int) -> list[Any]:
        wait_for(lambda: len(self.script.others) >= count)
        return [message.result for message in self.script.others]


@pytest.fixture
def commanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commanded]:
    line = Line(tmp_path, monkeypatch)
    made = Commanded(tmp_path, line)
    yield made
    line.close()
    made.exporter._spool.close()


def test_what_a_child_reports_is_the_answer(commanded: Commanded) -> None:
    commanded.send(SERVE)
    child = wait_for(lambda: commanded.children and commanded.children[0])
    assert child.order == ServeOrder("k", 9, "agent agent")
    child.report(BenchReport(serving=Serving(("10.0.0.1",), 41, 42)))
    child.report(BenchReport(done=True))
    listening, ended = commanded.results(2)
    assert (listening.id, listening.done, listening.serving.grpc_port) == (7, False, 42)
    assert (ended.id, ended.done) == (7, True)


def test_ceilings_are_sent_before_the_end(commanded: Commanded) -> None:
    commanded.send(MEASURE)
    child = wait_for(lambda: commanded.children and commanded.children[0])
    assert child.order.here == "here"
    child.report(BenchReport(ceilings=(CEILING,), notes=("x",), done=True))
    (ended,) = commanded.results(1)
    assert (ended.id, ended.done, ended.reason) == (8, True, "x")
    # On one stream: what came before the answer has come.
    assert len(commanded.script.hellos) == 2


def test_ticket_of_other_agents_is_refused(commanded: Commanded) -> None:
    for kind in (
        {"serve_net": pb.ServeNet(key="k", to_agent="other", from_agent="agent")},
        {"measure_net": pb.MeasureNet(key="k", to_agent="agent", from_agent="other")},
    ):
        commanded.send(pb.Command(id=9, **kind))
    assert {result.reason for result in commanded.results(2)} == {"this ticket is for other agents"}
    assert not commanded.children


def test_stop_needs_the_key(commanded: Commanded) -> None:
    commanded.send(SERVE)
    child = wait_for(lambda: commanded.children and commanded.children[0])
    commanded.send(pb.Command(id=9, stop_net=pb.StopNet(key="other")))
    assert [result.done for result in commanded.results(1)] == [True]
    assert not child.stopped
    commanded.send(pb.Command(id=10, stop_net=pb.StopNet(key="k")))
    wait_for(lambda: child.stopped)


def test_a_lost_server_stops_the_child(commanded: Commanded) -> None:
    commanded.send(MEASURE)
    child = wait_for(lambda: commanded.children and commanded.children[0])
    assert not child.stopped
    commanded.script.say(None)  # the server ends the stream
    wait_for(lambda: child.stopped)
