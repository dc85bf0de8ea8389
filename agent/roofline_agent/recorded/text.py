"""A recorded file as decoded text: one pass, any size, whatever its encoding and compression.

Memory stays small: lines and chunks are handed out as they are read, and a line without end is cut.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, TypeVar

from . import convert
from .cells import Array, places_of
from .errors import NotReadable, NotText

HEAD_BYTES = 1 << 16
CHUNK_BYTES = 1 << 20
BLOCK_BYTES = 1 << 22  # of lines: what tables cost a block, whatever its size, is half of all at 1 MiB
MAX_LINE = 1 << 20  # characters
_NEAR = 64  # lines from the first or last, which are found one by one
_CONTROLS = bytes(byte for byte in range(32) if byte not in (8, 9, 10, 12, 13, 27))
_RETURNS = re.compile(rb"\r+\n")
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_KNOWN_BINARY = (
    (b"\x7fELF", "a program, not a recording"),
    (b"SQLite format 3", "an SQLite file, packed or from a pipe: name the unpacked file itself"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first (zstd -d)"),
    (b"BZh", "compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ", "compressed with xz: unpack it first"),
    (
        b"PERFILE2",
        "a perf.data file: of one by `perf stat record`, import what `perf stat report` prints; samples of "
        "`perf record` are no counts of a run: count the events with `perf stat`",
    ),
)
# Only what is said of a file that cannot be read depends on its name.
_NAMES_OF_BINARY = (
    (
        (".nsys-rep", ".qdrep"),
        "a report of Nsight Systems: import the database that `nsys export --type sqlite FILE` makes of it",
    ),
    ((".pftrace",), "a trace for Perfetto: of rocprofv3, `--output-format csv` and `json` can be read"),
)


T = TypeVar("T")


class LineBlock:
    """Whole lines that follow each other, as UTF-8, without the end of the last."""

    def __init__(self, data: bytes, line: int = 1) -> None:
        """line: number of the first."""
        self.data = data
        self.line = line
        self._ends: Array | None = None

    @property
    def lines(self) -> list[str]:
        return self.data.decode().split("\n")

    @property
    def ends(self) -> Array:
        """Where each line but the last ends."""
        if self._ends is None:
            self._ends = places_of(self.data, b"\n")
        return self._ends

    @cached_property
    def count(self) -> int:
        """How many lines it has."""
        return self.data.count(b"\n") + 1

    def begin(self, line: int) -> int:
        """Where a line begins, by its place among them; near the first and the last that is sooner found."""
        at = 0
        if line <= _NEAR:
            for _ in range(line):
                at = self.data.find(b"\n", at) + 1
            return at
        if self.count - line > _NEAR:
            return int(self.ends[line - 1]) + 1
        at = len(self.data) + 1
        for _ in range(self.count - line):
            at = self.data.rfind(b"\n", 0, at - 1) + 1
        return at


class Text:
    """One file. `line` is the number of the line handed out last, from 1; `replaced` counts bytes that are no
    text in its encoding; `cut_short` is the reason why reading ended before the file, "" if it did not."""

    def __init__(
        self,
        name: str,
        stream: IO[bytes],
        companions: Sequence[str] = (),
        progress: Callable[[int], None] = lambda done: None,
        has_digest: bool = True,
        earlier: int = 0,
    ) -> None:
        """companions: the heads of the other files given together with this one; earlier: how many of them
        were given before it; progress: called with `bytes_read` as it grows; has_digest: whether `digest`
        will be asked for.

        Raises NotText when it is binary, NotReadable when it is empty or cannot be read.
        """
        self.name = name
        self.companions = companions
        self.earlier = earlier
        self._progress = progress
        self.line = 0
        self.bytes_read = 0
        self._hash = hashlib.sha256() if has_digest else None
        self.replaced = 0
        self.long_lines = 0
        self.cut_short = ""
        buffered = io.BufferedReader(stream) if not hasattr(stream, "peek") else stream  # type: ignore[type-var]
        self._stream: Any = buffered
        self._buffer = bytearray()
        try:
            is_packed = buffered.peek(2)[:2] == b"\x1f\x8b"
        except OSError as error:
            raise NotReadable(f"{name}: nothing of it can be read ({error.strerror or error})") from None
        if is_packed:
            self._stream = gzip.GzipFile(fileobj=buffered)
        self._raw_head = self._read(HEAD_BYTES)
        if not self._raw_head.strip():
            if self.cut_short:
                raise NotReadable(f"{name}: {self.cut_short}, and nothing could be read before that")
            raise NotReadable(f"{name} is empty: nothing was recorded")
        bom, encoding = next((pair for pair in _BOMS if self._raw_head.startswith(pair[0])), (b"", "utf-8"))
        self.encoding = encoding
        self._skip = len(bom)
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        if encoding == "utf-8":
            _refuse_binary(name, self._raw_head)
        self.head = self._raw_head[self._skip :].decode(encoding, errors="replace")

    @property
    def digest(self) -> str:
        """SHA-256 of the content read so far, unpacked; "" where it was not to be made."""
        return self._hash.hexdigest() if self._hash is not None else ""

    def _read(self, size: int) -> bytes:
        """Less than `size` bytes only at the end or a break; what came before a break is kept."""
        data = b""
        while len(data) < size and (piece := self._read_some(size - len(data))):
            data += piece
        return data

    def _read_some(self, size: int) -> bytes:
        data = self._tried(partial(self._stream.read1, size)) or b""
        self._note(data)
        return data

    def _refill(self) -> bytearray:
        """As `_read`, of BLOCK_BYTES, into the same memory each time: to get fresh memory of that size takes
        as long as to read it."""
        self._buffer = self._buffer or bytearray(BLOCK_BYTES)
        view, done = memoryview(self._buffer), 0
        while done < len(view) and (some := self._tried(partial(self._stream.readinto1, view[done:]))):
            self._note(view[done : done + some])
            done += some
        return self._buffer if done == len(view) else self._buffer[:done]

    def _tried(self, read: Callable[[], T]) -> T | None:
        """None where reading fails."""
        try:
            return read()
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.cut_short = f"its gzip stream is broken or ends early ({error})"
        except OSError as error:
            self.cut_short = f"reading failed ({error.strerror or error})"
        return None

    def _note(self, data: bytes | memoryview) -> None:
        """What was read."""
        self.bytes_read += len(data)
        if self._hash is not None:
            self._hash.update(data)
        self._progress(self.bytes_read)

    def chunks(self) -> Iterator[str]:
        """All of the text in pieces, from the beginning; one pass."""
        data = self._raw_head[self._skip :]
        while data:
            text = self._decoder.decode(data)
            self.replaced += text.count("\ufffd")
            yield text
            data = self._read(CHUNK_BYTES)
        rest = self._decoder.decode(b"", final=True)
        if rest:
            yield rest

    def lines(self) -> Iterator[str]:
        """All lines without their ends (LF, CRLF or CR LF mixed); one pass. An endless line is cut."""
        for block in self.blocks():
            yield from self.each(block)

    def each(self, block: LineBlock | str) -> Iterator[str]:
        """The lines of a block that was just handed out, with `line` at each."""
        if isinstance(block, str):
            yield block
            return
        for at, line in enumerate(block.lines, block.line):
            self.line = at
            yield line

    def blocks(self) -> Iterator[LineBlock | str]:
        """All lines, those of a block at a time; one pass. Where a block has an endless line or zeros at the
        end of one, its lines are handed out one by one. `line` is the number of the line before a block."""
        rest: bytes | bytearray = b""
        skipping = False
        for chunk in self._encoded():
            end = chunk.rfind(b"\n")
            if end >= 0 and not skipping:
                whole = b"".join((rest, memoryview(chunk)[:end]))
                if _is_plain(whole):
                    block = LineBlock(self._clean(whole), self.line + 1)
                    yield block
                    self.line = block.line + block.count - 1
                    rest = chunk[end + 1 :]
                    continue
            pieces = (rest + chunk).split(b"\n")
            rest = pieces.pop()
            for piece in pieces:
                if skipping:
                    skipping = False  # the end of a line whose beginning was handed out already
                    continue
                yield self._line(piece)
            if len(rest) > MAX_LINE:
                if not skipping:
                    yield self._line(rest)
                rest, skipping = b"", True
        if rest and not skipping:
            yield self._line(rest)

    def _encoded(self) -> Iterator[bytes | bytearray]:
        """All of the text as UTF-8, as it is in the file if that is in UTF-8. What is handed out is another
        once more is asked for."""
        if self.encoding != "utf-8":
            yield from (text.encode("utf-8", "replace") for text in self.chunks())
            return
        data: bytes | bytearray = self._raw_head[self._skip :]
        while data:
            yield data
            data = self._refill()

    def _clean(self, lines: bytes) -> bytes:
        if b"\r" in lines:
            lines = _RETURNS.sub(b"\n", lines).rstrip(b"\r")
        return lines if lines.isascii() else self._decoded(lines).encode()

    def _decoded(self, data: bytes | bytearray) -> str:
        text = data.decode("utf-8", "replace")
        if self.encoding == "utf-8":  # else they are counted already
            self.replaced += text.count("\ufffd")
        return text

    def _line(self, data: bytes | bytearray) -> str:
        text = self._decoded(data.rstrip(b"\0"))
        self.line += 1
        if len(text) > MAX_LINE:
            self.long_lines += 1
            text = text[:MAX_LINE]
        return text.rstrip("\r")


def _is_plain(lines: bytes) -> bool:
    """Whether no line is endless or has zeros at its end."""
    at = 0
    while len(lines) - at > MAX_LINE:
        at = lines.rfind(b"\n", at, at + MAX_LINE + 1) + 1
        if not at:
            return False
    return b"\0" not in lines


def without_escapes(line: str) -> str:
    """The line without what colours it in a terminal."""
    return _ESCAPE.sub("", line) if "\x1b" in line else line


def open_binary(path: str) -> IO[bytes]:
    """The file's bytes; "-" is standard input. Raises NotReadable."""
    try:
        if path == "-":
            return io.open(0, "rb", closefd=False)  # noqa: UP020  # the descriptor, not the text layer
        if Path(path).is_dir():
            raise NotReadable(f"{path} is a directory: name the files in it")
        return convert.opened(open(path, "rb"), path)
    except FileNotFoundError:
        raise NotReadable(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise NotReadable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _refuse_binary(name: str, head: bytes) -> None:
    for magic, what in _KNOWN_BINARY:
        if head.startswith(magic):
            raise NotText(f"{name} is {what}")
    # A writer that was cut off by a crash may leave zeros at the end: those are no reason.
    head = head.rstrip(b"\0")
    nul = head.find(b"\0")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if nul < 0 and controls <= len(head) // 20:
        return
    for suffixes, what in _NAMES_OF_BINARY:
        if name.endswith(suffixes):
            raise NotText(f"{name} is {what}")
    if nul >= 0:
        line = head.count(b"\n", 0, nul) + 1
        raise NotText(f"{name} is binary (a zero byte at offset {nul}, line {line}): no known recording is")
    raise NotText(f"{name} is binary ({controls} control characters in its first {len(head)} bytes)")
