"""Plain TCP from the sending end: the limit that nothing above it can pass."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import handshake
from .errors import NetBenchError
from .rates import REPEATS, Rates, over

CONNECT_S = 3.0
WARM = 0.25  # share of a measurement that is not counted: slow start, and what a shaper lets through at first
# In round trips, where these take long: until slow start has filled any path, and of each window.
WARM_TRIPS, WINDOW_TRIPS = 15, 5
MIN_TRIPS = 5
PATIENCE = 10.0  # a round trip may take so many seconds
NO_LINGER = struct.pack("ii", 1, 0)


class ReceivingEnd:
    """The other end, by the address at which it answered, with the control connection to it."""

    def __init__(self, address: str, port: int, ticket: str) -> None:
        """Raises OSError or handshake.Closed."""
        self.address = address
        self._port = port
        self._ticket = ticket
        self._control = self.connect("control")
        self._control.settimeout(PATIENCE)
        # A name may have several: all that follows goes the same way.
        self.address = str(self._control.getpeername()[0])

    def connect(self, what: str, **more: Any) -> socket.socket:
        return handshake.connect(self.address, self._port, self._ticket, CONNECT_S, **{"for": what}, **more)

    def count(self) -> tuple[int, int]:
        """How many bytes its sinks have received, and when it looked (ns of its own clock)."""
        handshake.send(self._control, {"ask": "count"})
        answer = handshake.receive(self._control)
        return int(answer["bytes"]), int(answer["ns"])

    def bye(self) -> None:
        handshake.send(self._control, {"ask": "bye"})
        self._control.close()

    @property
    def is_here(self) -> bool:
        """The other end has the address of this one: loopback, not a network."""
        return bool(self._control.getsockname()[0] == self.address)


def find(host: str, addresses: Sequence[str], port: int, ticket: str) -> ReceivingEnd:
    """The other end at the first of the addresses that answers. No other is tried, nor what its name means
    here: the server knows these, the name and the port are the other end's own word.

    Raises NetBenchError that says what was tried.
    """
    tried = []
    for address in dict.fromkeys(addresses):
        try:
            return ReceivingEnd(address, port, ticket)
        except TimeoutError:
            tried.append(f"{address} (no answer in {CONNECT_S:g} s)")
        except (OSError, handshake.Closed, UnicodeError) as error:
            tried.append(f"{address} ({getattr(error, 'strerror', None) or error})")
    raise NetBenchError(
        f"{host} cannot be reached at port {port}: tried {', '.join(tried) or 'nothing'}; look whether a "
        "firewall between the two nodes closes the ports from 32768 on"
    )


def round_trips(peer: ReceivingEnd, size: int, seconds: float) -> list[float]:
    """Seconds until a message of so many bytes is back, again and again for about `seconds`.

    Raises NetBenchError where one takes longer than the patience there is.
    """
    message, back = os.urandom(size), memoryview(bytearray(size))
    with peer.connect("echo", size=size) as connection:
        connection.settimeout(PATIENCE)

        def trip() -> None:
            connection.sendall(message)
            if not handshake.read_exactly(connection, back):
                raise NetBenchError("the other end closed the connection")

        return repeat(trip, seconds)


def repeat(work: Callable[[], object], seconds: float) -> list[float]:
    """Seconds that each call took: those behind a warm-up, and a few at least."""
    clock = time.perf_counter
    begin = clock()
    warm, end = begin + WARM * seconds, begin + seconds
    times: list[float] = []
    before = begin
    while before < end or (len(times) < MIN_TRIPS and before < begin + PATIENCE):
        work()
        now = clock()
        if before >= warm or now >= end:
            times.append(now - before)
        before = now
    return times


def bandwidth(peer: ReceivingEnd, streams: int, seconds: float, trip_s: float = 0.0) -> Rates:
    """Bytes a second that the other end received over so many connections, in consecutive windows, for about
    `seconds`, or longer where a round trip takes so long (trip_s).

    It counts and looks at its own clock, so what waits in a queue on the way is in no window.
    """
    senders = [_Stream(peer) for _ in range(streams)]
    try:
        for sender in senders:
            sender.start()
        time.sleep(max(WARM * seconds, WARM_TRIPS * trip_s))
        found = [peer.count()]
        for _ in range(REPEATS):
            time.sleep(max((1 - WARM) * seconds / REPEATS, WINDOW_TRIPS * trip_s))
            found.append(peer.count())
    finally:
        for sender in senders:
            sender.stop()
    if broken := next((sender.error for sender in senders if sender.error), ""):
        raise NetBenchError(f"a stream broke: {broken}")
    pairs = itertools.pairwise(found)
    return over([(after[0] - before[0], (after[1] - before[1]) / 1e9) for before, after in pairs])


class _Stream(threading.Thread):
    """Sends until it is closed."""

    def __init__(self, peer: ReceivingEnd) -> None:
        super().__init__(daemon=True)
        self._connection = peer.connect("sink")
        self._halt = False
        self.error = ""

    def run(self) -> None:
        chunk = os.urandom(handshake.CHUNK)
        try:
            while not self._halt:
                self._connection.sendall(chunk)
        except OSError as error:
            if not self._halt:
                self.error = error.strerror or str(error)

    def stop(self) -> None:
        self._halt = True
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        if self.is_alive():
            self.join(PATIENCE)
        # What is still queued is dropped: the next measurement needs an empty path.
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self._connection.close()
