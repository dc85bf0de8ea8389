"""Jobs on two nodes with ceilings."""

from __future__ import annotations

from collections.abc import Iterable

from roofline.answers.machines import Ceiling
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ..builders import DRAM, PEAK_F32, UNIX, Node, S, rank, training

A, B = Node("a", UNIX, "hosta"), Node("b", UNIX + 77 * S, "hostb")


def job_on(store: Store, *nodes: Node, ceilings: Iterable[Ceiling] = (PEAK_F32, DRAM)) -> JobView:
    """A job with two workers a node, the first node's with these ceilings."""
    for at, node in enumerate(nodes):
        node.greet(store)
        ranks = [rank(index=2 * at + i, pid=100 + 2 * at + i) for i in (0, 1)]
        node.put(store, *training(ranks, batches=2, stepping=(0, 1)))
    view = store.view("job")
    assert view
    first = min(view.machines)
    machines = {**view.machines, first: view.machines[first]._replace(ceilings=tuple(ceilings))}
    return view._replace(machines=machines)


def number_of(view: JobView, index: int) -> int:
    return next(number for number, key in view.ranks.items() if key.index == index)
