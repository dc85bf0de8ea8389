"""gRPC from the sending end: echoes, pushes that overlap, and the pulls and pushes of a worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from .errors import NetBenchError
from .payloads import Payload
from .rates import REPEATS, Rates, over
from .rpc import KEY, OPTIONS, Mode, sizes_as_bytes
from .tcp import MIN_TRIPS, PATIENCE, WARM, repeat

READY_S = 5.0
# Calls on their way at once: enough that the next message is there when one is through.
IN_FLIGHT_BYTES, LEAST_IN_FLIGHT, MOST_IN_FLIGHT = 4 << 20, 2, 16


@contextmanager
def channel(address: str, port: int) -> Iterator[grpc.Channel]:
    """A channel that is connected. Raises NetBenchError."""
    target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    with grpc.insecure_channel(target, options=OPTIONS) as opened:
        try:
            grpc.channel_ready_future(opened).result(READY_S)
        except grpc.FutureTimeoutError:
            raise NetBenchError(
                f"the gRPC port {target} of the other end does not answer, though its TCP port does; look "
                "whether a firewall between the two nodes closes the ports from 32768 on"
            ) from None
        yield opened


class Caller:
    """Calls of one mode over one channel. Everything raises NetBenchError."""

    def __init__(self, opened: grpc.Channel, key: str, mode: Mode) -> None:
        self._mode = mode
        self._metadata = ((KEY, key),)
        self._methods = {name: mode.method(opened, name) for name in ("Echo", "Push", "Pull")}

    def _call(self, name: str, request: Any) -> Any:
        try:
            return self._methods[name](request, metadata=self._metadata, timeout=PATIENCE)
        except grpc.RpcError as error:
            raise _failed(error) from None

    def echoes(self, payload: Payload, seconds: float) -> list[float]:
        """Seconds until a payload is back, again and again."""
        message = self._mode.payload(payload.sizes)
        return repeat(lambda: self._call("Echo", message), seconds)

    def pushes(self, payload: Payload, seconds: float) -> Rates:
        """Pushes a second in each of some bursts, of which one more, not counted, is the first."""
        message = self._mode.payload(payload.sizes)
        pipeline = _Pipeline(in_flight(payload.message_bytes))

        def push() -> Any:
            return self._methods["Push"].future(message, metadata=self._metadata, timeout=PATIENCE)

        stop = time.monotonic() + seconds + PATIENCE
        pipeline.burst(push, WARM * seconds)
        found = [pipeline.burst(push, (1 - WARM) * seconds / REPEATS)]
        while len(found) < REPEATS and time.monotonic() < stop:
            found.append(pipeline.burst(push, (1 - WARM) * seconds / REPEATS))
        return over(found)

    def work(self, payload: Payload, seconds: float) -> list[int]:
        """When each pull and each push of a worker had ended, ns: variables there, gradients back."""
        message, wanted = self._mode.payload(payload.sizes), sizes_as_bytes(payload.sizes)
        ends: list[int] = []

        def end() -> None:
            ends.append(time.monotonic_ns())

        stop = time.monotonic() + seconds
        while time.monotonic() < stop or (len(ends) < MIN_TRIPS and time.monotonic() < stop + PATIENCE):
            self._call("Pull", wanted)
            end()
            self._call("Push", message)
            end()
        return ends


def in_flight(message_bytes: int) -> int:
    """How many calls are on their way at once."""
    return max(LEAST_IN_FLIGHT, min(MOST_IN_FLIGHT, IN_FLIGHT_BYTES // max(1, message_bytes)))


class _Pipeline:
    """Keeps a number of calls on their way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._room = threading.Semaphore(most)
        self._failure: grpc.RpcError | None = None

    def burst(self, call: Callable[[], Any], seconds: float) -> tuple[int, float]:
        """How many calls, in how many seconds, from the first that begins to the last that ends.

        Counted so, none is on its way at either end: calls that overlap end in bunches, and a window between
        two ends would hold more of them than the network carried in it.
        """
        begin, count = time.monotonic(), 0
        while count == 0 or time.monotonic() < begin + seconds:
            self._room.acquire()
            if self._failure is not None:
                self._room.release()
                break
            call().add_done_callback(self._done)
            count += 1
        for _ in range(self._most):
            self._room.acquire()
        passed = time.monotonic() - begin
        for _ in range(self._most):
            self._room.release()
        if self._failure is not None:
            raise _failed(self._failure)
        return count, passed

    def _done(self, future: Any) -> None:
        self._failure = self._failure or future.exception()
        self._room.release()


def warm_until(begin_ns: int, seconds: float) -> int:
    """From when on ends are counted, ns."""
    return begin_ns + int(WARM * seconds * 1e9)


def _failed(error: Any) -> NetBenchError:
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return NetBenchError(f"one call takes longer than {PATIENCE:g} s")
    return NetBenchError(f"gRPC failed: {error.details() or error.code()}")
