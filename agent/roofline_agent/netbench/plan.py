"""What is measured, in order. Pure."""

from __future__ import annotations

from typing import NamedTuple

from . import payloads
from .payloads import Payload

SECONDS, QUICK_SECONDS = 0.9, 0.6  # of each measurement, a quarter of it warm-up
TOO_LONG_S = 5.0  # a message that takes longer is not worth the wait


class BenchStep(NamedTuple):
    """One measurement. Of TCP: a message of so many bytes there and back, or a number of streams."""

    transport: str  # "tcp", "grpc"
    pattern: str  # "latency", "bandwidth", "ps"
    payload: Payload | None = None  # of gRPC
    serialized: bool = False
    message_bytes: int = 0
    buffers: str = ""  # of a TCP message: the payload of this size
    streams: int = 1

    @property
    def name(self) -> str:
        parts = [self.transport, self.pattern]
        if self.payload:
            parts.append(self.payload.name)
        elif self.buffers:
            parts.append(self.buffers)
        if self.streams > 1:
            parts.append(str(self.streams))
        return ".".join([*parts, "serialized"] if self.serialized else parts)

    @property
    def there_and_back_bytes(self) -> int:
        """What one call sends over the network, both ways together."""
        return self.message_bytes * (2 if self.pattern == "latency" else 1)


def plan(quick: bool) -> list[BenchStep]:
    """Latency and bandwidth alone, or with it every payload in both modes and the parameter server.

    TCP comes first: what its bandwidth forbids is not tried.
    """
    if quick:
        tcp = [_trip(1), _streams(1), _streams(4)]
        latency = [_call("latency", payloads.SMALL), _call("latency", payloads.LARGE)]
        return [*tcp, *latency, _call("bandwidth", payloads.LARGE), _call("bandwidth", payloads.SKEWED)]
    trips = [_trip(1), _trip(payloads.SMALL.message_bytes, "small")]
    trips.append(_trip(payloads.MEDIUM.message_bytes, "medium"))
    calls = [
        _call(pattern, payload, serialized)
        for pattern in ("latency", "bandwidth")
        for payload in payloads.ALL
        for serialized in (False, True)
    ]
    mixed = (payloads.MIXED, payloads.RANDOM, payloads.SKEWED)
    servers = [_call("ps", payload, serialized) for payload in mixed for serialized in (False, True)]
    return [*trips, *(_streams(count) for count in (1, 2, 4, 8)), *calls, *servers]


def too_long(step: BenchStep, bytes_per_second: float, workers: int) -> float | None:
    """Seconds that one message would take at this bandwidth, where that is too long."""
    at_once = workers if step.pattern == "ps" else 1
    seconds = step.there_and_back_bytes * at_once / bytes_per_second
    return seconds if seconds > TOO_LONG_S else None


def _trip(message_bytes: int, buffers: str = "") -> BenchStep:
    return BenchStep("tcp", "latency", message_bytes=message_bytes, buffers=buffers)


def _streams(count: int) -> BenchStep:
    return BenchStep("tcp", "bandwidth", streams=count)


def _call(pattern: str, payload: Payload, serialized: bool = False) -> BenchStep:
    return BenchStep("grpc", pattern, payload, serialized, payload.message_bytes, payload.buffers)
