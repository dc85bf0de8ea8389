"""Steps that a framework's profiler recorded: their time counts nowhere, their work where nothing else is
known."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.report import Report
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS, STEADY_STEPS, Steps
from roofline_server.store.store import Store

from ...builders import BORDER, MS, S, batch, calls, marks, open_store, rank
from ..work import CPU, FIRST, Host

STEPS, SLOW = 40, 5  # traced steps last so many times longer
TRACED = (20, 21)
OPERATOR = pb.Kernel(library="torch", operation="aten::mm", precision="f32", flops=10**9, bytes=10**6)
LIBRARY = pb.Kernel(library="mkl", operation="gemm", precision="f32", flops=2 * 10**9, bytes=10**6)


def store_of(tmp_path: Path, sampled: tuple[int, ...] = (), ranks: int = 1) -> Store:
    """Steps of 10 ms, of which rank 0 had two traced. sampled: steps in which a library's kernels were
    recorded."""
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    now, said, called, events = FIRST, [(r, BORDER, 0, 0, FIRST) for r in range(ranks)], [], []
    for k in range(1, STEPS):
        begin, now = now, now + 10 * MS * (SLOW if k in TRACED else 1)
        said += [(r, BORDER, k, 8, now) for r in range(ranks)]
        if k in TRACED or k in sampled:
            called.append((0, int(k in sampled), begin + MS, 2 * MS))
            covered = pb.EVENT_KIND_KERNELS_COVERED
            events.append(pb.Event(kind=covered, rank=0, begin_ns=begin, end_ns=now))
    facts = ["trace.steps=20-21", "trace.state=recorded: steps 20-21, 2 operators"]
    facts += ["cost.kernels=1/16"] if sampled else []
    events += [
        pb.Event(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=FIRST, end_ns=FIRST, text=text) for text in facts
    ]
    content = {
        "ranks": [rank(index=r, pid=100 + r) for r in range(ranks)],
        "kernels": [OPERATOR, LIBRARY],
        "calls": calls(called),
        "marks": marks(said, likes=dict.fromkeys(range(1, STEPS), 1)),
        "events": events,
    }
    host.put(store, batch(1, FIRST - S, now + S, **content))
    return store


def report(store: Store, steps: Steps = STEADY_STEPS) -> Report:
    view = store.view("job")
    assert view is not None
    return build(view, steps)


def value(found: Report, name: str, at: int = 0) -> float | None:
    return found.ranks[at].summary.values[name].value


@pytest.mark.parametrize("ranks", [1, 2])
def test_their_time_counts_in_no_mean_of_any_rank(tmp_path: Path, ranks: int) -> None:
    found = report(store_of(tmp_path, ranks=ranks))
    for at in range(ranks):
        assert value(found, "step_time_median", at) == pytest.approx(0.010)
    left = {one.reason: one for one in found.verdict.left_out}
    assert left["traced"].steps == len(TRACED)
    assert left["traced"].cost.value == pytest.approx(0.1)
    assert "trace of worker:0: recorded: steps 20-21, 2 operators" in found.notes


def test_their_work_is_that_of_steps_like_them_where_nothing_else_is_known(tmp_path: Path) -> None:
    assert value(report(store_of(tmp_path)), "flops_per_step") == 10**9


@pytest.mark.parametrize("steps", [STEADY_STEPS, ALL_STEPS])
def test_kernels_of_a_sample_go_before_theirs(tmp_path: Path, steps: Steps) -> None:
    assert value(report(store_of(tmp_path, sampled=(5, 30)), steps), "flops_per_step") == 2 * 10**9


def test_they_have_their_own_where_they_are_asked_for(tmp_path: Path) -> None:
    store = store_of(tmp_path, sampled=(5, 30))
    assert value(report(store, Steps(10, 30)), "flops_per_step") == 2 * 10**9, "not among others"
    found = report(store, Steps(20, 21))
    assert value(found, "flops_per_step") == 10**9
    assert value(found, "step_time_median") == pytest.approx(0.050)
