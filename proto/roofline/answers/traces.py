"""What became of traces that were asked for."""

from __future__ import annotations

from typing import NamedTuple


class RankTrace(NamedTuple):
    """The trace of one rank. recorded: False where `text` says why nothing was."""

    rank: str  # "worker:0"
    recorded: bool
    text: str
