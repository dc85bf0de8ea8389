"""Streams the events of a Chrome trace (JSON array, or the "traceEvents" of an object) of any size.

Half-written files are read as far as they go: an array never closed, a comma too many, an event cut in two.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ..collector import Collector
from ..text import Text
from .json_buffer import NEAR_END, Broken, JsonBuffer

MAX_BROKEN = 10_000  # events; with more of them than good ones the rest of the file is not read
_KEY = "traceEvents"
_EVENT = re.compile(r"\{\s*\"")


class Trace:
    """One trace. `values` holds what else the object has ("distributedInfo", ...), complete when `events` has
    ended; `count` is the number of events so far."""

    def __init__(self, text: Text, found: Collector) -> None:
        self.values: dict[str, Any] = {}
        self.count = 0
        self._text = text
        self._found = found
        self._json = JsonBuffer(text)
        self._broken = 0

    def events(self) -> Iterator[dict[str, Any]]:
        """Every event once, in the file's order. Never raises for what the file holds."""
        while self._json.peek():
            if self._json.buffer[self._json.at] == "[":
                self._json.at += 1
                yield from self._array()
            elif self._is_at_event():
                yield from self._array()  # the opening bracket is missing
            elif self._json.buffer[self._json.at] == "{":
                self._json.at += 1
                yield from self._object()
            else:
                self._skip_to_event("no JSON array or object")
        self._text.line = max(self._text.line, self._json.line())

    def _array(self) -> Iterator[dict[str, Any]]:
        while char := self._json.peek():
            if char == "]":
                self._json.at += 1
                return
            if char == "{" and (events := self._json.objects("ph")):
                self.count += len(events)
                yield from events
                continue
            try:
                event = self._json.value()
            except Broken as broken:
                self._json.at = broken.at
                self._skip_to_event("an event is no JSON; it is left out")
                continue
            self.count += isinstance(event, dict)
            if isinstance(event, dict) and ("ph" in event or "name" in event):
                yield event
            elif event != {}:  # which some writers put behind their last comma
                self._found.warn("a value between the events is no event; it is left out", self._json.line())

    def _object(self) -> Iterator[dict[str, Any]]:
        while char := self._json.peek(colon=True):
            if char == "}":
                self._json.at += 1
                return
            try:
                key = self._json.value()
                if self._json.peek(colon=True) == "[" and key == _KEY:
                    self._json.at += 1
                    yield from self._array()
                elif isinstance(key, str):
                    self.values[key] = self._json.value()
            except Broken as broken:
                self._json.at = broken.at
                if not self._skip_to_events():
                    return
                yield from self._array()

    def _is_at_event(self) -> bool:
        while len(self._json.buffer) - self._json.at < 64 and self._json.more():
            pass
        beginning = self._json.buffer[self._json.at : self._json.at + 64]
        return re.match(r'\{\s*"(ph|cat|pid|tid|ts|dur)"\s*:', beginning) is not None

    def _skip_to_event(self, why: str) -> None:
        """Goes on with the next thing that looks like an object."""
        reason = "the last event is cut off; it is left out" if self._json.has_ended else why
        self._found.warn(reason, self._json.line())
        self._broken += 1
        if self._broken > max(MAX_BROKEN, self.count):
            self._found.warn("most of the file is no JSON; it is read up to here", self._json.line())
            self._json.give_up()
        while True:
            match = _EVENT.search(self._json.buffer, self._json.at)
            if match:
                self._json.at = match.start()
                return
            self._json.at = max(self._json.at, len(self._json.buffer) - NEAR_END)
            if not self._json.more():
                self._json.at = len(self._json.buffer)
                return

    def _skip_to_events(self) -> bool:
        """Goes on behind `"traceEvents": [`, past a top-level value that cannot be read."""
        self._found.warn("a value beside the events is no JSON; what it says is left out", self._json.line())
        opening = re.compile(rf'"{_KEY}"\s*:\s*\[')
        while True:
            match = opening.search(self._json.buffer, self._json.at)
            if match:
                self._json.at = match.end()
                return True
            self._json.at = max(self._json.at, len(self._json.buffer) - 64)
            if not self._json.more():
                self._json.at = len(self._json.buffer)
                return False


def number(value: Any) -> float | None:
    """A JSON number, or text that is one; None for anything else, for no number and for infinity."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        as_float = float(value)
    except (ValueError, OverflowError):
        return None
    return as_float if math.isfinite(as_float) else None


def arguments(event: dict[str, Any]) -> dict[str, Any]:
    """The event's "args", {} where it has none."""
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def thread_of(event: Mapping[str, Any]) -> str:
    """Process and thread of an event, as one word that all events of a thread share."""
    return sys.intern(f"{event.get('pid')} {event.get('tid')}")
