"""Reads one recorded file: opens it, recognises its format, has the format's reader collect its values."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import IO

from .collector import Collector
from .errors import NotRecognised, RecordedError
from .formats import recognise
from .text import Text, open_binary


def read(
    path: str,
    companions: Sequence[str] = (),
    keep_launches: bool = False,
    progress: Callable[[int], None] = lambda done: None,
    has_digest: bool = True,
    keep_counters: bool = True,
    earlier: int = 0,
    table: IO[bytes] | None = None,
) -> Collector:
    """Everything in the file at `path` ("-": standard input).

    companions: heads of the other files given together with it, `earlier` of them before it; progress: called
    with the bytes read so far, unpacked; has_digest: with the digest that sending needs; keep_launches,
    keep_counters: as of Collector; table: what is read in place of the file's own bytes.
    Raises RecordedError when there is nothing to be had; a file that is good up to some point gives what it
    has, and a warning saying how far.
    """
    with table or open_binary(path) as stream:
        text = Text(path, stream, companions, progress, has_digest, earlier)
        form = recognise(text)
        collector = Collector(keep_launches, keep_counters)
        # Events and rows are many small objects without cycles: to look for some takes a seventh of the time.
        collects = gc.isenabled()
        gc.disable()
        try:
            form.read(text, collector)
        except RecursionError:
            collector.warn("nested too deeply to be read on", text.line)
        except RecordedError:
            collector.close()
            raise
        finally:
            if collects:
                gc.enable()
        if text.cut_short:
            collector.warn(f"{text.cut_short}; read up to here", text.line)
        if text.replaced:
            collector.warn(f"{text.replaced} bytes are not {text.encoding}; shown as U+FFFD")
        if text.long_lines:
            collector.warn(f"{text.long_lines} lines are longer than a million characters and were cut")
        collector.digest = text.digest
    collector.tool = collector.tool or form.name
    for part in collector.parts:
        part.digest = collector.digest
    if collector.is_empty and not collector.warnings:
        raise NotRecognised(f"{path} looks like {form.name}, but holds no value")
    return collector


def head_of(path: str) -> str:
    """The first characters of a file, "" where it has none: a companion of the other files."""
    try:
        with open_binary(path) as stream:
            return Text(path, stream).head
    except Exception:
        return ""
