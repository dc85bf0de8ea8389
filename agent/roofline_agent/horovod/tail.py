"""Reads the events of a timeline while Horovod still writes them: each once, as soon as it is whole.

Horovod keeps the file valid JSON: it writes "]" behind each event and puts a comma over it when the next one
comes. So that bracket is never taken as read; an event that is torn waits for its rest.
"""

from __future__ import annotations

import json
from typing import Any

MAX_TORN = 1 << 20  # bytes without an end of an event; more is taken for broken
_decoder = json.JSONDecoder()


class TailParser:
    """Bytes in, events out. `broken` counts what was no JSON and is left out."""

    def __init__(self) -> None:
        self._rest = b""
        self.broken = 0

    @property
    def waiting(self) -> int:
        """Bytes received that are part of no event yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The events that these bytes complete. Their last byte may be a "]" that is overwritten later: the
        caller leaves such a byte out."""
        data = self._rest + data
        whole = data.rfind(b"}") + 1 if data.endswith(b"}") else data.rfind(b"},") + 1
        events, used = _events(data[:whole])
        self._rest = data[used:]
        if len(self._rest) > MAX_TORN:
            self.broken += 1
            again = self._rest.find(b'{"', 2)
            self._rest = self._rest[again:] if again >= 0 else b""
        return events


def _events(data: bytes) -> tuple[list[dict[str, Any]], int]:
    """Events of what should end with one, and how many bytes they are."""
    found: list[Any] | None
    try:
        found = json.loads(b"[" + data.strip(b" \n\r\t,[") + b"]")
    except ValueError:
        found = None
    if found is not None:
        return [event for event in found if isinstance(event, dict)], len(data)

    # One event is broken: those before it are taken one by one.
    text = data.decode("latin-1")  # a character a byte: positions are the same; names are not used
    events: list[dict[str, Any]] = []
    at = 0
    while (begin := text.find("{", at)) >= 0:
        try:
            event, at = _decoder.raw_decode(text, begin)
        except ValueError:
            break
        events.append(event)
    return events, at
