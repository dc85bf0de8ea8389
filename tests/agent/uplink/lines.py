"""A server that follows a script, and an exporter on a spool that talks to it."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline.v1 import ingest_pb2_grpc
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.machine import Machine
from roofline_agent.records import Batch, SourceStatus
from roofline_agent.uplink.encoding import Greeting, encode
from roofline_agent.uplink.exporter import Exporter
from roofline_agent.uplink.spool import Spool


class Script(ingest_pb2_grpc.IngestServicer):
    """A server that notes what comes and answers what `answer` says."""

    def __init__(
        self,
        answer: Callable[[Any], list[Any]],
        acked: int = 0,
        lineages: bool = False,
        exact_acks: bool = False,
        hold_ms: int = 0,
    ) -> None:
        """lineages, exact_acks: whether this server knows them."""
        self.exact_acks, self.hold_ms = exact_acks, hold_ms
        self.answer = answer
        self.lineages = lineages
        self.of_lineage: list[tuple[str, int]] = []
        self.acked = acked
        self.hellos: list[Any] = []
        self.batches: list[int] = []
        self.others: list[Any] = []
        self._outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def say(self, message: Any) -> None:
        self._outgoing.put(message)

    def Stream(self, requests: Iterator[Any], context: Any) -> Iterator[Any]:
        outgoing = self._outgoing = queue.SimpleQueue()
        context.add_callback(lambda: outgoing.put(None))
        self._pool.submit(self._read, requests, outgoing)
        while (message := outgoing.get()) is not None:
            yield message

    _pool = futures.ThreadPoolExecutor(8)

    def _read(self, requests: Iterator[Any], outgoing: queue.SimpleQueue[Any]) -> None:
        try:
            for message in requests:
                kind = message.WhichOneof("kind")
                if kind == "hello":
                    self.hellos.append(message.hello)
                    if len(self.hellos) == 1 and self.acked is not None:
                        lineage = message.hello.lineage if self.lineages else ""
                        welcome = pb.Welcome(
                            acked=self.acked,
                            server="t",
                            lineage=lineage,
                            exact_acks=self.exact_acks,
                            hold_ms=self.hold_ms,
                        )
                        outgoing.put(pb.ServerMessage(welcome=welcome))
                elif kind == "batch":
                    self.of_lineage.append((message.lineage, message.batch.sequence))
                    self.batches.append(message.batch.sequence)
                    for answer in self.answer(message.batch):
                        outgoing.put(answer)
                else:
                    self.others.append(message)
            outgoing.put(None)
        except grpc.RpcError:
            outgoing.put(None)


def ack(batch: Any) -> list[Any]:
    return [pb.ServerMessage(ack=pb.Ack(sequence=batch.sequence))]


def ack_alone(batch: Any) -> list[Any]:
    return [pb.ServerMessage(ack=pb.Ack(kept=[batch.sequence]))]


def nothing(batch: Any) -> list[Any]:
    return []


def reject(batch: Any) -> list[Any]:
    return [pb.ServerMessage(rejection=pb.Rejection(sequence=batch.sequence, reason="no"))]


CEILINGS = [Ceiling("dram.triad", "memory", "dram", "", 0, 1e9, "byte/s", 0.01, "how", 5)]
SOURCES = [SourceStatus("process", True), SourceStatus("perf", False, "why", "do", "what", "off by 20 %")]


def serve(script: Script, port: int = 0) -> tuple[Any, int]:
    server = grpc.server(futures.ThreadPoolExecutor(4), options=(("grpc.so_reuseport", 0),))
    ingest_pb2_grpc.add_IngestServicer_to_server(script, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, bound


class Line:
    """A spool, an exporter on it, and servers on one port that come and go."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("roofline_agent.uplink.exporter.RETRY_S", (0.02, 0.1))
        self.spool = Spool(path / "spool.db")
        self.server: Any = None
        self.port = 0
        self.exporter: Any = None
        self.intervals: list[tuple[int, str]] = []
        self.holds: list[int] = []

    def up(self, script: Script) -> Script:
        self.server, self.port = serve(script, self.port)
        return script

    def down(self) -> None:
        self.server.stop(0).wait()

    def start(self) -> None:
        machine = Machine("h", "cpu", 1, 2, 4, 8, "k")
        greeting = Greeting("agent", "instance", "boot", "1.2", machine, CEILINGS, SOURCES, 5)
        server = f"127.0.0.1:{self.port}"
        self.exporter = Exporter(
            server,
            self.spool,
            lambda: greeting._replace(lineage=self.spool.lineage),
            lambda *asked: self.intervals.append(asked),
            hold=self.holds.append,
        )
        self.exporter.start()

    def fill(self, count: int) -> None:
        for _ in range(count):
            sequence = self.spool.next_sequence()
            batch = Batch(10 * sequence, 10 * sequence + 10)
            self.spool.append(sequence, encode(batch, sequence, self.spool.lineage))
        if self.exporter:
            self.exporter.push()

    def close(self) -> None:
        if self.server:
            self.down()
        if self.exporter:
            self.exporter.stop()
            assert not self.exporter.is_alive()
        self.spool.close()
