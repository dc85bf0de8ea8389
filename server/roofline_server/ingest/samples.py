"""Counter sets and their rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from roofline.answers.values import Provenance, Scope
from roofline.limits import MAX_NAME
from roofline.v1 import ingest_pb2 as pb

from ..errors import BadBatch
from ..records import NODE_RANK, Ints, Metric, Table
from .columns import cut, ints, printable, times
from .ranks import Ranks

MAX_METRICS = 512
SET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
RESERVED_SETS = ("kernels", "spans")
RESERVED_COLUMNS = frozenset(
    ("rank_at", "rank", "node", "start_ns", "time_ns", "end_ns", "begin_ns", "window", "step", "samples")
) | {"instance", "host", "node_ns"}  # the last two are columns of an export
MAX_INSTANCES = 65_536


_WHOLE = np.array([""], object)  # a rank or node without parts


class Schema(NamedTuple):
    """A counter set, checked."""

    name: str
    metrics: tuple[Metric, ...]


@lru_cache(maxsize=1024)
def schema_of(data: bytes) -> Schema:
    """The counter set in these bytes; agents send the same ones every second. Raises BadBatch."""
    counter_set = pb.CounterSet.FromString(data)
    name = counter_set.name
    if not SET_NAME.fullmatch(name) or name in RESERVED_SETS:
        raise BadBatch(
            f"counter set {name[:40]!r} must be 1 to 64 letters, digits and _, and not {RESERVED_SETS}"
        )
    if not 0 < len(counter_set.metrics) <= MAX_METRICS:
        raise BadBatch(f"counter set {name!r} has {len(counter_set.metrics)} metrics; 1 to {MAX_METRICS}")
    names = [printable(m.name, "metric") for m in counter_set.metrics]
    if len(set(names)) < len(names):
        raise BadBatch(f"counter set {name!r} names a metric twice")
    if taken := RESERVED_COLUMNS.intersection(names):
        raise BadBatch(f"counter set {name!r}: no metric may be called {min(taken)!r}")
    metrics = []
    for m in counter_set.metrics:
        scope, provenance = Scope.of_number(m.scope), Provenance.of_number(m.provenance)
        unit, coverage_of = cut(m.unit, MAX_NAME), cut(m.coverage_of, MAX_NAME)
        metrics.append(Metric(name, m.name, m.kind, unit, scope, provenance, m.is_double, coverage_of))
    return Schema(name, tuple(metrics))


def instances_of(names: Sequence[str]) -> NDArray[np.generic]:
    """Names of parts; the last, which -1 picks, is the whole."""
    if not names:
        return _WHOLE
    if len(names) > MAX_INSTANCES:
        raise BadBatch(f"{len(names)} instances in one batch; at most {MAX_INSTANCES}")
    return np.array([*(printable(name, "instance") for name in names), ""], object)


def samples_of(
    block: Any, schemas: Sequence[Schema], ranks: Ranks, instances: NDArray[np.generic]
) -> tuple[Schema, Table, Ints]:
    if block.counter_set >= len(schemas):
        raise BadBatch(f"samples of counter set {block.counter_set}, but the batch describes {len(schemas)}")
    schema = schemas[block.counter_set]
    what = f"counter set {schema.name!r}"
    if len(block.columns) != len(schema.metrics):
        raise BadBatch(f"{what} has {len(schema.metrics)} metrics but {len(block.columns)} columns")
    rank = ranks.column(block.rank, "samples.rank", least=NODE_RANK)
    time_ns = times(ints(block.time_ns, "samples.time_ns"), "samples.time_ns")
    lengths = {len(block.rank), len(block.time_ns), *map(len, block.columns)}
    if len(lengths) > 1:
        raise BadBatch(f"{what} has columns of different lengths: {sorted(lengths)} bytes")
    values = ints(b"".join(block.columns), what).reshape(len(schema.metrics), len(rank))
    table: Table = {"rank_at": rank, "time_ns": time_ns}
    if block.instance:
        part = ints(block.instance, "samples.instance")
        if len(part) != len(rank) or not (part.min() >= -1 and part.max() < len(instances) - 1):
            raise BadBatch(f"{what}: samples.instance points outside the instances of the batch")
        table["instance"] = instances[part]
    return schema, table, values
