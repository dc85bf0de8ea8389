"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO, cast

from .errors import ClientError


@contextlib.contextmanager
def written(path: Path) -> Iterator[TextIO]:
    """A text file to write to, gzip if its name ends in .gz; it has its name when all of it is on the disk.

    Otherwise as `placed`.
    """
    with placed(path) as temporary, _opened(temporary, path.suffix == ".gz") as file:
        yield file


@contextlib.contextmanager
def placed(path: Path) -> Iterator[Path]:
    """A file to write to under another name, next to `path`; it gets its name when the block ends.

    An existing file is replaced; a pipe or a device is written to as it is. Raises ClientError when it cannot
    be written; then, and when the block fails, there is no file of that name that was not there before.
    """
    try:
        if path.exists() and not path.is_file():
            yield path  # unresolved: the name of a pipe leads nowhere, as /dev/stdout to pipe:[4711]
            return
        target = path.resolve()
        temporary = target.with_name(f".{target.name[:200]}.{os.getpid()}.part")
        try:
            yield temporary
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ClientError(f"cannot write {path}: {error.strerror or error}; nothing is left there") from None


@contextlib.contextmanager
def _opened(path: Path, compressed: bool) -> Iterator[TextIO]:
    """The file, whose text is on the disk when the block ends."""
    file = _text_file(path, compressed)
    try:
        yield file
    except BaseException:
        # On a full disk what is still buffered fails again.
        with contextlib.suppress(OSError):
            file.close()
        raise
    file.close()
    if path.is_file():
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _text_file(path: Path, compressed: bool) -> TextIO:
    if compressed:
        return cast(TextIO, gzip.open(path, "wt", compresslevel=6, encoding="utf-8", newline=""))
    return open(path, "w", encoding="utf-8", newline="")
