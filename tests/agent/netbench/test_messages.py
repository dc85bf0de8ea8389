"""What an end reports survives the way to the agent, and from there to the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_agent.netbench import wire
from roofline_agent.netbench.ceilings import ceilings
from roofline_agent.netbench.messages import (
    BenchReport,
    MeasureOrder,
    ServeOrder,
    Serving,
    from_json,
    to_json,
)

from .results import measured

REPORTS = [
    BenchReport(progress="1 of 3"),
    BenchReport(serving=Serving(("10.0.0.1", "fd00::1"), 1, 2)),
    BenchReport(result=measured("tcp.latency", 1.0, 2.0).result),
    BenchReport(ceilings=ceilings([measured("tcp.latency", 1.0)], "b", False), notes=("a", "b"), done=True),
    BenchReport(error="it broke"),
]


@pytest.mark.parametrize("report", REPORTS)
def test_json_and_back(report: BenchReport) -> None:
    assert from_json(json.loads(json.dumps(to_json(report)))) == report


@pytest.mark.parametrize("value", [{"what": 1}, {"serving": {"ports": 1}}, {"result": {}}, 7])
def test_what_no_end_reports_is_refused(value: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        from_json(value)


def test_results_on_the_wire() -> None:
    progress, serving, result, done, error = (wire.result(7, report) for report in REPORTS)
    assert (progress.id, progress.progress, progress.done, progress.reason) == (7, "1 of 3", False, "")
    assert list(serving.serving.addresses) == ["10.0.0.1", "fd00::1"]
    assert (serving.serving.tcp_port, serving.serving.grpc_port) == (1, 2)
    assert (result.net.name, result.net.value, result.net.unit) == ("tcp.latency", 1.5, "s")
    assert (result.net.spread.p50, result.net.spread.count) == (1.5, 2)
    assert (done.done, done.reason) == (True, "a\nb")
    assert (error.done, error.reason) == (False, "it broke")


def test_orders_of_commands() -> None:
    ends = {"from_agent": "a", "to_agent": "b"}
    serve = pb.Command(id=1, serve_net=pb.ServeNet(key="k", seconds=9, **ends))
    serving = wire.order(serve, "here")
    assert serving == ServeOrder("k", 9.0, "a b")
    asked = pb.MeasureNet(
        key="k", host="b", addresses=["1", "2"], tcp_port=3, grpc_port=4, quick=True, **ends
    )
    measure = pb.Command(id=1, measure_net=asked)
    found = wire.order(measure, "here")
    assert found == MeasureOrder("k", "here", "b", ("1", "2"), 3, 4, 0.0, True, "a b")
    assert serving and serving.ticket == found.ticket != ServeOrder("k", 9.0, "a c").ticket
    assert [wire.is_for(serve, agent) for agent in ("a", "b")] == [False, True]
    assert [wire.is_for(measure, agent) for agent in ("a", "b")] == [True, False]
    assert wire.order(pb.Command(id=1, set_interval=pb.SetInterval()), "here") is None
