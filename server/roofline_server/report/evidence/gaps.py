"""What is known of time: stretches nobody watched, and how well clocks agree."""

from __future__ import annotations

import math

import numpy as np
from roofline.answers.report import Alignment, Gap
from roofline.answers.values import Provenance, Scope, Value

from ...correlate.kernels import merge
from ...records import EventKind, rows
from ...sentences import notes, reasons
from ...store.view import JobView, extents_of
from .tables import where

GAP_NS = 1_000_000  # shorter holes between two batches are no gap


def alignment_of(view: JobView) -> list[Alignment]:
    """Of each node, how far its times can be off on the server's clock while the job was there, at worst."""
    found, extents = [], extents_of(view.process_lifetimes)
    for node in sorted(extents.keys() - view.recordings):
        error = view.clocks[node].worst_error(*extents[node])
        settled = view.settled.get(node, 0.0)
        if error is None:
            value = Value(None, "s", reason=reasons.NO_PING)
        elif math.isinf(settled):
            value = Value(None, "s", reason=reasons.NO_PING_IN_TIME)
        else:
            value = Value(max(error, settled) / 1e9, "s", Provenance.MEASURED, Scope.NODE)
        found.append(Alignment(view.machines[node].host, value))
    return found


def find_gaps(view: JobView) -> list[Gap]:
    """Holes between the stretches an agent watched its node, as far as the job was there."""
    found, extents = [], extents_of(view.process_lifetimes)
    for node, table in view.watched.items():
        seen = where(table, "kind", EventKind.BATCH)
        if not rows(seen):
            continue
        begins, ends = merge(seen["time_ns"].astype(np.int64), seen["end_ns"].astype(np.int64), GAP_NS)
        started = table["time_ns"][table["kind"] == EventKind.AGENT_STARTED]
        clock, host = view.clocks[node], view.machines[node].host
        first, last = extents[node]
        for hole_begin, hole_end in zip(ends[:-1].tolist(), begins[1:].tolist(), strict=True):
            if hole_end > first and hole_begin < last:
                on_server = clock.to_server(np.array([hole_begin, hole_end], np.int64))
                restarted = np.any((started > hole_begin) & (started <= hole_end + GAP_NS))
                reason = notes.AGENT_RESTARTED if restarted else notes.BATCHES_DROPPED
                found.append(Gap(host, "", int(on_server[0]), int(on_server[1]), reason))
    return sorted(found, key=lambda gap: gap.begin_ns)
