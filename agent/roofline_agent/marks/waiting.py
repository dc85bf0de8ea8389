"""Where the daemon's loop sleeps: until something is due, a process connects, or somebody wakes it."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import time

from ..errors import Unavailable
from .listener import MarkListener
from .receiver import MarkReceiver

log = logging.getLogger(__name__)

# Longest that connected processes are left alone: those that are new or send much, and others.
BUSY_STRIDE_S, CALM_STRIDE_S = 0.125, 1.0
MANY, CALM_READS = 40, 10  # packets of one process at a read (its socket holds some 400), reads with fewer


class Waiting:
    """`wake` may be called by any thread and in a signal handler, all else by one thread."""

    def __init__(self, listener: MarkListener, receiver: MarkReceiver) -> None:
        self._listener, self._receiver = listener, receiver
        self._woken, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poller = select.poll()
        for descriptor in (listener.fileno(), self._woken):
            self._poller.register(descriptor, select.POLLIN)
        self._calm_reads = 0
        self._without_socket = False

    def wake(self) -> None:
        """End the wait that is under way, or the next one."""
        with contextlib.suppress(OSError):
            os.write(self._waker, b"x")

    def until(self, next_ns: int) -> None:
        """Until that moment, the end of a stride, or a process that connects (it may not live for long)."""
        seconds = max(0.0, (next_ns - time.monotonic_ns()) / 1e9)
        if self._receiver.connections:
            self._calm_reads = self._calm_reads + 1 if self._listener.most_waited < MANY else 0
            stride_s = CALM_STRIDE_S if self._calm_reads > CALM_READS else BUSY_STRIDE_S
            seconds = min(stride_s, seconds)
        # Somebody who cannot be taken in would keep the socket readable and the loop awake.
        self._poller.modify(self._listener.fileno(), 0 if self._listener.full else select.POLLIN)
        if self._poller.poll(1000 * seconds):
            self._receiver.accept()
            self._calm_reads = 0

    def renew_socket(self) -> None:
        """Have a socket that new processes can connect to, even if somebody removed its file."""
        before = self._listener.fileno()
        try:
            if not self._listener.renew():
                return
        except Unavailable as error:
            if not self._without_socket:
                log.error("ranks that start from now on send no marks: %s", error)
            self._without_socket = True
            return
        log.warning("the socket %s had been removed; it is there again", self._listener.path)
        self._without_socket = False
        self._poller.unregister(before)
        self._poller.register(self._listener.fileno(), select.POLLIN)
