"""Checks a batch from the wire and turns it into frames of numpy columns.

Everything in a batch is checked before any of it is kept: a batch is taken whole or refused with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from roofline.limits import MAX_TIME_NS
from roofline.v1 import ingest_pb2 as pb

from ..errors import BadBatch
from ..records import DecodedBatch, Ending, EventKind, Incarnation, Ints, Table
from ..store.catalog.name_ids import NameIds
from .columns import times
from .kernels import by_work, calls_of, with_kernels
from .marks import bound_names, by_place, marks_of, spans_of
from .ranks import Ranks, ranks_of
from .samples import Schema, instances_of, samples_of, schema_of
from .steps import with_steps

MAX_TEXT = 4096
MAX_STATUS = 2**31 - 1
MAX_COPIES = 32 << 20  # bytes of a batch's samples of the node, with all jobs there


def parse(data: bytes) -> Any:
    """The AgentMessage in these bytes. Raises BadBatch."""
    try:
        return pb.AgentMessage.FromString(data)
    except Exception as error:
        raise BadBatch(f"not a message of an agent ({error})") from None


def origin_of(data: bytes) -> tuple[str, int]:
    """The boot that a batch is of, "" where it does not say so, and the node time at which it ends. Raises
    BadBatch."""
    message = parse(data)
    return message.boot, message.batch.end_ns


def decode(batch: Any, node: int, name_ids: NameIds, patient: bool = False) -> DecodedBatch:
    """Frames of a batch from `node`. Raises BadBatch with what is wrong; nothing is kept then.

    patient: raises Unclear where it is not known yet of which runs of their jobs processes are.
    """
    if not 0 < batch.sequence < 2**63:
        raise BadBatch(f"sequence {batch.sequence} must be 1 to 2^63 - 1")
    if not 0 < batch.begin_ns <= batch.end_ns < MAX_TIME_NS:
        raise BadBatch(f"begin_ns {batch.begin_ns} and end_ns {batch.end_ns} are no stretch of time")
    ranks = ranks_of(node, tuple(r.SerializeToString() for r in batch.ranks), name_ids)
    schemas = [schema_of(counter_set.SerializeToString()) for counter_set in batch.counter_sets]
    instances = instances_of(batch.instances)
    samples = [samples_of(block, schemas, ranks, instances) for block in batch.samples]
    _check_copies(samples, ranks)
    marks, spans = with_steps(marks_of(batch, ranks), spans_of(batch, ranks), batch.steps, ranks)
    calls, events = calls_of(batch, ranks), _events(batch, ranks)
    # All is checked: only now do names get ids that outlive the batch.
    exits = [event for event in batch.events if event.kind == EventKind.RANK_EXITED and event.rank >= 0]
    ranks.assign_ids(name_ids, batch.begin_ns, batch.end_ns, {event.rank for event in exits}, patient)
    frames = []
    for schema, base, values in samples:
        split = ranks.split(f"samples_{schema.name}", base, schema.metrics, values)
        frames += [name_ids.fit(frame, node) for frame in split]
    if marks is not None:
        frames += ranks.split("marks", marks)
    if spans is not None:
        for dataset, table in by_place(spans).items():
            frames += ranks.split(dataset, table)
    if calls is not None:
        for dataset, table in by_work(with_kernels(calls, batch.kernels, name_ids, node)).items():
            frames += ranks.split(dataset, table)
    for frame in frames:
        bound_names(frame, name_ids)
    frames += ranks.split("events", events)
    return DecodedBatch(
        batch.sequence,
        batch.begin_ns,
        batch.end_ns,
        frames,
        ranks.present,
        _endings(exits, ranks),
        ranks.ids,
        ranks.owners,
    )


def _check_copies(samples: Sequence[tuple[Schema, Table, Ints]], ranks: Ranks) -> None:
    """Samples that speak for the node are kept with each of its jobs. Raises BadBatch where that is much."""
    if ranks.jobs <= 1:
        return
    size = sum(
        int(np.count_nonzero(table["rank_at"] < 0)) * 8 * (len(schema.metrics) + len(table) + 2)
        for schema, table, _ in samples
    )
    if size * ranks.jobs > MAX_COPIES:
        raise BadBatch(
            f"samples of the node take {size} bytes in each of its {ranks.jobs} jobs; "
            f"at most {MAX_COPIES} in all"
        )


def _endings(exits: Sequence[Any], ranks: Ranks) -> dict[Incarnation, Ending]:
    """How the ranks ended of which that is reported, in one event or in several."""
    found: dict[Incarnation, Ending] = {}
    for event in exits:
        who = ranks.incarnations[event.rank]
        known = event.HasField("status")
        status = event.status if known and abs(event.status) <= MAX_STATUS else None
        step = event.step if event.HasField("step") else None
        ending = Ending(status, step, event.end_ns if known else None)
        found[who] = found.get(who, Ending()).with_later(ending)
    return found


def _events(batch: Any, ranks: Ranks) -> Table:
    events = [e for e in batch.events if e.kind in EventKind._value2member_map_]
    for event in events:
        if not -1 <= event.rank < ranks.count:
            raise BadBatch("events.rank points outside the ranks of the batch")
    watched = (-1, int(EventKind.BATCH), batch.begin_ns, batch.end_ns, 0, "")
    listed = [(e.rank, e.kind, e.begin_ns, e.end_ns, e.count, e.text[:MAX_TEXT]) for e in events]
    at, kind, begin, end, count, text = zip(watched, *listed, strict=True)
    return {
        "rank_at": np.array(at, np.int64),
        "kind": np.array(kind, np.int64),
        "time_ns": times(np.array(begin, np.int64), "events.begin_ns"),
        "end_ns": times(np.array(end, np.int64), "events.end_ns"),
        "count": np.array([min(c, MAX_TIME_NS) for c in count], np.int64),
        "text": np.array(text, object),
    }
