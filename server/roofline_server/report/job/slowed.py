"""Stretches in which nodes recorded less than their users asked for, as agents reported them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from roofline.facts import FEWER, HELD, SLOWED
from roofline.texts import stretch

from ...correlate.kernels import merge
from ...records import EventKind, Ints, Table, rows, take
from ...sentences import notes as texts
from ...store.view import JobView
from ..evidence.sampled import are_sampled
from ..evidence.tables import where

NOTES = {SLOWED: texts.slowed, FEWER: texts.fewer_kernels, HELD: texts.held}
HOLE_NS = 5_000_000_000
MOST = 3  # stretches that are named


def slowed_notes(view: JobView, events: Mapping[int, Table]) -> list[str]:
    """events: those of each node while the job was there."""
    found: dict[str, list[tuple[str, Ints, Ints]]] = {}
    for node, table in events.items():
        if not rows(table):
            continue
        facts = where(table, "kind", EventKind.FACT)
        lines = facts["text"].astype(str) if rows(facts) else np.zeros(0, str)
        # Nodes do not know whether any of their ranks samples kernels.
        names = (SLOWED, FEWER, HELD) if are_sampled(view) else (SLOWED, HELD)
        wanted = tuple(f"{name}=" for name in names)
        for text in sorted({one for one in lines.tolist() if one.startswith(wanted)}):
            some, clock = take(facts, lines == text), view.clocks[node]
            begin, end = (clock.to_server(some[name].astype(np.int64)) for name in ("time_ns", "end_ns"))
            found.setdefault(text, []).append((view.machines[node].host, begin, end))
    return [_note(text, stretches) for text, stretches in sorted(found.items())]


def _note(text: str, stretches: list[tuple[str, Ints, Ints]]) -> str:
    name, _, value = text.partition("=")
    amount, _, reason = value.partition(": ")
    hosts = sorted({host for host, _, _ in stretches})
    begins, ends = merge(
        np.concatenate([begin for _, begin, _ in stretches]),
        np.concatenate([end for _, _, end in stretches]),
        HOLE_NS,
    )
    times = [stretch(b, e) for b, e in zip(begins.tolist(), ends.tolist(), strict=True)]
    return NOTES[name](amount, hosts, times[:MOST], max(0, len(times) - MOST), reason)
