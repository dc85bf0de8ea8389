"""Network benchmarks in messages of the wire: orders from commands, results of commands from reports."""

from __future__ import annotations

from typing import Any

from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import models_pb2

from .messages import BenchReport, MeasureOrder, ServeOrder


def order(command: Any, here: str) -> ServeOrder | MeasureOrder | None:
    """What a command asks of a network benchmark; None: nothing. here: hostname of this node."""
    kind = command.WhichOneof("kind")
    if kind == "serve_net":
        s = command.serve_net
        return ServeOrder(s.key, s.seconds, _ends(s))
    if kind == "measure_net":
        m = command.measure_net
        ports = (m.tcp_port, m.grpc_port)
        return MeasureOrder(m.key, here, m.host, tuple(m.addresses), *ports, m.seconds, m.quick, _ends(m))
    return None


def is_for(command: Any, agent: str) -> bool:
    """Whether the ticket in an order is for this agent at this end."""
    if command.WhichOneof("kind") == "serve_net":
        return bool(command.serve_net.to_agent == agent)
    return bool(command.measure_net.from_agent == agent)


def _ends(ticket: Any) -> str:
    return f"{ticket.from_agent} {ticket.to_agent}"


def result(number: int, report: BenchReport) -> Any:
    """The CommandResult with this report."""
    message = pb.CommandResult(id=number, done=report.done, progress=report.progress)
    message.reason = report.error or "\n".join(report.notes)
    if report.serving:
        message.serving.CopyFrom(pb.NetServing(**report.serving._asdict()))
    if report.result:
        spread = models_pb2.Spread(**report.result.spread._asdict())
        message.net.CopyFrom(models_pb2.NetResult(**{**report.result._asdict(), "spread": spread}))
    return message
