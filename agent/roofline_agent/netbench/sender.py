"""The sending end: measures what is planned, one after the other, and reports each result as it is done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import grpc

from . import handshake, tcp
from .calls import Caller, channel, in_flight, warm_until
from .ceilings import MeasuredResult, ceilings, disturbed
from .errors import NetBenchError
from .messages import BenchReport, MeasureOrder, NetResult
from .payloads import Payload
from .plan import QUICK_SECONDS, SECONDS, BenchStep, plan, too_long
from .rates import REPEATS, medians, rates, spread
from .rpc import MODES
from .workers import Workers

LEAST_S, MOST_S = 0.1, 10.0  # of one measurement
MOST_WORKERS = 4
LONGEST_TRIP_S = 0.5  # that measurements are made longer for


def measure(order: MeasureOrder, report: Callable[[BenchReport], None]) -> None:
    """Everything, or NetBenchError. What this network is too slow for becomes a note."""
    default = QUICK_SECONDS if order.quick else SECONDS
    seconds = min(MOST_S, max(LEAST_S, order.seconds)) if order.seconds else default
    peer = tcp.find(order.host, order.addresses, order.tcp_port, order.ticket)
    key = handshake.key_of_calls(order.ticket)
    with ExitStack() as stack:
        opened = stack.enter_context(channel(peer.address, order.grpc_port))
        steps = plan(order.quick)
        count = min(MOST_WORKERS, max(2, os.cpu_count() or 1))
        workers = Workers(peer.address, order.grpc_port, key, count)
        stack.callback(workers.close)
        session = BenchSession(peer, opened, workers, key, seconds)
        for at, step in enumerate(steps, 1):
            report(BenchReport(progress=f"{at} of {len(steps)}: {step.name}"))
            for result in session.take(step):
                report(BenchReport(result=result))
    found = ceilings(session.measured, order.host, peer.is_here)
    if peer.is_here:
        session.notes.insert(0, f"{order.host} was reached over loopback, not a network, but its limit here")
    peer.bye()
    report(BenchReport(ceilings=found, notes=(*session.notes, *disturbed(found)), done=True))


class BenchSession:
    """What is open towards the other end, and what has been measured."""

    def __init__(
        self, peer: tcp.ReceivingEnd, opened: grpc.Channel, workers: Workers, key: str, seconds: float
    ) -> None:
        self._peer = peer
        self._callers = {mode.serialized: Caller(opened, key, mode) for mode in MODES}
        self._workers = workers
        self._seconds = seconds
        self.measured: list[MeasuredResult] = []
        self.notes: list[str] = []

    def take(self, step: BenchStep) -> list[NetResult]:
        """The results of a step; none, and a note, where it cannot be had. Raises NetBenchError when the
        other end has gone."""
        speeds = [max(m.repeats) for m in self.measured if m.result.pattern == "bandwidth"]
        expected = too_long(step, max(speeds), self._workers.count) if speeds and max(speeds) > 0 else None
        if expected:
            self.notes.append(f"{step.name} was not measured: one message would take {expected:.0f} s")
            return []
        try:
            found = self._measure(step)
        except NetBenchError as error:
            try:
                self._peer.count()
            except (OSError, handshake.Closed):
                reason = f"the other end has gone in the middle of the benchmark ({error})"
                raise NetBenchError(reason) from None
            self.notes.append(f"{step.name} was not measured: {error}")
            return []
        self.measured += found
        return [one.result for one in found]

    def _measure(self, step: BenchStep) -> list[MeasuredResult]:
        if step.transport == "tcp":
            return [self._round_trips(step) if step.pattern == "latency" else self._streams(step)]
        assert step.payload
        if step.pattern == "latency":
            return [self._echoes(step, step.payload)]
        if step.pattern == "bandwidth":
            return [self._pushes(step, step.payload)]
        return self._parameter_server(step, step.payload)

    def _round_trips(self, step: BenchStep) -> MeasuredResult:
        try:
            times = tcp.round_trips(self._peer, step.message_bytes, self._seconds)
        except (OSError, handshake.Closed) as error:
            raise NetBenchError(f"TCP: {getattr(error, 'strerror', None) or error}") from None
        size = "1 byte" if step.message_bytes == 1 else f"{step.message_bytes} bytes"
        return _measured(step, medians(times), "s", f"round trip of {size} over TCP, {_groups(times)}")

    def _streams(self, step: BenchStep) -> MeasuredResult:
        try:
            found = tcp.bandwidth(self._peer, step.streams, self._seconds, self._trip_s())
        except (OSError, handshake.Closed) as error:
            raise NetBenchError(f"TCP: {error}") from None
        streams = "1 stream" if step.streams == 1 else f"{step.streams} streams"
        method = f"{streams} of TCP, counted by the receiver in {len(found.each)} windows"
        return _measured(step, found.each, "byte/s", method, found.whole)

    def _trip_s(self) -> float:
        """The shortest round trip of one byte; 0: not known."""
        trips = [min(m.repeats) for m in self.measured if m.result.name == "tcp.latency"]
        return min(LONGEST_TRIP_S, *trips) if trips else 0.0

    def _echoes(self, step: BenchStep, payload: Payload) -> MeasuredResult:
        times = self._callers[step.serialized].echoes(payload, self._seconds)
        method = f"round trip of {_describe(step, payload)}, {_groups(times)}"
        return _measured(step, medians(times), "s", method)

    def _pushes(self, step: BenchStep, payload: Payload) -> MeasuredResult:
        calls = self._callers[step.serialized].pushes(payload, self._seconds)
        method = (
            f"{_describe(step, payload)} in one direction, {in_flight(step.message_bytes)} calls on their "
            f"way, {len(calls.each)} bursts"
        )
        found = [rate * step.message_bytes for rate in calls.each]
        return _measured(step, found, "byte/s", method, calls.whole * step.message_bytes)

    def _parameter_server(self, step: BenchStep, payload: Payload) -> list[MeasuredResult]:
        """The parameter server's calls a second, and bytes a second, over all workers."""
        begin = time.monotonic_ns()
        ends = self._workers.work(payload, step.serialized, self._seconds)
        calls = rates(ends, warm_until(begin, self._seconds))
        if not calls:
            raise NetBenchError("too few calls ended in time; give more --seconds")
        method = f"{len(ends)} worker processes in turn pulling and pushing {_describe(step, payload)}"
        traffic = [rate * step.message_bytes for rate in calls]
        of_bytes = _measured(step, traffic, "byte/s", f"{method}, both directions together")
        renamed = of_bytes.result._replace(name=f"{step.name}.bytes")
        return [_measured(step, calls, "1/s", method), of_bytes._replace(result=renamed)]


def _describe(step: BenchStep, payload: Payload) -> str:
    mode = "packed by protobuf" if step.serialized else "as they are"
    buffers = f"{len(payload.sizes)} {payload.buffers} buffers"
    return f"{buffers} ({payload.scheme}, {step.message_bytes} bytes) over gRPC from Python, {mode}"


def _groups(times: Sequence[float]) -> str:
    return f"median of {len(times)} in {min(REPEATS, len(times))} groups"


def _measured(
    step: BenchStep, values: Sequence[float], unit: str, method: str, whole: float | None = None
) -> MeasuredResult:
    over = spread(values)
    payload = step.payload
    result = NetResult(
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
    return MeasuredResult(result, tuple(values), whole)
