"""Lets a reader loose on text or on a file and keeps what it finds, with no temporary file left open."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence

from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.text import Text

Reader = Callable[[Text, Collector], None]


def read_text(reader: Reader, content: str | bytes, companions: Sequence[str] = ()) -> Collector:
    data = content.encode() if isinstance(content, str) else content
    return _read(reader, Text("recording", io.BytesIO(data), companions))


def read_file(reader: Reader, path: str, companions: Sequence[str] = ()) -> Collector:
    with open(path, "rb") as stream:
        return _read(reader, Text(path, stream, companions))


def _read(reader: Reader, text: Text) -> Collector:
    found = Collector()
    try:
        reader(text, found)
    finally:
        counters = list(found.counters)
        found.close()
    found.counters = counters  # type: ignore[assignment]
    return found


def said(found: Collector, words: str) -> bool:
    """Whether a warning has these words."""
    return any(words in warning.text for warning in found.warnings)


def numbers_in(text: str) -> set[float]:
    """Every number that can be made out in a text; a comma or a point may group digits or part them."""
    found = set()
    for word in re.findall(r"[\d.,eE+-]+", text):
        parts = [word.replace(",", ""), *word.split(","), word.replace(".", "").replace(",", ".")]
        found |= {
            float(one) for part in parts for one in re.findall(r"\d*\.?\d+(?:[eE][+-]?\d+)?|\d+\.?", part)
        }
    return found
