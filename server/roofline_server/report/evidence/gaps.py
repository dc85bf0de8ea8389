"""What is known of time: stretches nobody watched, and how well clocks agree."""

from __future__ import annotations

import math

import numpy as np
from roofline.answers.report import Alignment, Gap
from roofline.answers.values import Provenance, Scope, Value

from ...records import EventKind
from ...sentences import notes, reasons
from ...store.view import JobView, extents_of
from ..ranks.members import RUNNING_NS, extent
from .unwatched import GAP_NS, restart_after, watched_of


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
    """Holes between the stretches an agent watched its node, as far as the job was there, and the time since
    an agent fell silent while ranks of its node were there and others went on."""
    found, extents = [], extents_of(view.process_lifetimes)
    there = {who.node for who, life in view.process_lifetimes.items() if who.pid and not life.exited}
    for node, table in view.watched.items():
        begins, ends = watched_of(view, node)
        if not len(begins):
            continue
        started = table["time_ns"][table["kind"] == EventKind.AGENT_STARTED]
        clock, host = view.clocks[node], view.machines[node].host
        first, last = extents[node]
        for hole_begin, hole_end in zip(ends[:-1].tolist(), begins[1:].tolist(), strict=True):
            if hole_end > first and hole_begin < last:
                on_server = clock.to_server(np.array([hole_begin, hole_end], np.int64))
                restarted = np.any((started > hole_begin) & (started <= hole_end + GAP_NS))
                reason = notes.AGENT_RESTARTED if restarted else notes.BATCHES_DROPPED
                found.append(Gap(host, "", int(on_server[0]), int(on_server[1]), reason))
        silent_ns = int(clock.to_server(ends[-1:])[0])
        until_ns = restart_after(view, silent_ns, extent(view)[1])
        if node in there and ends[-1] - last < RUNNING_NS < until_ns - silent_ns:
            found.append(Gap(host, "", silent_ns, until_ns, notes.SILENT))
    return sorted(found, key=lambda gap: gap.begin_ns)
