"""Executed kernels, and what is known of each kind of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from roofline.limits import MAX_TIME_NS

from ..errors import BadBatch
from ..records import ABSENT, KernelKind, Table, precision_code, rows, take
from ..store.catalog.name_ids import NameIds
from .columns import cut, ints, same_length, times
from .ranks import Ranks

# Column of calls -> field of Kernel. The last three are traffic that a profiler may have counted.
SIZES = {"flops": "flops", "bytes": "bytes", "dram": "dram_bytes", "l1": "l1_bytes", "l2": "l2_bytes"}
MAX_TEXT = 4096  # characters of what describes a kernel, which is kept for good
WAITING = "waiting"  # variant of what is no work: a tensor, input or another rank is waited for
WAITS = "waits"  # the dataset of these, and the column that tells them from the others
GPU_LIBRARIES = ("cuda", "hip", "sycl", "mtia")


def calls_of(batch: Any, ranks: Ranks) -> Table | None:
    calls = batch.calls
    if not batch.HasField("calls"):
        return None
    kernel = ints(calls.kernel, "calls.kernel")
    if not (kernel.min(initial=0) >= 0 and kernel.max(initial=-1) < len(batch.kernels)):
        raise BadBatch(f"calls.kernel points outside the {len(batch.kernels)} kernels of the batch")
    for described in batch.kernels:
        if min(getattr(described, field) for field in SIZES.values()) < 0:
            raise BadBatch(f"a kernel {described.operation[:40]!r} has counts below zero")
    table: Table = {
        "rank_at": ranks.column(calls.rank, "calls.rank"),
        "kernel": kernel,
        "time_ns": times(ints(calls.start_ns, "calls.start_ns"), "calls.start_ns"),
        "duration_ns": ints(calls.duration_ns, "calls.duration_ns"),
    }
    same_length(table, "calls")
    durations = table["duration_ns"]
    if len(durations) and not (durations.min() >= 0 and durations.max() < MAX_TIME_NS // 2):
        raise BadBatch("calls.duration_ns holds durations out of range")
    return table if len(durations) else None


def _is_on_gpu(kernel: Any) -> bool:
    known: bool = kernel.on_gpu if kernel.HasField("on_gpu") else kernel.library in GPU_LIBRARIES
    return known


def by_work(calls: Table) -> dict[str, Table]:
    """dataset -> calls: what is work, and what only waits."""
    if WAITS not in calls:
        return {"calls": calls}
    waits = calls.pop(WAITS)
    parts = {"calls": take(calls, ~waits), WAITS: take(calls, waits)}
    return {dataset: table for dataset, table in parts.items() if rows(table)}


def with_kernels(calls: Table, kernels: Sequence[Any], name_ids: NameIds, node: int) -> Table:
    """The calls with what is known of their kernels; `kernel` becomes an id that outlives the batch."""
    at = calls["kernel"].astype(np.int64)
    kinds = [KernelKind(*(cut(getattr(k, field), MAX_TEXT) for field in KernelKind._fields)) for k in kernels]
    calls["kernel"] = np.array(name_ids.kernel_ids(kinds, node), np.int64)[at]
    for name, field in SIZES.items():
        known = [getattr(k, field) if k.HasField(field) else ABSENT for k in kernels]
        if name in ("flops", "bytes") or any(size != ABSENT for size in known):
            calls[name] = np.array(known, np.int64)[at]
    on_gpu = np.array([_is_on_gpu(k) for k in kernels], np.int64)
    if on_gpu.any():
        calls["on_gpu"] = on_gpu[at]
    counted = np.array([k.counted if k.HasField("counted") else _is_on_gpu(k) for k in kernels], np.int64)
    if (counted != on_gpu).any():  # else who reads them takes the one for the other
        calls["counted"] = counted[at]
    calls["precision"] = np.array([precision_code(k.precision) for k in kernels], np.int64)[at]
    waiting = np.array([k.variant == WAITING for k in kernels], np.bool_)
    if waiting.any():
        calls[WAITS] = waiting[at]
    layers = [k.layer[:MAX_TEXT] for k in kernels]
    if any(layers):
        calls["layer"] = np.array(layers, object)[at]
    return calls
