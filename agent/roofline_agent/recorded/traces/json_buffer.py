"""A JSON document of any size, of which a part at a time is in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ..quick_json import loads
from ..text import Text

MAX_VALUE = 1 << 23  # characters of one value; more is taken for broken
NEAR_END = 16  # characters: an error as close to the end as this may just mean that the rest is not read yet
_DEEP = 500  # levels that the decoder goes down at least, and so characters of what it gives up
_BLANK = re.compile(r"[\s,]*")
_NEXT_OBJECT = re.compile(r"\s*\{")
_FEW = 4096  # characters
_decoder = json.JSONDecoder()


class Broken(Exception):
    """The value is no JSON; reading can go on at `at`."""

    def __init__(self, at: int) -> None:
        self.at = at


class JsonBuffer:
    """The characters of a document that were read and not yet taken: `buffer`, from `at` on."""

    def __init__(self, text: Text) -> None:
        self.buffer = ""
        self.at = 0
        self.has_ended = False
        self._chunks = text.chunks()
        self._lines = 1  # of the file, up to `_counted` in the buffer
        self._counted = 0
        self._slow_until = 0  # of the buffer

    def peek(self, colon: bool = False) -> str:
        """The next character that is neither blank nor comma (with `colon`: nor colon); "" at the end."""
        while True:
            match = _BLANK.match(self.buffer, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.buffer):
                if not (colon and self.buffer[self.at] == ":"):
                    return self.buffer[self.at]
                self.at += 1
            elif not self.more():
                return ""

    def value(self) -> Any:
        """The JSON value here; reads on until it is whole. Raises Broken."""
        while True:
            try:
                value, end = _decoder.raw_decode(self.buffer, self.at)
            except RecursionError:
                raise Broken(self.at + _DEEP) from None
            except json.JSONDecodeError as error:
                at_end = error.pos + NEAR_END >= len(self.buffer)
                is_unfinished = at_end or error.msg.startswith("Unterminated string")
                if is_unfinished and len(self.buffer) - self.at <= MAX_VALUE and self.more():
                    continue
                raise Broken(max(error.pos, self.at + 1)) from None
            except ValueError:  # a number of thousands of digits
                raise Broken(self.at + 1) from None
            near_end = len(self.buffer) - end < NEAR_END
            if near_end and not isinstance(value, (dict, list, str)) and self.more():
                continue  # a number may go on in the next chunk
            self.at = end
            return value

    def members(self, depth: int, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        """The values of the object here, with the names that lead to them: also those of objects within it,
        down to `depth`, and of lists each element. Raises Broken, also where the document ends too early."""
        self.at += 1
        while (char := self.peek(colon=True)) != "}":
            inner = (*path, str(self.value()))
            char = self.peek(colon=True)
            if char == "[":
                self.at += 1
                yield from ((inner, one) for one in self.elements())
            elif char == "{" and depth > 1:
                yield from self.members(depth - 1, inner)
            else:
                yield inner, self.value()
        self.at += 1

    def elements(self) -> Iterator[Any]:
        """The elements of the list here, behind its bracket. Raises Broken."""
        while (char := self.peek()) != "]":
            some = self.objects() if char == "{" else []
            yield from some or (self.value(),)
        self.at += 1

    def objects(self, key: str = "") -> list[dict[str, Any]]:
        """The objects of a list that are whole in the buffer, at once; [] where these are few, where one has
        no such key ("": any), or where anything else is unusual: then `value` takes them one by one."""
        if len(self.buffer) - self.at < _FEW or self.at < self._slow_until:
            return []
        last = len(self.buffer)
        while (last := self.buffer.rfind("},", self.at, last)) >= 0:
            if _NEXT_OBJECT.match(self.buffer, last + 2):
                break
        if last < 0:
            self._slow_until = len(self.buffer)
            return []
        try:
            found: list[dict[str, Any]] = loads(f"[{self.buffer[self.at : last + 1]}]")
        except (ValueError, RecursionError):
            found = []
        if not found or not all(type(one) is dict and (not key or key in one) for one in found):
            self._slow_until = len(self.buffer)  # one by one, up to what is read next
            return []
        self.at = last + 1
        return found

    def more(self) -> bool:
        """Whether another chunk was there; drops what was taken."""
        chunk = next(self._chunks, "")
        if not chunk:
            self.has_ended = True
            return False
        self.line()
        self.buffer = self.buffer[self.at :] + chunk
        self.at = self._counted = self._slow_until = 0
        return True

    def give_up(self) -> None:
        """The rest is not read."""
        self.buffer, self.at, self._chunks = "", 0, iter(())

    def line(self) -> int:
        """The line of the file here, from 1."""
        self._lines += self.buffer.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._lines
