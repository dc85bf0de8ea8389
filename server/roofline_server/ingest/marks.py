"""Marks and spans: the borders of steps, and named stretches of time between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from roofline.limits import MAX_BYTES, MAX_OF_SPAN, MAX_SPAN_NAME, MAX_SPAN_NAMES, SPAN_NAME

from ..errors import BadBatch
from ..records import ABSENT, Frame, Table, rows, take
from ..store.catalog.name_ids import NameIds
from .columns import ints, printable, same_length, times
from .ranks import Ranks

BETWEEN = "between."  # how the names of spans begin that lie between two steps
MAX_LIKE = 2**16 - 1


def marks_of(batch: Any, ranks: Ranks) -> Table | None:
    marks = batch.marks
    if not batch.HasField("marks"):
        return None
    flags, phase = ints(marks.flags, "marks.flags"), ints(marks.phase, "marks.phase")
    if len(phase) and phase.max() >= len(marks.phases):
        raise BadBatch("marks.phase points outside the phases of the batch")
    # An older agent does not send it.
    like = ints(marks.like, "marks.like") if marks.like else np.zeros(len(flags), np.int64)
    # The last, which -1 picks, is no phase.
    phases = np.array([*(printable(name, "phase", empty=True) for name in marks.phases), ""], object)
    table: Table = {
        "rank_at": ranks.column(marks.rank, "marks.rank"),
        "sender": ranks.column(marks.sender, "marks.sender"),
        "kind": ints(marks.kind, "marks.kind"),
        "step": ints(marks.step, "marks.step"),
        "examples": ints(marks.examples, "marks.examples"),
        "time_ns": ints(marks.time_ns, "marks.time_ns"),
        "asynchronous": (flags & 1).astype(np.int64),
        "phase": phases[np.maximum(phase, -1)],
        "like": like,
    }
    same_length(table, "marks")
    return checked_marks(table) if len(flags) else None


def checked_marks(table: Table) -> Table:
    """These marks, if they can be. Raises BadBatch."""
    times(table["time_ns"], "marks.time_ns")
    like = table["like"]
    if len(like) and not 0 <= like.min() <= like.max() <= MAX_LIKE:
        raise BadBatch("marks.like holds numbers out of range")
    return table


def spans_of(batch: Any, ranks: Ranks) -> Table | None:
    spans = batch.spans
    if not batch.HasField("spans"):
        return None
    checked_names(spans.names)
    at = ints(spans.name, "spans.name")
    if not (at.min(initial=0) >= 0 and at.max(initial=-1) < len(spans.names)):
        raise BadBatch(f"spans.name points outside the {len(spans.names)} names of the batch")
    table: Table = {
        "rank_at": ranks.column(spans.rank, "spans.rank"),
        "time_ns": ints(spans.begin_ns, "spans.begin_ns"),
        "end_ns": ints(spans.end_ns, "spans.end_ns"),
        "bytes": ints(spans.bytes, "spans.bytes"),
        "count": ints(spans.count, "spans.count"),
        "name": np.array(list(spans.names), object)[at],
    }
    same_length(table, "spans")
    return checked_spans(table) if len(at) else None


def checked_names(names: Sequence[str]) -> None:
    """Raises BadBatch where these cannot be names of spans."""
    if len(names) > MAX_SPAN_NAMES:
        raise BadBatch(f"{len(names)} names of spans in one batch; at most {MAX_SPAN_NAMES}")
    for name in names:
        if len(name) > MAX_SPAN_NAME or not SPAN_NAME.fullmatch(name):
            raise BadBatch(f"span {name[:MAX_SPAN_NAME]!r} must be named as 'phase.input' is")


def checked_spans(table: Table) -> Table:
    """These spans, if they can be. Raises BadBatch."""
    times(table["time_ns"], "spans.begin_ns")
    times(table["end_ns"], "spans.end_ns")
    if (table["end_ns"] < table["time_ns"]).any():
        raise BadBatch("a span ends before it begins")
    if not (table["count"].min(initial=0) >= 0 and table["count"].max(initial=0) < MAX_OF_SPAN):
        raise BadBatch("spans.count holds counts out of range")
    if ((table["bytes"] < 0) & (table["bytes"] != ABSENT)).any() or (table["bytes"] > MAX_BYTES).any():
        raise BadBatch("spans.bytes holds sizes out of range")
    return table


def by_place(spans: Table) -> dict[str, Table]:
    """Spans of steps, and those of what lay between two steps, which is no part of any."""
    names, at = np.unique(spans["name"].astype(str), return_inverse=True)
    between = np.array([name.startswith(BETWEEN) for name in names.tolist()])[at.reshape(-1)]
    parts = {"spans": take(spans, ~between), "between": take(spans, between)}
    return {dataset: part for dataset, part in parts.items() if rows(part)}


def bound_names(frame: Frame, name_ids: NameIds) -> None:
    """Names of phases and spans that are too many for one job become "other"."""
    column = {"marks": "phase", "spans": "name", "between": "name"}.get(frame.dataset)
    if column is None:
        return
    names = frame.base[column]
    for name in set(names.tolist()) - {""}:
        span = name if column == "name" else f"phase.{name}"
        if not name_ids.allows(frame.job, span):
            other = f"{name.partition('.')[0]}.other" if column == "name" else "other"
            names[names == name] = other
