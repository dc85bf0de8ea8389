"""Steps that are longer than a sealing reads back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from roofline.v1 import ingest_pb2 as pb
from roofline_server.store.steps.sealed import SILENT_NS
from roofline_server.store.store import Store

from ...builders import (
    BEGIN,
    BORDER,
    END,
    PROCESS,
    Node,
    S,
    batch,
    calls,
    catalog_of,
    counter_set,
    crash,
    kernel,
    marks,
    open_store,
    rank,
    samples,
)
from ..histories import JOB, all_at_once, segments, steps

NODE = Node("a")
EVERY_NS, STEP_S = 300 * S, 1200
Marks = list[tuple[int, int, int, int]]  # rank, kind, step, time


def sent(found: Marks, seconds: int, every_s: int = 30) -> list[pb.Batch]:
    """Batches of 300 seconds with these marks, and samples and a kernel of both ranks every so often."""
    made = []
    for number, begin in enumerate(range(300 * S, seconds * S, EVERY_NS), start=1):
        end = begin + EVERY_NS
        seen = [(r, t, (r + t // S, 5)) for t in range(begin, end, every_s * S) for r in (0, 1)]
        some = [(r, kind, step, 32, t) for r, kind, step, t in found if begin <= t < end]
        made.append(
            batch(
                number,
                begin,
                end,
                ranks=[rank(), rank(index=1, pid=101)],
                counter_sets=[counter_set("process", PROCESS)],
                samples=[samples(0, seen, PROCESS)],
                marks=marks(some),
                kernels=[kernel()],
                calls=calls([(r, 0, t, 1000) for r, t, _ in seen]),
                events=[
                    pb.Event(kind=pb.EVENT_KIND_KERNELS_COVERED, rank=r, begin_ns=begin, end_ns=end)
                    for r in (0, 1)
                ],
            )
        )
    return made


def greeted(root: Path) -> Store:
    """A store that knows the node's clock for hours."""
    store = open_store(root)
    NODE.greet(store)
    return store


def marks_of(kind: str) -> Marks:
    """Three steps of rank 0; after each, of those that begin apart, ten seconds of something else."""
    edges = [450 * S + k * STEP_S * S for k in range(4)]
    found: Marks = []
    for k, (begin, end) in enumerate(pairwise(edges)):
        if kind == "border":
            found += [(0, BORDER, k, begin)]
        else:
            found += [(0, BEGIN, k, begin), (0, END if kind == "pair" else BORDER, k, end - 10 * S)]
    return [*found, (0, BORDER, 3, edges[3])] if kind == "border" else found


@pytest.mark.parametrize(
    "kind", ["border", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("pair", "apart"))]
)
def test_steps_of_many_sealings_are_whole(tmp_path: Path, kind: str) -> None:
    store = greeted(tmp_path)
    batches = sent(marks_of(kind), 900 + 3 * STEP_S)
    for one in batches:
        NODE.put(store, one)
        seen = steps(store)
        store.seal()
        assert steps(store) == seen
    whole = all_at_once(store, [(NODE, one) for one in batches])
    assert len(whole["steps"]) == 3
    assert steps(store) == whole
    assert sum(one.rows for one in segments(store, "steps") if one.dataset == "steps") == 3
    store.close()


@pytest.mark.slow
def test_begin_of_a_long_step_outlives_the_server(tmp_path: Path) -> None:
    store = greeted(tmp_path)
    batches = sent(marks_of("border"), 900 + 3 * STEP_S)
    for one in batches:
        NODE.put(store, one)
        store.seal()
        crash(store)
        store = greeted(tmp_path)
    assert steps(store) == all_at_once(store, [(NODE, one) for one in batches])
    store.close()


def test_step_that_never_ends_has_not_ever_more_read_again(tmp_path: Path) -> None:
    store, begins = greeted(tmp_path), [350 * S + k * 50 * S for k in range(40)]
    of_0 = [(0, kind, k, at) for k, t in enumerate(begins) for kind, at in ((BEGIN, t), (END, t + 49 * S))]
    for one in sent([(1, BEGIN, 7, 340 * S), *of_0], 2000):
        NODE.put(store, one)
        store.seal()
        with catalog_of(tmp_path) as catalog:
            progress = catalog.progress(JOB)
        assert progress.through_ns - progress.resume_ns <= SILENT_NS
    assert [mark.step for mark in progress.opened] == [7]
    store.close()
