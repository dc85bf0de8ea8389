"""Counters of nodes in the steps of a rank that moves."""

from __future__ import annotations

import numpy as np
from roofline.v1 import ingest_pb2 as pb
from roofline_server.correlate.homes import Home, nodes_of
from roofline_server.store.store import Store

from ...builders import BORDER, CUMULATIVE, Node, S, batch, counter_set, marks, rank, samples, window_table
from ..histories import JOB, A, B

COUNTED = (("cpu_busy_ns", CUMULATIVE, False),)
B_LATER_NS = A.offset_ns - B.offset_ns  # node time of B less that of A


def sent(node: Node, a_second: int, moved_ns: int, pid: int, first: int) -> list[pb.Batch]:
    """Forty seconds of rank 0 in batches of ten, in steps of a second; the node counts so much a second."""
    made = []
    for number in range(4):
        begin = (100 + 40 * (first > 0) + 10 * number) * S + moved_ns
        seconds = range(10)
        counts = [(-1, begin + s * S, (a_second * (10 * number + s),)) for s in seconds]
        steps = [(0, BORDER, first + 10 * number + s, 1, begin + s * S) for s in seconds]
        made.append(
            batch(
                number + 1,
                begin,
                begin + 10 * S,
                ranks=[rank(pid=pid, start_ns=begin - 10 * number * S - 2 * S)],
                counter_sets=[counter_set("node", COUNTED)],
                samples=[samples(0, counts, COUNTED)],
                marks=marks(steps),
            )
        )
    return made


def per_step(store: Store) -> list[int]:
    view = store.view(JOB)
    assert view
    table = view.steps["steps_node_node"]
    delta = table["cpu_busy_ns.end"] - table["cpu_busy_ns.begin"]
    return np.rint(delta[np.argsort(table["step"])]).tolist()


def test_steps_before_a_rank_moved_have_the_counters_of_the_node_of_then(store: Store) -> None:
    for node in (A, B):
        node.greet(store)
    A.put(store, *sent(A, 100, 0, 100, 0))
    store.seal()
    B.put(store, *sent(B, 7, B_LATER_NS, 200, 100))
    moved = per_step(store)
    assert moved == 39 * [100] + 39 * [7]
    store.seal()
    assert per_step(store) == moved


def test_step_that_another_reported_was_where_the_rank_lived_when_it_ended() -> None:
    windows = window_table([(0, k, 10 * k, 10 * k + 9) for k in range(4)] + [(1, 0, 0, 9), (2, 0, 0, 9)])
    homes = {0: [Home(0, 5), Home(21, 6)], 1: [Home(0, 7)]}
    assert nodes_of(windows, homes).tolist() == [5, 5, 6, 6, 7, -1]
    both = {"sender": np.array([1, 0, 0, 1, 1, 1]), "node": np.full(6, 8)}
    assert nodes_of({**windows, **both}, homes).tolist() == [5, 8, 8, 6, 8, -1]
