"""Looks at a data directory, and at the server that works there, from outside of both."""

from __future__ import annotations

import contextlib
import http.client
import socket
from pathlib import Path

from ..errors import Unavailable
from . import disk, running
from .condition import Condition, from_json
from .report import Status


def look(data: Path, timeout_s: float) -> Status:
    """Raises Unavailable where this user may not read it."""
    try:
        exists = data.is_dir()
        locked = running.is_locked(data)
    except OSError as error:
        raise Unavailable(
            f"cannot read the data directory {data}: {error.strerror}; run this as the user of the server"
        ) from None
    return Status(
        data,
        exists,
        locked,
        running.read(data),
        _condition(data, timeout_s) if locked else None,
        disk.used_bytes(data),
        *disk.room(data),
        disk.quarantined(data),
    )


class _Connection(http.client.HTTPConnection):
    """To the server of a data directory, by its socket there."""

    def __init__(self, data: Path, timeout_s: float) -> None:
        super().__init__("localhost")
        self._data, self._timeout_s = data, timeout_s
        self.sock: socket.socket

    def connect(self) -> None:
        self.sock = running.connected(self._data, self._timeout_s)


def _condition(data: Path, timeout_s: float) -> Condition | None:
    """None: no answer, not in time, or none that can be understood."""
    with (
        contextlib.suppress(OSError, ValueError, http.client.HTTPException),
        contextlib.closing(_Connection(data, timeout_s)) as asked,
    ):
        asked.request("GET", "/status")
        return from_json(asked.getresponse().read().decode())
    return None
