"""A recording as an agent's batches: contiguous, small, idempotent, nothing dropped in silence."""

from __future__ import annotations

import pytest
from roofline_agent.recorded.batches import (
    THINGS_PER_BATCH,
    Target,
    batches,
    duration_s,
    identity,
    places_something,
    set_name,
)
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.recording import Counter, Kernel, Launch, StepLine, Throughput
from roofline_agent.records import Batch, EventKind, MarkKind
from roofline_agent.sources.nvml import NvmlSource
from roofline_agent.uplink.encoding import encode

BEGIN, SECOND = 1_700_000_000 * 10**9, 10**9
TARGET = Target("7", "worker", 3, BEGIN)


def collected(*launches: Launch) -> Collector:
    found = Collector(keep_launches=True)
    found.tool = "ncu"
    for launch in launches:
        found.launch(launch)
    return found


def made(found: Collector) -> list[Batch]:
    return list(batches(found, TARGET))


def test_totals_without_a_time_have_no_place() -> None:
    found = Collector()
    found.tool = "perf stat"
    found.counters.append(Counter("cycles", "cycles", 5.0, "1"))
    assert not places_something(found, TARGET)
    found.duration_s = 2.0
    assert places_something(found, TARGET)
    assert places_something(collected(Launch("a", 1.0)), TARGET)


def test_launches_without_a_time_stamp_lie_behind_each_other() -> None:
    counted = {"dram": 5.0, "l2": 6.0, "l1": 7.0}
    found = collected(Launch("a", 1.0, 10.0, counted), Launch("b", 2.0), Launch("c", 0.5, start_s=10.0))
    calls = [call for batch in made(found) for call in batch.calls]
    assert [(c.start_ns - BEGIN, c.duration_ns) for c in calls] == [
        (0, SECOND),
        (SECOND, 2 * SECOND),
        (10 * SECOND, SECOND // 2),
    ]
    first, second, third = (c.shape for c in calls)
    assert (first.flops, first.bytes) == (10, None)
    assert (first.dram_bytes, first.l2_bytes, first.l1_bytes) == (5, 6, 7)
    assert (second.flops, second.dram_bytes, second.l2_bytes, second.l1_bytes) == (None,) * 4
    assert "behind the kernel before" in first.note
    assert third.note == ""


def test_kernels_summed_by_their_tool_are_sent_too() -> None:
    found = collected()
    found.kernel(Kernel("gemm", 6, 3.0, 600.0, {"dram": 60.0}))
    calls = [call for batch in made(found) for call in batch.calls]
    assert [(call.start_ns - BEGIN, call.duration_ns) for call in calls] == [
        (at * SECOND // 2, SECOND // 2) for at in range(6)
    ]
    (call,) = {call._replace(start_ns=0) for call in calls}
    assert (call.shape.operation, call.shape.flops, call.shape.dram_bytes) == ("gemm", 100, 10)
    assert "sum of 6 launches" in call.shape.note
    assert (call.shape.on_gpu, call.shape.counted) == (None, None)


def test_kernels_launched_very_often_are_sent_in_fewer_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofline_agent.recorded.batches.MOST_PARTS", 10)
    found = collected(Launch("often", 1.0, 1e6, count=1000), Launch("seldom", 1.0, 9.0, count=3))
    calls = [call for batch in made(found) for call in batch.calls]
    assert [(call.shape.operation, call.shape.flops) for call in calls] == [
        *[("often", 200_000)] * 5,
        *[("seldom", 3)] * 3,
    ]
    assert any("stands for several" in one.text for one in found.warnings)


def test_where_kernels_ran_and_whether_their_flops_were_counted_is_sent() -> None:
    found = collected(Launch("a", 1.0, 5.0, on_gpu=True, counted=False))
    found.kernel(Kernel("region", 1, 1.0, 5.0, {}, counted=True))
    first, second = (call.shape for batch in made(found) for call in batch.calls)
    assert ((first.on_gpu, first.counted), (second.on_gpu, second.counted)) == ((True, False), (None, True))


def test_whole_time_is_watched_and_the_rank_ends() -> None:
    sent = made(collected(Launch("a", 4.0)))
    assert (sent[0].begin_ns, sent[0].end_ns) == (BEGIN, BEGIN + 4 * SECOND)
    assert all(b.begin_ns == b.end_ns == BEGIN + 4 * SECOND for b in sent[1:])
    kinds = [event.kind for batch in sent for event in batch.events]
    assert kinds == [EventKind.RANK_STARTED, EventKind.RANK_EXITED, EventKind.KERNELS_COVERED]
    assert {rank.key for batch in sent for rank in batch.ranks} == {"worker:3"}


def test_kernels_without_a_time_stamp_are_all_of_the_run_but_of_no_step() -> None:
    def covered(*launches: Launch) -> bool:
        found = collected(*launches)
        found.steps.append(StepLine(1, None, t_s=0.0, step_time_s=1.0))
        kinds = [event.kind for batch in made(found) for event in batch.events]
        return EventKind.KERNELS_COVERED in kinds

    placed, laid = Launch("a", 1.0, start_s=0.0), Launch("b", 1.0)
    assert covered(placed)
    assert not covered(placed, laid)
    assert covered(placed, Launch("c", None, 5.0)), "it is not sent"
    assert not covered()


def test_batches_stay_small() -> None:
    found = collected(*(Launch("k" * 900, 1e-6) for _ in range(2 * THINGS_PER_BATCH + 1)))
    for at in range(3000):
        for metric in ("a", "b", "c"):
            found.counters.append(Counter(metric, metric, 1.0, "1", t_s=float(at), kind="delta"))
    sizes = [len(encode(batch, n)) for n, batch in enumerate(made(found), 1)]
    assert len(sizes) > 4
    assert max(sizes) < 700_000


def test_steps_with_times_are_marks_and_those_without_are_warned_of() -> None:
    found = collected(Launch("a", 4.0))
    found.throughput = Throughput("images", 10.0, 10.0, 1, batch=32)
    found.steps.append(StepLine(5, None, t_s=1.0, step_time_s=0.5))
    marks = [mark for batch in made(found) for mark in batch.marks]
    assert [(m.kind, m.step, m.examples, m.time_ns - BEGIN) for m in marks] == [
        (MarkKind.BEGIN, 5, None, SECOND),
        (MarkKind.END, 5, 32, SECOND * 3 // 2),
    ]
    found = collected(Launch("a", 4.0))
    found.steps.append(StepLine(5, 100.0))
    assert not [mark for batch in made(found) for mark in batch.marks]
    assert any("when its steps were" in w.text for w in found.warnings)


def test_totals_without_a_length_are_warned_of() -> None:
    found = collected()
    found.counters.append(Counter("cycles", "cycles", 5.0, "1"))
    assert not [counter_set for batch in made(found) for counter_set in batch.samples]
    assert any("how long it ran" in w.text for w in found.warnings)


def test_length_is_that_of_whatever_ends_last() -> None:
    found = collected(Launch("a", 4.0), Launch("b", 1.0))
    assert duration_s(found) == 5.0
    found.duration_s = 9.0
    assert duration_s(found) == 9.0


def test_more_examples_than_can_be_are_not_sent() -> None:
    found = collected()
    found.steps.append(StepLine(1, None, t_s=0.0, step_time_s=1.0))
    found.throughput = Throughput("examples", None, None, 1, batch=10**20)
    assert [mark.examples for batch in made(found) for mark in batch.marks] == [None, None]


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e12, -1e12])
def test_times_that_cannot_be_are_left_out_and_warned_of(seconds: float) -> None:
    found = collected(Launch("good", 2.0, start_s=0.0), Launch("odd", 1.0, start_s=seconds))
    found.steps.append(StepLine(1, None, t_s=1.0, step_time_s=seconds))
    found.counters.append(Counter("odd", "odd", 7.0, "1", "process", t_s=seconds))
    found.duration_s = seconds
    assert duration_s(found) == 2.0
    sent = made(found)
    assert [call.shape.operation for batch in sent for call in batch.calls] == ["good"]
    assert not any(batch.marks or batch.samples for batch in sent)
    assert {batch.end_ns for batch in sent} == {BEGIN + 2 * SECOND}
    assert [one.text for one in found.warnings] == [
        "kernels at times that cannot be are not sent",
        "steps at times that cannot be are not sent",
    ]


def test_same_file_for_the_same_rank_is_the_same_agent() -> None:
    assert identity("abc", TARGET) == identity("abc", TARGET._replace(begin_ns=5))
    assert (
        len({identity("abc", TARGET), identity("abd", TARGET), identity("abc", TARGET._replace(job="8"))})
        == 3
    )


def test_counters_go_where_those_of_the_live_source_go() -> None:
    assert (set_name("perf stat", True, False), set_name("perf stat", False, False)) == (
        "perf",
        "perf_system",
    )
    assert set_name("LIKWID 5.2", False, False) == "likwid"
    assert set_name("Some Tool (x)", True, False) == "recorded_some_tool_x"
    assert set_name("LIKWID 5.2", False, True) == "recorded_likwid_5_2_gauges"
    assert set_name("dcgm-exporter", False, True) == "dcgm"
    assert set_name("nvidia-smi", False, True) == NvmlSource.counter_set.name


def test_bytes_of_an_activity_are_a_sum_only_if_each_time_has_some() -> None:
    found = collected()
    for name, moved in (
        ("all", 4.0),
        ("all", 5.0),
        ("some", 4.0),
        ("some", None),
        ("late", None),
        ("late", 4.0),
    ):
        found.phase(name, 1.0, 1, moved)
    assert {phase.name: (phase.count, phase.bytes) for phase in found.phases} == {
        "all": (2, 9.0),
        "some": (2, None),
        "late": (2, None),
    }
