"""Calls that train something, as the hooks that have seen them hand them over."""

from __future__ import annotations

from typing import Any, Hashable, List, NamedTuple, Optional


class TrainingCall(NamedTuple):
    """A call that trains something ended."""

    begin_ns: int
    end_ns: int
    examples: Optional[int] = None  # None: unknown from the call
    phase: str = "phase.call"
    since_ns: Optional[int] = None  # when the step began at the latest, if nothing earlier is known of it
    updates: int = 1  # that the call made; 0: its time belongs to the step of a later call
    signature: Hashable = None  # what is the same for calls that do the same work; None: not known
    only_updates: bool = False  # with gradients that calls with 0 updates have taken


def alike(calls: List[TrainingCall], counts: List[Any], first: int) -> int:
    """How many calls from that one on differ in their times only, and nothing is known of their thread."""
    like, at = calls[first][2:], first
    while at < len(calls) and counts[at] is None and calls[at][2:] == like:
        at += 1
    return at - first
