"""What layers took of the traced steps of ranks: only of these steps, because no others show their layers."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from ...correlate.layers import WAITING, LayerTotals, by_layer
from ...correlate.steps import OWN
from ...records import ABSENT, Ints, Table, concatenate, rows, take
from ...store import raw_data
from ...store.raw_data import RawData
from ...store.store import Store
from ...store.view import JobView
from ..evidence.steady import traced_steps, traced_times
from ..evidence.tables import by_rank, where, within
from ..questions import Steps

COMMUNICATE = "phase.communicate"  # a span: the training's thread waits for a collective
COLLECTIVE = "(collective)"  # what takes the place of its layer
NESTED = "torch"  # library of operators that call others: the time of each is its own
APART_NS = 1_000_000_000  # traced steps that lie further apart are read one after the other


def layer_totals(store: Store, view: JobView, steps: Steps, ranks: Collection[int]) -> dict[int, LayerTotals]:
    """rank -> what its layers took, of the traced steps among those asked for; ranks without any are not in
    it. Without a range they are all that were traced, which other questions leave out."""
    raw = None
    found = {}
    own = where(within(view.steps.get("steps", {}), steps), "window", OWN)
    for number, tables in by_rank({"steps": own}).items():
        windows = _traced(view, number, tables["steps"]) if number in ranks else {}
        if not rows(windows):
            continue
        raw = raw or store.raw(view.job)
        if raw is None:
            return {}
        calls = concatenate([_calls(raw, number, stretch) for stretch in _stretches(windows)])
        if "layer" in calls and (calls["layer"] != "").any():
            begin, end = _with_calls(windows, calls)
            nested = [kernel for kernel, kind in raw.kernels.items() if kind.library == NESTED]
            found[number] = by_layer(calls, begin, end, nested)
    return found


def _traced(view: JobView, number: int, windows: Table) -> Table:
    """The windows that were traced from begin to end."""
    windows = take(windows, np.isin(windows["step"], traced_steps(view, number)))
    if times := traced_times(view, number):
        begin, end = windows["begin_ns"], windows["end_ns"]
        windows = take(windows, np.any([(begin >= since) & (end <= until) for since, until in times], axis=0))
    return take(windows, np.argsort(windows["begin_ns"], kind="stable"))


def _stretches(windows: Table) -> Iterator[tuple[int, int]]:
    """Of time, that hold the windows and little else."""
    begin, end = windows["begin_ns"], windows["end_ns"]
    new = np.append(True, begin[1:] > end[:-1] + APART_NS)
    last = np.append(np.flatnonzero(new)[1:] - 1, len(begin) - 1)
    yield from zip(begin[new].tolist(), end[last].tolist(), strict=True)


def _calls(raw: RawData, number: int, stretch: tuple[int, int]) -> Table:
    """What was executed, and what was waited for."""
    executed = raw_data.of_ranks(raw, "calls", [number], *stretch)
    waited = concatenate(
        [raw_data.of_ranks(raw, "waits", [number], *stretch), _meeting(raw, number, stretch)]
    )
    both = [(executed, 0), (waited, 1)]
    return concatenate(
        [
            {**table, WAITING: np.full(rows(table), waiting, np.int64)}
            for table, waiting in both
            if rows(table)
        ]
    )


def _meeting(raw: RawData, number: int, stretch: tuple[int, int]) -> Table:
    """When the rank was held by the collectives of the others, as hooks tell, as calls."""
    spans = raw_data.of_ranks(raw, "spans", [number], *stretch)
    spans = take(spans, spans["name"] == COMMUNICATE) if rows(spans) else {}
    if not rows(spans):
        return {}
    absent = np.full(rows(spans), ABSENT, np.int64)
    return {
        "kernel": np.full(rows(spans), -1, np.int64),
        "time_ns": spans["time_ns"],
        "duration_ns": spans["end_ns"] - spans["time_ns"],
        "flops": absent,
        "bytes": absent,
        "precision": np.zeros(rows(spans), np.int64),
        "layer": np.full(rows(spans), COLLECTIVE, object),
    }


def _with_calls(windows: Table, calls: Table) -> tuple[Ints, Ints]:
    """Begin and end of the windows in which calls were recorded; they do not overlap."""
    begin, end = windows["begin_ns"].astype(np.int64), windows["end_ns"].astype(np.int64)
    end[:-1] = np.minimum(end[:-1], begin[1:])
    times = np.sort(calls["time_ns"])
    some = np.searchsorted(times, begin) < np.searchsorted(times, end)
    return begin[some], end[some]
