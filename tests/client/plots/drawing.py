"""Pictures drawn in a test, and the text seen in them."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from roofline_client import plots

from .texts import faults, written


def drawn(record: Any, kind: str = "roofline") -> tuple[Figure, set[str]]:
    figure = plots.figure(kind, record)
    found = written(figure)
    assert faults(figure) == []
    return figure, {t.text for t in found}


def seen_text(texts: set[str], words: str) -> bool:
    """Lines of the caption are broken where they must be."""
    return words in " ".join(sorted(texts)) or any(words in text for text in texts)
