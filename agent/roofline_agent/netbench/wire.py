"""Network benchmarks in messages of the wire: orders from commands, results of commands from what is said."""

from __future__ import annotations

from typing import Any

from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import models_pb2

from .records import Measure, Result, Said, Serve


def order(command: Any, here: str) -> Serve | Measure | None:
    """What a command asks of a network benchmark; None: nothing. here: hostname of this node."""
    kind = command.WhichOneof("kind")
    if kind == "serve_net":
        return Serve(command.serve_net.key, command.serve_net.seconds)
    if kind == "measure_net":
        m = command.measure_net
        ports = (m.tcp_port, m.grpc_port)
        return Measure(m.key, here, m.host, tuple(m.addresses), *ports, m.seconds, m.quick)
    return None


def result(number: int, said: Said) -> Any:
    """The CommandResult that says it."""
    message = pb.CommandResult(id=number, done=said.done, progress=said.progress)
    message.reason = said.error or "\n".join(said.notes)
    if said.serving:
        message.serving.CopyFrom(pb.NetServing(**said.serving._asdict()))
    if said.result:
        message.net.CopyFrom(_net(said.result))
    return message


def _net(found: Result) -> Any:
    return models_pb2.NetResult(**{**found._asdict(), "spread": models_pb2.Spread(**found.spread._asdict())})
