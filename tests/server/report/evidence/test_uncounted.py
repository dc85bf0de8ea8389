"""What was counted while nothing counted is not known: it lowers no rate and no mean."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline.answers.values import Provenance, Value
from roofline.v1 import ingest_pb2 as pb
from roofline_server.report.job.build import build
from roofline_server.report.questions import ALL_STEPS
from roofline_server.report.steps.steps import steps_table
from roofline_server.sentences import reasons
from roofline_server.store.view import JobView

from ...builders import (
    BEGIN,
    CUMULATIVE,
    END,
    GAUGE,
    PROCESS,
    S,
    batch,
    counter_set,
    marks,
    open_store,
    rank,
    samples,
)
from ..work import CPU, FIRST, Host

STEPS = 10
BUSY = (("node_cpu_busy_ns", CUMULATIVE, False),)
NODE = -1


def counted(metric: str) -> tuple[tuple[str, int, bool], ...]:
    return ((metric, CUMULATIVE, False), (f"{metric}.coverage", GAUGE, True))


def set_of(name: str, metric: str) -> pb.CounterSet:
    made = counter_set(name, counted(metric))
    made.metrics[1].coverage_of = metric
    return made


def readings(whose: int, share: float) -> list[tuple[int, int, tuple[float, float]]]:
    """10 G a second, each second; nothing counts from 5 s to 10 s, which the first sample behind tells."""
    before = [(whose, FIRST + t * S, ((t + 1) * 10**10, share)) for t in range(-1, 6)]
    after = [(whose, FIRST + t * S, ((t - 4) * 10**10, share if t > 10 else 0.0)) for t in (10, 11, 12)]
    return before + after


def viewed(tmp_path: Path, counters: pb.CounterSet, metric: str, whose: int, share: float) -> JobView:
    """Of a rank with ten steps of a second."""
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    said = [(0, kind, k, 8, FIRST + (k + kind - BEGIN) * S) for k in range(STEPS) for kind in (BEGIN, END)]
    every = [FIRST + t * S for t in range(-1, STEPS + 3)]
    host.put(
        store,
        batch(
            1,
            FIRST - 2 * S,
            FIRST + 13 * S,
            ranks=[rank()],
            counter_sets=[counter_set("process", PROCESS), counters, counter_set("node", BUSY)],
            samples=[
                samples(0, [(0, t, (t - FIRST + S, 1000)) for t in every], PROCESS),
                samples(1, readings(whose, share), counted(metric)),
                samples(2, [(NODE, t, (t - FIRST + S,)) for t in every], BUSY),
            ],
            marks=marks(said),
        ),
    )
    view = store.view("job")
    assert view is not None
    return view


def values(
    tmp_path: Path, counters: pb.CounterSet, metric: str, whose: int, share: float
) -> dict[str, Value]:
    (found,) = build(viewed(tmp_path, counters, metric, whose, share), ALL_STEPS).ranks
    return found.summary.values


@pytest.mark.parametrize("origin", [Provenance.MEASURED, Provenance.ESTIMATED])
def test_table_of_steps_says_which_counts_are_estimates(tmp_path: Path, origin: Provenance) -> None:
    made = set_of("perf", "flops.f32.512")
    made.metrics[0].provenance = origin.number
    view = viewed(tmp_path, made, "flops.f32.512", 0, 1.0)
    (chunk,) = steps_table(view, (), ALL_STEPS, "synchronous")
    (found,) = [c.provenance for c in chunk.columns if c.name == "flops.measured"]
    assert found == origin


def test_gap_of_perf_lowers_no_flops(tmp_path: Path) -> None:
    metric = "flops.f32.512"
    found = values(tmp_path, set_of("perf", metric), metric, 0, 1.0)
    for name in ("flops_per_step.measured", "flops_per_second.measured"):
        assert found[name].value == pytest.approx(1e10)
        assert found[name].coverage == pytest.approx(0.5)
        assert "multiplexed" not in found[name].reason


def test_gap_and_multiplexing_of_a_nodes_traffic_are_told(tmp_path: Path) -> None:
    found = values(tmp_path, set_of("perf_system", "dram_bytes"), "dram_bytes", NODE, 0.3)
    for name in ("bytes_per_step.dram", "dram_bytes_per_second"):
        assert found[name].value == pytest.approx(1e10)
        assert found[name].coverage == pytest.approx(0.5 * 0.3)


@pytest.mark.parametrize(("flops", "instructions"), [(0, 4 * 10**9), (0, 10**6), (7, 4 * 10**9)])
def test_flops_that_read_zero_beside_many_instructions_are_not_known(
    tmp_path: Path, flops: int, instructions: int
) -> None:
    """Virtual machines offer floating-point events that do not count."""
    metrics = (("instructions", CUMULATIVE, False), ("flops.f64.scalar", CUMULATIVE, False))
    store, host = open_store(tmp_path), Host("a", CPU)
    host.greet(store)
    ends = [(0, kind, k, 8, FIRST + (k + kind - BEGIN) * S) for k in range(STEPS) for kind in (BEGIN, END)]
    read = [(0, FIRST + t * S, (t * instructions // STEPS, t * flops)) for t in range(STEPS + 3)]
    sent = batch(
        1,
        FIRST - 2 * S,
        FIRST + 13 * S,
        ranks=[rank()],
        counter_sets=[counter_set("perf", metrics)],
        samples=[samples(0, read, metrics)],
        marks=marks(ends),
    )
    host.put(store, sent)
    view = store.view("job")
    assert view is not None
    (found,) = build(view, ALL_STEPS).ranks
    value = found.summary.values["flops_per_second.measured"]
    shown = {c.name for chunk in steps_table(view, (), ALL_STEPS, "synchronous") for c in chunk.columns}
    is_absent = not flops and instructions > 10**9
    assert value.value == (None if is_absent else pytest.approx(flops))
    assert (value.reason == reasons.EVENTS_READ_ZERO) == is_absent
    assert ("flops.measured" in shown) != is_absent
    assert (reasons.EVENTS_READ_ZERO in found.summary.values["flops_per_step"].reason) == is_absent
