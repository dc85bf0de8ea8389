"""Calls of traced steps added up by the layer of the model that they were executed for.

A step is divided so that the parts add up to it: calls that run at the same time share the time, calls that
only wait (for a tensor of another process) get the time in which nothing else ran, and what is left is time
in which there was neither.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ..records import ABSENT, Bools, Floats, Ints, Table, rows, take


class LayerTotal(NamedTuple):
    """All calls of one layer in some steps of a rank; "": of none.

    step_ns: of the steps, what is theirs. calls, call_ns: how many, and their own times together, which run
    side by side on a CPU's threads. flops: sum over the calls of which it is known; None: of none; unknown:
    how many the others are. moved, sized_flops: least bytes, and FLOPs of the calls whose bytes are known;
    unsized: calls with FLOPs and without bytes. precision: code of most of the FLOPs.
    """

    layer: str
    step_ns: float
    calls: int
    call_ns: int
    flops: float | None
    unknown: int
    moved: float | None
    sized_flops: float
    unsized: int
    precision: int
    on_gpu: bool
    counted: bool  # of some the FLOPs, by a profiler


class LayerTotals(NamedTuple):
    """Totals of a rank. steps: how many; idle_ns: of these, when no call ran."""

    layers: list[LayerTotal]
    steps: int
    idle_ns: float


WAITING = "waiting"  # column: 1 for what only waits


def by_layer(calls: Table, begin: Ints, end: Ints, nested: Collection[int]) -> LayerTotals:
    """The layers that took most of the steps first.

    calls: kernel, time_ns, duration_ns, flops, bytes, precision, layer, and on_gpu, counted, WAITING where
    some are; a call is of the step that holds its middle. begin, end: of the steps, in order of time, apart.
    nested: kernels of which the duration is what they spend outside those they call, so that they do not run
    side by side.
    """
    middle = calls["time_ns"] + calls["duration_ns"] // 2
    at = np.searchsorted(begin, middle, side="right") - 1
    inside = (at >= 0) & (middle < end[np.maximum(at, 0)])
    calls, at = take(calls, inside), at[inside]
    lasted = int((end - begin).sum())
    if not rows(calls):
        return LayerTotals([], len(begin), float(lasted))
    of_step = _of_step(calls, at, begin, end, np.isin(calls["kernel"], sorted(nested)))
    names, layer = np.unique(calls["layer"].astype(str), return_inverse=True)
    found = [_total(str(name), take(calls, layer == n), of_step[layer == n]) for n, name in enumerate(names)]
    return LayerTotals(
        sorted(found, key=lambda one: -one.step_ns),
        len(begin),
        max(0.0, lasted - float(of_step.sum())),
    )


def _of_step(calls: Table, at: Ints, begin: Ints, end: Ints, nested: Bools) -> Floats:
    """What of its step is each call's, ns; together no more than the step."""
    since = np.maximum(calls["time_ns"], begin[at])
    until = np.maximum(since, np.minimum(calls["time_ns"] + calls["duration_ns"], end[at]))
    own = calls["duration_ns"].astype(np.float64)
    waits = calls[WAITING] > 0 if WAITING in calls else np.zeros(len(own), np.bool_)
    own[~nested] = shared(since[~nested], until[~nested], waits[~nested])
    # Operators of several threads: all are given less of the step alike, what waits before what works.
    lasted = (end - begin).astype(np.float64)
    for some in (~waits, waits):
        taken = np.bincount(at[some], own[some], minlength=len(begin))
        part = np.minimum(1.0, np.divide(lasted, taken, out=np.ones_like(lasted), where=taken > 0))
        own[some] *= part[at[some]]
        lasted = lasted - taken * part
    return own


def shared(begin: Ints, end: Ints, waits: Bools) -> Floats:
    """Of each stretch its part of the time in which any of them goes on: n at once have 1/n each. Those that
    wait have only the time in which no other goes on."""
    moments = np.unique(np.concatenate([begin, end]))
    found: Floats = np.zeros(len(begin))
    if len(moments) < 2:
        return found
    since, until = np.searchsorted(moments, begin), np.searchsorted(moments, end)
    left = np.diff(moments).astype(np.float64)
    for some in (~waits, waits):
        begun = np.bincount(since[some], minlength=len(moments))
        going = np.cumsum(begun - np.bincount(until[some], minlength=len(moments)))[:-1]
        so_far = np.append(0.0, np.cumsum(np.where(going > 0, left / np.maximum(going, 1), 0.0)))
        found[some] = so_far[until[some]] - so_far[since[some]]
        left = np.where(going > 0, 0.0, left)
    return found


def _total(layer: str, calls: Table, of_step: Floats) -> LayerTotal:
    counted, sized = calls["flops"] != ABSENT, calls["bytes"] != ABSENT
    flops = np.where(counted, calls["flops"], 0).astype(np.float64)
    computes = flops > 0
    by_precision = np.bincount(calls["precision"].astype(np.int64), flops)
    on_gpu = calls.get("on_gpu", np.zeros(rows(calls), np.int64))
    by_profiler = calls.get("counted", on_gpu)
    by_profiler = counted & (np.where(by_profiler == ABSENT, on_gpu, by_profiler) > 0)
    both = computes & sized
    return LayerTotal(
        layer,
        float(of_step.sum()),
        rows(calls),
        int(calls["duration_ns"].sum()),
        float(flops.sum()) if counted.any() else None,
        int((~counted).sum()),
        float(calls["bytes"][both].sum(dtype=np.float64)) if both.any() else None,
        float(flops[both].sum()),
        int((computes & ~sized).sum()),
        int(by_precision.argmax()),
        bool((on_gpu > 0).any()),
        bool(by_profiler.any()),
    )
