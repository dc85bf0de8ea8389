"""What comes over HTTP: requests to the server's health, and spans of trainings to the agent."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from http import HTTPStatus
from typing import Any, cast

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from roofline_agent.marks.listener import MarkListener, PeerProcess
from roofline_agent.marks.receiver import MarkReceiver
from roofline_agent.otlp.ranks import OtlpRanks
from roofline_agent.otlp.receiver import OtlpReceiver, Refused
from roofline_agent.ranks.discovery import Discovery
from roofline_agent.records import Batch
from roofline_agent.uplink.encoding import encode
from roofline_server.access.audit import Audit
from roofline_server.access.tokens import Tokens
from roofline_server.health.health import Health
from roofline_server.health.http import MOST_HEADER_BYTES, answered
from roofline_server.health.routes import ReaderCheck, routes
from roofline_server.ingest.decode import decode, parse

from tests.fakes import add_process
from tests.server.health.conditions import condition

from .ingest import _Stored, memory_folder
from .marks import SentPackets
from .mutate import mutate_message, mutated, mutated_text
from .running import Reach

SECOND = 1_000_000_000
RENEW = 500


class _Well:
    """Stands in for the health of a server that is well."""

    class jobs:
        @staticmethod
        def asked() -> None: ...

    def reasons(self) -> list[str]:
        return []

    async def condition(self) -> Any:
        return condition()


class Http:
    """One request: to the server's health where its first byte is even, else spans of a rank."""

    def __init__(self) -> None:
        self._folder, self._stored, self._fed = memory_folder(), _Stored(), 0
        tokens = Tokens(self._folder)
        secret = tokens.new("reader", "")[1].encode()
        self._answer = routes(cast(Health, _Well()), ReaderCheck(tokens, Audit(self._folder)))
        self._loop = asyncio.new_event_loop()
        self._heads = [
            b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + secret + b"\r\n\r\n",
            b"HEAD /status?x=1 HTTP/1.0\r\nauthorization: Bearer " + secret + b"\r\nAccept: */*\r\n\r\n",
            b"GET /readyz HTTP/1.1\r\n\r\n",
            b"GET /healthz HTTP/1.1\r\nConnection: keep-alive\r\n\r\n",
        ]
        self._spans = _good_spans()
        self._receiver = OtlpReceiver(("127.0.0.1", 0))
        (self._folder / "proc").mkdir()
        add_process(self._folder / "proc", os.getpid(), {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a"})

    def make(self, chance: random.Random) -> list[bytes]:
        if chance.random() < 0.3:
            change = chance.choice((mutated, mutated_text))
            return [b"\0" + change(chance.choice(self._heads), self._heads, chance)]
        message = ExportTraceServiceRequest.FromString(self._spans)
        for _ in range(chance.randint(1, 4)):
            mutate_message(message, chance)
        data = message.SerializeToString()
        return [b"\1" + (mutated(data, [self._spans], chance) if chance.random() < 0.2 else data)]

    def feed(self, parts: list[bytes]) -> Reach:
        read = taken = 0
        for part in parts:
            if part[0] % 2:
                reach = self._take_spans(part[1:])
            else:
                reach = self._loop.run_until_complete(self._ask(part[1:]))
            read, taken = read + reach.read, taken + reach.taken
        return Reach(read, taken)

    async def _ask(self, head: bytes) -> Reach:
        reader = asyncio.StreamReader(limit=MOST_HEADER_BYTES)
        reader.feed_data(head)
        reader.feed_eof()
        response, _ = await answered(reader, self._answer, "", b"")
        status = response.status if response is not None else HTTPStatus.BAD_REQUEST
        return Reach(int(status != HTTPStatus.BAD_REQUEST), int(status == HTTPStatus.OK))

    def _take_spans(self, body: bytes) -> Reach:
        self._fed += 1
        if self._fed % RENEW == 0:
            self._stored.close()
            self._stored = _Stored()
        receiver = MarkReceiver(cast(MarkListener, SentPackets()), Discovery(str(self._folder / "proc")))
        ranks = OtlpRanks(self._receiver, receiver)
        try:
            self._receiver.receive(PeerProcess(os.getpid(), os.getuid()), body)
        except Refused:
            return Reach()
        ranks.receive()
        marks, spans, calls, events, steps = receiver.take(SECOND)
        batch = Batch(SECOND, 2 * SECOND, marks=marks, spans=spans, calls=calls, events=events, steps=steps)
        message = parse(encode(batch, 1))
        decode(message.batch, self._stored.node, self._stored.store.name_ids)
        return Reach(1, int(any((marks, spans, steps))))

    def close(self) -> None:
        self._receiver.close()
        self._loop.close()
        self._stored.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _good_spans() -> bytes:
    """Two steps of a rank, with a phase each."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for name, value in (
        ("nv.dl.rank", 0),
        ("nv.dl.world_size", 1),
        ("nv.dl.training.config.global_batch_size", 8),
    ):
        resource.resource.attributes.add(key=name).value.int_value = value
    resource.resource.attributes.add(key="nv.dl.run.uuid").value.string_value = "run"
    spans = resource.scope_spans.add().spans
    for number in range(2):
        begin = 1_800_000_000_000_000_000 + number * SECOND
        own = bytes([number + 1]) * 8
        phase = {"name": "nv.dl.training.forward", "span_id": bytes([9, number]) * 4, "parent_span_id": own}
        spans.add(**phase, start_time_unix_nano=begin + 1, end_time_unix_nano=begin + 5)
        step = spans.add(name="step", span_id=own, start_time_unix_nano=begin, end_time_unix_nano=begin + 9)
        step.attributes.add(key="nv.dl.training.step").value.int_value = number
    return request.SerializeToString()
