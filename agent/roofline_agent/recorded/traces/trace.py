"""Streams the events of a Chrome trace (JSON array, or the "traceEvents" of an object) of any size.

Half-written files are read as far as they go: an array never closed, a comma too many, an event cut in two.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from ..collector import Collector
from ..quick_json import loads
from ..text import Text

MAX_VALUE = 1 << 23  # characters of one event or top-level value; more is taken for broken
MAX_BROKEN = 10_000  # events; with more of them than good ones the rest of the file is not read
_NEAR_END = 16  # characters: an error as close to the end as this may just mean that the rest is not read yet
_DEEP = 500  # levels that the decoder goes down at least, and so characters of what it gives up
_KEY = "traceEvents"
_BLANK = re.compile(r"[\s,]*")
_EVENT = re.compile(r"\{\s*\"")
_NEXT_EVENT = re.compile(r"\s*\{")
_FEW = 4096  # characters
_decoder = json.JSONDecoder()


class _Broken(Exception):
    """The value is no JSON; reading can go on at `at`."""

    def __init__(self, at: int) -> None:
        self.at = at


class Trace:
    """One trace. `values` holds what else the object has ("distributedInfo", ...), complete when `events` has
    ended; `count` is the number of events so far."""

    def __init__(self, text: Text, found: Collector) -> None:
        self.values: dict[str, Any] = {}
        self.count = 0
        self._text = text
        self._found = found
        self._chunks = text.chunks()
        self._buffer = ""
        self._at = 0
        self._lines = 1  # of the file, up to `_counted` in the buffer
        self._counted = 0
        self._ended = False
        self._broken = 0
        self._slow_until = 0  # of the buffer

    def events(self) -> Iterator[dict[str, Any]]:
        """Every event once, in the file's order. Never raises for what the file holds."""
        while self._peek():
            if self._buffer[self._at] == "[":
                self._at += 1
                yield from self._array()
            elif self._is_at_event():
                yield from self._array()  # the opening bracket is missing
            elif self._buffer[self._at] == "{":
                self._at += 1
                yield from self._object()
            else:
                self._skip_to_event("no JSON array or object")
        self._text.line = max(self._text.line, self._line())

    def _array(self) -> Iterator[dict[str, Any]]:
        while char := self._peek():
            if char == "]":
                self._at += 1
                return
            if char == "{" and (events := self._some()):
                self.count += len(events)
                yield from events
                continue
            try:
                event = self._value()
            except _Broken as broken:
                self._at = broken.at
                self._skip_to_event("an event is no JSON; it is left out")
                continue
            self.count += isinstance(event, dict)
            if isinstance(event, dict) and ("ph" in event or "name" in event):
                yield event
            elif event != {}:  # which some writers put behind their last comma
                self._found.warn("a value between the events is no event; it is left out", self._line())

    def _some(self) -> list[dict[str, Any]]:
        """All events that are whole in the buffer, at once; [] where these are few or anything is unusual."""
        if len(self._buffer) - self._at < _FEW or self._at < self._slow_until:
            return []
        last = len(self._buffer)
        while (last := self._buffer.rfind("},", self._at, last)) >= 0:
            if _NEXT_EVENT.match(self._buffer, last + 2):
                break
        if last < 0:
            self._slow_until = len(self._buffer)
            return []
        piece = self._buffer[self._at : last + 1]
        try:
            events: list[dict[str, Any]] = loads(f"[{piece}]")
        except (ValueError, RecursionError):
            events = []
        if not events or not all(type(one) is dict and "ph" in one for one in events):
            self._slow_until = len(self._buffer)  # event by event, up to what is read next
            return []
        self._at = last + 1
        return events

    def _object(self) -> Iterator[dict[str, Any]]:
        while char := self._peek(colon=True):
            if char == "}":
                self._at += 1
                return
            try:
                key = self._value()
                if self._peek(colon=True) == "[" and key == _KEY:
                    self._at += 1
                    yield from self._array()
                elif isinstance(key, str):
                    self.values[key] = self._value()
            except _Broken as broken:
                self._at = broken.at
                if not self._skip_to_events():
                    return
                yield from self._array()

    def _value(self) -> Any:
        """The JSON value here; reads on until it is whole. Raises _Broken."""
        while True:
            try:
                value, end = _decoder.raw_decode(self._buffer, self._at)
            except RecursionError:
                raise _Broken(self._at + _DEEP) from None
            except json.JSONDecodeError as error:
                at_end = error.pos + _NEAR_END >= len(self._buffer)
                is_unfinished = at_end or error.msg.startswith("Unterminated string")
                if is_unfinished and len(self._buffer) - self._at <= MAX_VALUE and self._more():
                    continue
                raise _Broken(max(error.pos, self._at + 1)) from None
            except ValueError:  # a number of thousands of digits
                raise _Broken(self._at + 1) from None
            near_end = len(self._buffer) - end < _NEAR_END
            if near_end and not isinstance(value, (dict, list, str)) and self._more():
                continue  # a number may go on in the next chunk
            self._at = end
            return value

    def _is_at_event(self) -> bool:
        while len(self._buffer) - self._at < 64 and self._more():
            pass
        beginning = self._buffer[self._at : self._at + 64]
        return re.match(r'\{\s*"(ph|cat|pid|tid|ts|dur)"\s*:', beginning) is not None

    def _peek(self, colon: bool = False) -> str:
        """The next character that is neither blank nor comma; "" at the end."""
        while True:
            match = _BLANK.match(self._buffer, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._buffer):
                if not (colon and self._buffer[self._at] == ":"):
                    return self._buffer[self._at]
                self._at += 1
            elif not self._more():
                return ""

    def _more(self) -> bool:
        """Whether another chunk was there; drops what was read."""
        chunk = next(self._chunks, "")
        if not chunk:
            self._ended = True
            return False
        self._line()
        self._buffer = self._buffer[self._at :] + chunk
        self._at = self._counted = self._slow_until = 0
        return True

    def _skip_to_event(self, why: str) -> None:
        """Goes on with the next thing that looks like an object."""
        self._found.warn("the last event is cut off; it is left out" if self._ended else why, self._line())
        self._broken += 1
        if self._broken > max(MAX_BROKEN, self.count):
            self._found.warn("most of the file is no JSON; it is read up to here", self._line())
            self._buffer, self._at, self._chunks = "", 0, iter(())
        while True:
            match = _EVENT.search(self._buffer, self._at)
            if match:
                self._at = match.start()
                return
            self._at = max(self._at, len(self._buffer) - _NEAR_END)
            if not self._more():
                self._at = len(self._buffer)
                return

    def _skip_to_events(self) -> bool:
        """Goes on behind `"traceEvents": [`, past a top-level value that cannot be read."""
        self._found.warn("a value beside the events is no JSON; what it says is left out", self._line())
        opening = re.compile(rf'"{_KEY}"\s*:\s*\[')
        while True:
            match = opening.search(self._buffer, self._at)
            if match:
                self._at = match.end()
                return True
            self._at = max(self._at, len(self._buffer) - 64)
            if not self._more():
                self._at = len(self._buffer)
                return False

    def _line(self) -> int:
        self._lines += self._buffer.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._lines


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
