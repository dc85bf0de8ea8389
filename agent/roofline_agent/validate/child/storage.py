"""Bytes written to storage, and read from it past the page cache."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from .done import Cannot, Quantities, amounts

SIZE = 16 << 20
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs")


class StorageWork:
    """A file that is rewritten each time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "written"
        self._buffer: mmap.mmap | None = None

    def prepare(self) -> bool:
        """Raises Cannot where files of the folder are in memory, or cannot be read past the page cache."""
        if self._buffer is not None:
            return False
        with open("/proc/self/mountinfo") as mounts:
            kind = file_system(os.path.realpath(self._path.parent), mounts.read())
        if kind in IN_MEMORY:
            raise Cannot(
                f"{self._path.parent} is in memory ({kind}): nothing is stored; choose another --state"
            )
        self._buffer = mmap.mmap(-1, SIZE)  # aligned to pages, as O_DIRECT wants it
        self._buffer[:] = os.urandom(SIZE)  # a file system may compress, or leave out zeros
        return True

    def do(self) -> Quantities:
        assert self._buffer is not None
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            written = os.write(file, self._buffer)
            os.fsync(file)
        finally:
            os.close(file)
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_DIRECT)
        except OSError as error:
            raise Cannot(
                f"files of {self._path.parent} cannot be read past the page cache ({error})"
            ) from error
        try:
            read = os.readv(file, [self._buffer])
        finally:
            os.close(file)
        return amounts(written_bytes=written, read_bytes=read)


def file_system(path: str, mountinfo: str) -> str:
    """The kind of file system that a path is on, from /proc/self/mountinfo; "" where that does not say."""
    found, longest = "", -1
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        words = fields.split(" ")
        if len(words) < 5 or not rest:
            continue
        point = words[4].encode().decode("unicode_escape")  # a space is \040
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # The last of those at one place lies on top.
        if inside and len(point) >= longest:
            found, longest = rest.split(" ")[0], len(point)
    return found
