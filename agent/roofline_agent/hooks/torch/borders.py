"""PyTorch: borders of steps that were seen but are not handed over yet: held back while it is not sure that
they are borders, or deferred, to be handed over together. Pure logic."""

from __future__ import annotations

from typing import Any, Hashable, List, NamedTuple, Optional, Sequence

from .phases import Span


class WaitingBorder(NamedTuple):
    """A border, and what was known of its step when it was seen."""

    events: int  # how many of them are before it
    time_ns: int
    examples: Optional[int]
    shapes: Hashable
    counts: Any = None  # of the training thread (StepCounts of roofline_step)
    spans: Sequence[Span] = ()  # in addition to those that follow from its events


def in_place_of(before: List[WaitingBorder], new: WaitingBorder) -> WaitingBorder:
    """The last of several borders of which only the last one is one: its step has the examples of all."""
    if not before:
        return new
    old = before[-1]
    if not new.examples and old.examples != 0:
        return new._replace(examples=old.examples, shapes=old.shapes)
    if not old.examples or new.examples is None:
        return new
    known = old.shapes is not None and new.shapes is not None
    return new._replace(
        examples=new.examples + old.examples, shapes=(old.shapes, new.shapes) if known else None
    )
