"""Steps that differ in numbers only, as the marks and spans that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from roofline.limits import MAX_FORMS

from ..errors import BadBatch
from ..records import ABSENT, Ints, MarkKind, Table, concatenate, take
from .columns import ints
from .marks import checked_marks, checked_names, checked_spans
from .ranks import Ranks

KINDS = {1: (MarkKind.BORDER,), 2: (MarkKind.BEGIN, MarkKind.END)}  # by the number of marks


def with_steps(
    marks: Table | None, spans: Table | None, steps: Sequence[Any], ranks: Ranks
) -> tuple[Table | None, Table | None]:
    """The marks and spans of a batch with those of its `steps` (messages), marks in order of time. Raises
    BadBatch."""
    if len(steps) > MAX_FORMS:
        raise BadBatch(f"{len(steps)} kinds of steps in one batch; at most {MAX_FORMS}")
    all_marks, all_spans = [marks or {}], [spans or {}]
    for block in steps:
        if not 0 <= block.rank < ranks.count:
            raise BadBatch(f"steps.rank points outside the {ranks.count} ranks of the batch")
        numbers = _numbers_of(block)
        all_marks.append(_marks_of(block, numbers))
        if block.names:
            all_spans.append(_spans_of(block, numbers))
    if len(all_marks) == 1:
        return marks, spans
    found = concatenate(all_marks)
    return take(found, np.argsort(found["time_ns"], kind="stable")), concatenate(all_spans) or None


def _numbers_of(block: Any) -> Ints:
    """The numbers of these steps, a row each. Raises BadBatch."""
    checked_names(block.names)
    if block.marks not in KINDS or block.counted > len(block.names):
        raise BadBatch("steps must have 1 or 2 marks each, and no more counts than spans")
    width = 2 + block.marks + 2 * len(block.names) + block.counted
    numbers = ints(block.numbers, "steps.numbers")
    if not len(numbers) or len(numbers) % width:
        raise BadBatch(f"steps.numbers has {len(numbers)} numbers, and {width} are one step")
    return numbers.reshape(-1, width)


def _marks_of(block: Any, numbers: Ints) -> Table:
    count, each = len(numbers), block.marks
    whole = count * each
    return checked_marks(
        {
            "rank_at": np.full(whole, block.rank, np.int64),
            "sender": np.full(whole, block.rank, np.int64),
            "kind": np.tile(np.array(KINDS[each], np.int64), count),
            "step": np.repeat(numbers[:, 0], each),
            "examples": np.repeat(numbers[:, 1], each),
            "time_ns": numbers[:, 2 : 2 + each].reshape(-1),
            "asynchronous": np.zeros(whole, np.int64),
            "phase": np.full(whole, "", object),
            "like": np.full(whole, block.like, np.int64),
        }
    )


def _spans_of(block: Any, numbers: Ints) -> Table:
    """A step's spans behind one another."""
    count, each = len(numbers), len(block.names)
    edges = numbers[:, 2 + block.marks :][:, : 2 * each]
    counts = np.ones((count, each), np.int64)
    if block.counted:
        counts[:, each - block.counted :] = numbers[:, -block.counted :]
    return checked_spans(
        {
            "rank_at": np.full(count * each, block.rank, np.int64),
            "time_ns": edges[:, 0::2].reshape(-1),
            "end_ns": edges[:, 1::2].reshape(-1),
            "bytes": np.full(count * each, ABSENT, np.int64),
            "count": counts.reshape(-1),
            "name": np.tile(np.array(list(block.names), object), count),
        }
    )
