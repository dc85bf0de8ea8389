"""The sending end: measures what is planned, one after the other, and says each result as it is done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import grpc

from . import handshake, tcp
from .calls import Caller, channel, in_flight, warm_until
from .ceilings import Measured, ceilings, disturbed
from .errors import NetBenchError
from .plan import QUICK_SECONDS, SECONDS, Step, plan, too_long
from .rates import REPEATS, medians, rates, spread
from .records import Measure, Result, Said
from .rpc import MODES
from .workers import Workers

LEAST_S, MOST_S = 0.1, 10.0  # of one measurement
MOST_WORKERS = 4


def measure(order: Measure, say: Callable[[Said], None]) -> None:
    """Everything, or NetBenchError. What this network is too slow for becomes a note."""
    default = QUICK_SECONDS if order.quick else SECONDS
    seconds = min(MOST_S, max(LEAST_S, order.seconds)) if order.seconds else default
    peer = tcp.find(order.host, order.addresses, order.tcp_port, order.key)
    with ExitStack() as stack:
        opened = stack.enter_context(channel(peer.address, order.grpc_port))
        steps = plan(order.quick)
        count = min(MOST_WORKERS, max(2, os.cpu_count() or 1))
        workers = Workers(peer.address, order.grpc_port, order.key, count)
        stack.callback(workers.close)
        session = Session(peer, opened, workers, order.key, seconds)
        for at, step in enumerate(steps, 1):
            say(Said(progress=f"{at} of {len(steps)}: {step.name}"))
            for result in session.take(step):
                say(Said(result=result))
    found = ceilings(session.measured, order.host, peer.is_here)
    if peer.is_here:
        session.notes.insert(
            0, f"{order.host} was reached over loopback: this is no network, but its limit here"
        )
    peer.bye()
    say(Said(ceilings=found, notes=(*session.notes, *disturbed(found)), done=True))


class Session:
    """What is open towards the other end, and what has been measured."""

    def __init__(
        self, peer: tcp.Peer, opened: grpc.Channel, workers: Workers, key: str, seconds: float
    ) -> None:
        self._peer = peer
        self._callers = {mode.serialized: Caller(opened, key, mode) for mode in MODES}
        self._workers = workers
        self._seconds = seconds
        self.measured: list[Measured] = []
        self.notes: list[str] = []

    def take(self, step: Step) -> list[Result]:
        """The results of a step; none, and a note, where it cannot be had. Raises NetBenchError when the
        other end has gone."""
        speeds = [m.result.value for m in self.measured if m.result.pattern == "bandwidth"]
        expected = too_long(step, max(speeds), self._workers.count) if speeds and max(speeds) > 0 else None
        if expected:
            self.notes.append(f"{step.name} was not measured: one message would take {expected:.0f} s")
            return []
        try:
            found = self._measure(step)
        except NetBenchError as error:
            self._still_there(error)
            self.notes.append(f"{step.name} was not measured: {error}")
            return []
        self.measured += found
        return [one.result for one in found]

    def _still_there(self, error: NetBenchError) -> None:
        try:
            self._peer.count()
        except (OSError, handshake.Closed):
            raise NetBenchError(f"the other end has gone in the middle of the benchmark ({error})") from None

    def _measure(self, step: Step) -> list[Measured]:
        if step.transport == "tcp":
            return [self._trips(step) if step.pattern == "latency" else self._streams(step)]
        if step.pattern == "latency":
            return [self._echoes(step)]
        return [self._pushes(step)] if step.pattern == "bandwidth" else self._server(step)

    def _trips(self, step: Step) -> Measured:
        try:
            times = tcp.round_trips(self._peer, step.message_bytes, self._seconds)
        except OSError as error:
            raise NetBenchError(f"TCP: {error.strerror or error}") from None
        size = "1 byte" if step.message_bytes == 1 else f"{step.message_bytes} bytes"
        return _measured(step, medians(times), "s", f"round trip of {size} over TCP{_of(times)}")

    def _streams(self, step: Step) -> Measured:
        try:
            found = tcp.bandwidth(self._peer, step.streams, self._seconds)
        except (OSError, handshake.Closed) as error:
            raise NetBenchError(f"TCP: {error}") from None
        streams = "1 stream" if step.streams == 1 else f"{step.streams} streams"
        method = f"{streams} of TCP, counted by the receiver in {len(found.each)} windows"
        return _measured(step, found.each, "byte/s", method, found.whole)

    def _echoes(self, step: Step) -> Measured:
        assert step.payload
        times = self._callers[step.serialized].echoes(step.payload, self._seconds)
        return _measured(step, medians(times), "s", f"round trip of {_what(step)}{_of(times)}")

    def _pushes(self, step: Step) -> Measured:
        assert step.payload
        calls = self._callers[step.serialized].pushes(step.payload, self._seconds)
        at_once = in_flight(step.message_bytes)
        method = f"{_what(step)} in one direction, {at_once} calls on their way, {len(calls.each)} bursts"
        found = [rate * step.message_bytes for rate in calls.each]
        return _measured(step, found, "byte/s", method, calls.whole * step.message_bytes)

    def _server(self, step: Step) -> list[Measured]:
        """The parameter server's calls a second, and bytes a second, over all workers."""
        assert step.payload
        begin = time.monotonic_ns()
        ends = self._workers.work(step.payload, step.serialized, self._seconds)
        calls = _rates(ends, warm_until(begin, self._seconds))
        method = f"{len(ends)} worker processes in turn pulling and pushing {_what(step)}"
        traffic = [rate * step.message_bytes for rate in calls]
        of_bytes = _measured(step, traffic, "byte/s", f"{method}, both directions together")
        renamed = of_bytes.result._replace(name=f"{step.name}.bytes")
        return [_measured(step, calls, "1/s", method), of_bytes._replace(result=renamed)]


def _rates(ends: Sequence[Sequence[int]], begin_ns: int) -> list[float]:
    found = rates(ends, begin_ns)
    if not found:
        raise NetBenchError("too few calls ended in time; give more --seconds")
    return found


def _what(step: Step) -> str:
    assert step.payload
    mode = "packed by protobuf" if step.serialized else "as they are"
    buffers = f"{len(step.payload.sizes)} {step.payload.buffers} buffers"
    return f"{buffers} ({step.payload.scheme}, {step.message_bytes} bytes) over gRPC from Python, {mode}"


def _of(times: Sequence[float]) -> str:
    return f", median of {len(times)} in {min(REPEATS, len(times))} groups"


def _measured(
    step: Step, values: Sequence[float], unit: str, method: str, whole: float | None = None
) -> Measured:
    over = spread(values)
    payload = step.payload
    result = Result(
        name=step.name,
        transport=step.transport,
        pattern=step.pattern,
        payload=payload.scheme if payload else "",
        buffers=step.buffers,
        buffer_count=len(payload.sizes) if payload else 0,
        message_bytes=step.message_bytes,
        serialized=step.serialized,
        value=over.p50,
        unit=unit,
        spread=over,
        method=method,
        time_ns=time.time_ns(),
    )
    return Measured(result, tuple(values), whole)
