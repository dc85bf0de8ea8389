"""What kernels the ranks of a job executed in its steps, added up by kind.

It reads the raw calls, piece by piece, so its cost follows their number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from ...correlate.kernel_totals import KernelTotal
from ...records import Ints, Table, rows, take
from ...sentences.origins import from_sampled
from ...store.steps import kernel_totals as stored
from ...store.store import Store
from ...store.view import JobView
from ..evidence.mode import mode_of
from ..evidence.sampled import NEEDED as SAMPLE
from ..evidence.sampled import Sample, samples_of
from ..evidence.steady import kept_by_rank, resolved
from ..evidence.tables import by_rank, unite, within
from ..questions import STEADY_STEPS, Steps

# What it reads of the step tables.
NEEDED = {"steps": ["asynchronous", *SAMPLE], "steps_kernels": ["complete", "flops", "bytes"]}


class Kernels(NamedTuple):
    """totals: by rank, then most time first. steps: rank -> steps these are of; a rank without steps is not
    in it, its totals are of its whole life. outside: calls of the ranks that lie in none of the steps.
    of_sample: how many steps were recorded and how the others are known; "": all were."""

    totals: list[KernelTotal]
    steps: dict[int, int]
    outside: int
    of_sample: str = ""


def kernel_totals(
    store: Store,
    view: JobView,
    steps: Steps = STEADY_STEPS,
    ranks: Collection[int] | None = None,
    by_phase: bool = False,
) -> Kernels:
    """Totals of the calls whose middle lies in the steps asked for, of these ranks (numbers; None: all).

    Of a rank some of whose steps were watched from begin to end only these count, so that totals over
    `steps` are what a step has. Of a rank that recorded a sample of its steps each of these counts as many
    times as there are steps like it. Of ranks without any step all calls count, if no range was asked for.
    by_phase: one total for each phase (forward, backward, ...) that a kind was called in, too.
    """
    mode = mode_of(view)
    steps = resolved(view, steps)
    windows = within(view.steps.get("steps", {}), steps)
    if mode == "synchronous":
        windows = unite(windows)
    watched = within(view.steps.get("steps_kernels", {}), steps)
    mine = kept_by_rank({"steps": windows, "steps_kernels": watched}, steps)
    stepping = set(by_rank({"steps": view.steps.get("steps", {})}))
    numbers = list(view.ranks if ranks is None else ranks)
    samples = {n: sample for n, sample in samples_of(view, mine, steps).items() if n in numbers}
    stretches: dict[int, tuple[Ints, Ints] | None] = {}  # None: the whole life of the rank
    counts: dict[int, int] = {}
    for rank in numbers:
        if rank in samples:
            stretches[rank], counts[rank] = samples[rank].stretches, sum(samples[rank].steps)
            continue
        found = _watched(mine.get(rank, {}).get("steps", {}), mine.get(rank, {}).get("steps_kernels", {}))
        if rows(found):
            stretches[rank], counts[rank] = (found["begin_ns"], found["end_ns"]), rows(found)
        elif not steps.is_bounded and rank not in stepping:
            stretches[rank] = None
    raw = store.raw(view.job)
    if raw is None or not stretches:
        return Kernels([], counts, 0)
    weights = {rank: sample.weights for rank, sample in samples.items()}
    totals, outside = stored.totals(raw, stretches, by_phase, weights)
    return Kernels(totals, counts, outside, _of_sample(samples, counts))


def _of_sample(samples: Mapping[int, Sample], counts: Mapping[int, int]) -> str:
    """How many steps were recorded, and how the others are known; "": there was no sample."""
    if not samples:
        return ""
    whole = sum(count for rank, count in counts.items() if rank not in samples)
    recorded, like, estimated = map(sum, zip(*(sample.steps for sample in samples.values()), strict=True))
    return from_sampled(recorded + whole, like, estimated)


def _watched(windows: Table, kernels: Table) -> Table:
    """Of a rank's windows those of which every kernel was recorded; all, where there are none such."""
    if not rows(windows) or not rows(kernels):
        return windows
    ends = kernels["end_ns"][kernels["complete"] > 0]
    complete = np.isin(windows["end_ns"], ends)
    return take(windows, complete) if complete.any() else windows
