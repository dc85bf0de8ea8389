"""Jobs that lack something: ranks of given steps whose counters were read a given number of times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from roofline_server.store.store import Store

from ..builders import (
    ABSENT,
    BEGIN,
    CUMULATIVE,
    END,
    MS,
    Node,
    S,
    batch,
    calls,
    counter_set,
    kernel,
    marks,
    open_store,
    rank,
    samples,
    spans,
)

READ = tuple(
    (name, CUMULATIVE, False)
    for name in ("cpu_ns", "cpu_wait_ns", "busiest_run_ns", "busiest_delay_ns", "stopped_ns")
)
FIRST = 100 * S


class Odd(NamedTuple):
    """A rank. numbers: of its steps; readings: how often its counters were read, one a second; growth: of
    each counter between two, None: no value is read; calls: of kernels, of which nobody knows whether
    they are all."""

    role: str
    numbers: Sequence[int] = ()
    lasting: int = 20 * MS
    begin: int = FIRST
    readings: int = 0
    growth: int | None = 100 * MS
    spanned: bool = True
    calls: int = 0
    beside: int = 0  # ns between the end of a step and the begin of the next
    examples: int = 8


def stored(folder: Path, ranks: Sequence[Odd], asynchronous: bool) -> Store:
    store, node = open_store(folder), Node("a")
    node.greet(store)
    said, phases, read, called = [], [], [], []
    end = FIRST + 10 * S
    for who, odd in enumerate(ranks):
        for k, number in enumerate(odd.numbers):
            at = odd.begin + k * (odd.lasting + odd.beside)
            said += [(who, BEGIN, number, ABSENT, at), (who, END, number, odd.examples, at + odd.lasting)]
            half = at + odd.lasting // 2
            if odd.spanned:
                phases.append((who, "phase.input", at, half, ABSENT, 1))
                phases.append((who, "phase.communicate", half, at + odd.lasting, ABSENT, 1))
        called += [(who, 0, FIRST + k * S, MS) for k in range(odd.calls)]
        for k in range(odd.readings):
            value = ABSENT if odd.growth is None else k * odd.growth
            read.append((who, FIRST - S + k * S, [value] * len(READ)))
    roles = [odd.role for odd in ranks]
    one = batch(
        begin_ns=FIRST,
        end_ns=end,
        ranks=[rank(role=r, index=roles[:i].count(r), pid=100 + i) for i, r in enumerate(roles)],
        marks=marks(sorted(said, key=lambda mark: mark[4]), asynchronous),
        kernels=[kernel()],
        calls=calls(sorted(called, key=lambda call: call[2])),
        spans=spans(sorted(phases, key=lambda span: span[2])),
        counter_sets=[counter_set("process", READ)],
        samples=[samples(0, sorted(read, key=lambda reading: reading[1]), READ)],
    )
    node.put(store, one)
    return store
