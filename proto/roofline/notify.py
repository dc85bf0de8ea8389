"""Tells systemd how a service does (sd_notify(3)): ready, stopping, alive, its status. Without it nothing."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping

READY_S = 5.0  # that this one message may wait: without it systemd would end the service


class ServiceManager:
    """Who started this service with `Type=notify`. Never raises: nobody may listen any more."""

    def __init__(
        self, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic
    ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # "@NAME" is a socket of the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = _watchdog_s(environ)
        self._clock = clock
        self._beaten: float | None = None
        self._status = ""

    def ready(self) -> None:
        """The service can be used."""
        self._send("READY=1", patience_s=READY_S)

    def stopping(self) -> None:
        """The service ends, which may take a while."""
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """A line for `systemctl status`."""
        line = " ".join(text.split())
        if line != self._status:
            self._status = line
            self._send(f"STATUS={line}")

    def alive(self) -> None:
        """The service makes progress; without this for as long as the unit's WatchdogSec= it is restarted.

        To be called at least four times in that time, and as often as one likes.
        """
        if not self.watchdog_s:
            return
        now = self._clock()
        if self._beaten is None or now - self._beaten >= self.watchdog_s / 4:
            self._beaten = now
            self._send("WATCHDOG=1")

    def _send(self, text: str, patience_s: float = 0.0) -> None:
        if not self._address:
            return
        with (
            contextlib.suppress(OSError, ValueError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
        ):
            channel.settimeout(patience_s)
            channel.sendto(text.encode(), self._address)


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """Seconds without a sign of life after which the service is restarted; 0: never."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0  # another process of the service is meant
    with contextlib.suppress(ValueError):
        return max(0.0, int(environ.get("WATCHDOG_USEC", "0")) / 1e6)
    return 0.0
