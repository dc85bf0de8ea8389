from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from roofline.answers.about import About
from roofline.answers.time_roofline import TimePanel, TimePoint, TimeRoofline
from roofline.answers.values import Provenance
from roofline_server.errors import BadRequest, UnknownJob, UnknownRank
from roofline_server.model.evidence import CountedFlops, CounterEvidence
from roofline_server.report.evidence.ranks import NEEDED as OF_REPORT
from roofline_server.report.kernels.totals import NEEDED as OF_KERNELS
from roofline_server.report.questions import ALL_STEPS, Steps, Subject
from roofline_server.report.time_roofline import time_rooflines, works
from roofline_server.report.time_roofline.time_rooflines import TimeRooflineQuery, time_roofline
from roofline_server.sentences import time_rooflines as texts
from roofline_server.store.catalog.machine_versions import LateCeilings
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ...builders import DRAM, MS, PEAK_F64, batch, open_store, rank
from ...model.evidence import evidence, kernels, steps
from ..work import CPU, GPU_F32, HBM, LAUNCH, Call, Host, kernel, run, store_of

US = 1000
GEMM = kernel("matmul", 40_000_000, 100_000)  # 400 FLOP/byte: above the balance of 40
POOL = kernel("pooling", 1_000_000, 1_000_000)  # 1 FLOP/byte
REORDER = kernel("reorder", 0, 500_000)
SOFTMAX = kernel("softmax", None, None)


def ask(store: Store, points: str = "kernel", job: str = "job", **more: object) -> TimeRoofline:
    steps = more.pop("steps", ALL_STEPS)
    ranks = more.pop("ranks", ())
    asked = {"experiment": "", "jobs": (), "over": "", **more}
    return time_roofline(store, TimeRooflineQuery(Subject(job, steps, ranks), points=points, **asked))  # type: ignore[arg-type]


def only(found: TimeRoofline) -> TimePanel:
    (panel,) = found.panels
    return panel


def by_label(panel: TimePanel) -> dict[str, TimePoint]:
    return {point.label: point for point in panel.points}


def test_kernels_are_placed_by_what_they_do_in_a_step(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 2, 20 * US), Call(POOL, 1, 10 * US))
    panel = only(ask(store))
    assert (panel.host, panel.device, panel.precision) == ("host-a", "", "f32")
    assert panel.balance.value == 40
    gemm, pool = panel.points
    assert (gemm.label, gemm.kind, gemm.role, gemm.rank, gemm.job) == (
        "matmul 8x8",
        "kernel",
        "worker",
        "worker:0",
        "job",
    )
    assert (gemm.flops.value, gemm.bytes.value, gemm.launches) == (80_000_000, 200_000, 2)
    assert gemm.time.value == pytest.approx(40e-6)
    # 80 MFLOP at 4 TFLOP/s are 20 us; it took 40 us.
    assert gemm.compute_time.value == pytest.approx(40e-6)
    assert gemm.time_flops == pytest.approx(160e6)
    assert gemm.bandwidth_time.value == pytest.approx(4e-6)
    assert gemm.time_spread is not None and gemm.time_spread.p50 == pytest.approx(20e-6)
    assert (pool.bandwidth_time.value, pool.level) == (pytest.approx(10e-6), "minimum")
    assert pool.time_bytes == pytest.approx(1e6)


def test_what_takes_no_longer_than_its_launches_is_bound_by_them(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 2, 21 * US), Call(POOL, 4, 19 * US))
    points = by_label(only(ask(store)))
    assert (points["matmul 8x8"].bound, points["pooling 8x8"].bound) == ("compute", "overhead")
    boxes = only(ask(store)).boxes
    assert [(box.launches, box.label) for box in boxes] == [
        (1, "1 launch"),
        (6, "6 launches (worker, a step)"),
    ]
    assert boxes[1].flops == pytest.approx(6 * 2e-5 * 4e12)
    assert boxes[1].bytes == pytest.approx(6 * 2e-5 * 1e11)


def test_step_launches_as_much_as_one_rank_does_in_all_precisions(tmp_path: Path) -> None:
    double = kernel("matmul", 1000, 1000, precision="f64")
    called = [Call(GEMM, 2, 20 * US), Call(double, 3, 10 * US)]
    store = store_of(tmp_path, *called, ranks=4, ceilings=(*CPU, PEAK_F64), facts=["tag.layers=1"])
    for found in (ask(store), ask(store, "step"), ask(store, over="layers")):
        for panel in found.panels:
            assert [box.launches for box in panel.boxes] == [1, 5]
            assert panel.boxes[1].label == "5 launches (worker, a step)"


def test_kernels_that_are_not_shown_are_launched_too(tmp_path: Path) -> None:
    other = kernel("matmul", 2000, 1000, problem="4x4")
    store = store_of(tmp_path, Call(GEMM, 2, 20 * US), Call(other, 4, US), facts=["tag.layers=1"])
    panel = only(ask(store, over="layers"))
    assert [point.label for point in panel.points] == ["matmul"]
    assert [box.launches for box in panel.boxes] == [1, 6]


def test_kernels_without_flops_are_counted_apart(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 1, 20 * US), Call(REORDER, 3, 5 * US), Call(SOFTMAX, 1, 7 * US))
    found = ask(store)
    panel = only(found)
    assert list(by_label(panel)) == ["matmul 8x8"]
    assert (panel.no_flop_launches.value, panel.no_flop_time.value) == (3, pytest.approx(15e-6))
    assert any("FLOPs are not known" in note and "softmax" in note for note in found.notes)


def test_isocurves_span_the_points(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 1, 20 * US), Call(POOL, 1, 10 * MS))
    seconds = [curve.seconds for curve in only(ask(store)).isocurves]
    assert seconds == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2])


def test_ranks_of_a_role_are_pooled_and_the_peaks_shared(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 2, 20 * US), ranks=3)
    found = ask(store)
    (gemm,) = only(found).points
    assert (gemm.rank, gemm.flops.value, gemm.launches) == ("", 80_000_000, 2)
    assert any("3 ranks share the peaks" in note for note in found.notes)
    assert any("3 ranks share the peaks" in note for note in ask(store, "step").notes)


def test_one_rank_has_the_peaks_alone(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 2, 20 * US), Call(POOL, 2, 20 * US), ranks=2)
    found = ask(store, ranks=("worker:1",))
    assert {p.rank for p in only(found).points} == {"worker:1"}
    assert not any("share the peaks" in note for note in found.notes)


def test_each_precision_has_its_panel_and_the_busiest_comes_first(tmp_path: Path) -> None:
    double = kernel("matmul", 1000, 1000, precision="f64")
    store = store_of(
        tmp_path,
        Call(GEMM, 1, 20 * US),
        Call(double, 1, 90 * US),
        Call(REORDER, 1, US),
        ceilings=(*CPU, PEAK_F64),
    )
    first, second = ask(store).panels
    assert (first.precision, second.precision) == ("f64", "f32")
    assert (first.no_flop_launches.value, second.no_flop_launches.value) == (1, 0)
    assert (first.balance.value, second.balance.value) == (20, 40)


def test_kernels_of_a_gpu_have_its_roof_and_counted_bytes(tmp_path: Path) -> None:
    gpu = kernel("volta_sgemm", 10**9, None, library="cuda", dram_bytes=10**7)
    store = store_of(tmp_path, Call(gpu, 1, 100 * US), Call(GEMM, 1, 20 * US), ceilings=(*CPU, HBM, GPU_F32))
    found = ask(store)
    panel, cpu = found.panels
    assert (panel.device, cpu.device) == ("gpu 0", "")
    (point,) = panel.points
    assert (point.level, point.bytes.value, point.bytes.provenance) == ("hbm", 1e7, Provenance.MEASURED)
    assert panel.balance.value == 20
    assert panel.launch_overhead.value is None
    assert "calibrate --python" in panel.launch_overhead.reason


def test_steps_are_placed_by_their_mean(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 2, 20 * US), Call(REORDER, 1, US), ranks=2)
    panel = only(ask(store, "step"))
    assert [(p.label, p.rank, p.kind) for p in panel.points] == [
        (f"worker:{i}",) * 2 + ("step",) for i in (0, 1)
    ]
    step = panel.points[0]
    assert (step.flops.value, step.bytes.value, step.launches) == (80_000_000, 700_000, 3)
    assert step.time.value == pytest.approx(0.1)
    assert step.time_spread is not None and step.time_spread.count == 10
    assert panel.no_flop_launches.value is None and "kernels" in panel.no_flop_launches.reason


def test_uneven_steps_keep_their_intensity(tmp_path: Path) -> None:
    """Six steps of 1 GFLOP and four of 10, each FLOP with a byte of DRAM."""
    view = store_of(tmp_path, Call(GEMM, 1, US)).view("job", OF_REPORT)
    assert view is not None
    counted = kernels([10**9] * 6 + [10**10] * 4)
    rank = evidence(kernels=counted, dram=CounterEvidence(4.6e10, 10, 10, 4.6e9), dram_is_bound=False)
    (found,) = works.steps(view, {0: rank})
    assert found.flops == found.bytes == 4.6e9


def test_mean_flops_of_counters_go_with_the_mean_time(tmp_path: Path) -> None:
    """Three short steps and a long one, all at 1 TFLOP/s."""
    view = store_of(tmp_path, Call(GEMM, 1, US)).view("job", OF_REPORT)
    assert view is not None
    some = steps(*((k, 2.0 * k, 2.0 * k + (0.1 if k % 4 else 1.7)) for k in range(8)))
    counted = CountedFlops(CounterEvidence(4e12, 16, 8, 5e11))
    (found,) = works.steps(view, {0: evidence(steps=some, counted_flops=counted)})
    assert found.flops is not None and found.flops / found.seconds == pytest.approx(1e12)


def test_few_long_calls_do_not_rule_what_is_said(tmp_path: Path) -> None:
    """Calls of 10 us at the peak, and one in 31 that takes 50 ms."""
    store = store_of(tmp_path, Call(GEMM, 30, 10 * US), Call(GEMM, 1, 50 * MS))
    (gemm,) = only(ask(store)).points
    assert gemm.time.value == pytest.approx(50.3e-3)
    assert gemm.words.startswith("bound by computing, at ") or gemm.words.startswith("bound by launching")
    assert "judged by the median: a few calls took much longer, and the mean is 1" in gemm.words


def test_calls_of_equal_length_are_judged_by_their_mean(tmp_path: Path) -> None:
    (gemm,) = only(ask(store_of(tmp_path, Call(GEMM, 2, 20 * US)))).points
    assert "median" not in gemm.words


def test_launches_that_nobody_recorded_are_said_to_be_left_out(tmp_path: Path) -> None:
    said = texts.RECORDED_ALONE
    assert said in ask(store_of(tmp_path / "many", Call(GEMM, 4, 20 * US))).notes
    assert said not in ask(store_of(tmp_path / "one", Call(GEMM, 1, 20 * US))).notes


def test_range_of_steps_is_respected(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 1, 20 * US))
    (gemm,) = only(ask(store, steps=Steps(2, 4))).points
    assert "3 steps" in gemm.flops.reason
    with pytest.raises(BadRequest, match="first comes after"):
        ask(store, steps=Steps(4, 2))


def test_kernels_of_several_jobs_are_joined_by_name_in_order_of_the_parameter(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    host = Host("a")
    for number, size in enumerate((16, 2)):
        large, small = (
            kernel("matmul", flops * size, 1000 * size, problem=f"{size}x{flops}") for flops in (10**6, 10**5)
        )
        facts = [f"tag.batch={size}", "tag.experiment=size"]
        moves = [Call(kernel("reorder", 0, 1000, problem=f"{size}x{n}"), 1, 5 * US) for n in (1, 2)]
        called = [Call(large, 1, 20 * US * size), Call(small, 1, 10 * US), *moves]
        run(store, host, called, f"j{size}", facts=facts, first=number)
    found = ask(store, job="", experiment="size", over="batch")
    points = only(found).points
    assert {(p.label, p.role) for p in points} == {("matmul", "worker")}
    assert sorted((p.job, p.at, p.flops.value) for p in points) == [("j16", "16", 16e6), ("j2", "2", 2e6)]
    assert [p.at for p in points] == ["2", "16"]
    assert any("shapes alone" in note and note.endswith("; 1 is left out") for note in found.notes)
    # What has no FLOPs is no point that could be joined: all of it counts.
    assert only(found).no_flop_launches.value == 4
    assert only(found).no_flop_time.value == pytest.approx(20e-6)
    assert "2 jobs added up" in only(found).no_flop_time.reason
    assert found.over == "batch"
    assert found.about.experiment == "size"
    both = ask(store, job="", jobs=("j2", "j16"))
    assert len(only(both).points) == 4


def test_quantity_that_jobs_have_joins_them_too(tmp_path: Path) -> None:
    store, host = open_store(tmp_path), Host("a")
    for number, ranks in enumerate((2, 1)):
        run(store, host, [Call(GEMM, 1, 20 * US)], f"j{ranks}", ranks=ranks, first=number)
    asked = {"job": "", "jobs": ("j1", "j2")}
    assert [(p.job, p.at) for p in only(ask(store, over="ranks", **asked)).points] == [
        ("j1", "1"),
        ("j2", "2"),
    ]
    assert {p.at for p in only(ask(store, over="batch", **asked)).points} == {"8"}
    assert {p.at for p in only(ask(store, "step", over="nodes", **asked)).points} == {"1"}


def test_job_without_the_parameter_is_on_no_sweep_line(tmp_path: Path) -> None:
    store, host = open_store(tmp_path), Host("a")
    for number, facts in enumerate((["tag.layers=3"], [])):
        run(store, host, [Call(GEMM, 1, 20 * US)], f"j{number}", facts=facts, first=number)
    found = ask(store, job="", jobs=("j0", "j1"), over="layers")
    assert {p.job: p.at for p in only(found).points} == {"j0": "3", "j1": ""}
    assert any("job j1, worker: on no sweep line" in note for note in found.notes)
    with pytest.raises(BadRequest, match="no tag of these jobs"):
        ask(store, job="j0", over="colour")


def test_balance_is_no_surer_than_its_peaks(tmp_path: Path) -> None:
    reported = CPU[0]._replace(provenance=Provenance.REPORTED)
    store = store_of(tmp_path, Call(GEMM, 1, 20 * US), ceilings=(reported, *CPU[1:]))
    assert only(ask(store)).balance.provenance == Provenance.REPORTED
    store = store_of(tmp_path / "measured", Call(GEMM, 1, 20 * US))
    assert only(ask(store)).balance.provenance == Provenance.MEASURED


def test_one_job_is_held_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, host = open_store(tmp_path), Host("a")
    for number in range(2):
        run(store, host, [Call(GEMM, 1, 20 * US)], f"j{number}", first=number)
    held: list[JobView] = []

    def about(views: Sequence[JobView], experiment: str) -> About:
        held.extend(views)
        return real(views, experiment)

    real = time_rooflines.about
    monkeypatch.setattr(time_rooflines, "about", about)
    for points in ("kernel", "step"):
        ask(store, points, job="", jobs=("j0", "j1"))
    assert len(held) == 4
    assert all(set(view.steps) <= {"steps"} and not view.time_windows for view in held)


# -- wrong input --------------------------------------------------------------------------------------------


def test_job_without_kernels_has_no_panels_and_says_why(tmp_path: Path) -> None:
    store, host = open_store(tmp_path), Host("a")
    host.greet(store)
    host.put(store, batch(ranks=[rank()]))
    for points in ("kernel", "step"):
        found = ask(store, points)
        assert found.panels == []
        assert any("roofline-agent run" in note for note in found.notes)


def test_without_ceilings_complexities_are_left(tmp_path: Path) -> None:
    found = ask(store_of(tmp_path, Call(GEMM, 1, 20 * US), ceilings=()))
    panel = only(found)
    (gemm,) = panel.points
    assert (panel.compute, panel.memory, panel.balance.value, panel.boxes, panel.isocurves) == (
        None,
        None,
        None,
        [],
        [],
    )
    assert (gemm.flops.value, gemm.time.value, gemm.compute_time.value, gemm.bound) == (
        4e7,
        pytest.approx(2e-5),
        None,
        "",
    )
    assert "roofline-agent calibrate" in gemm.compute_time.reason
    assert any("roofline-agent calibrate" in note for note in found.notes)


def test_without_launch_overhead_there_is_no_box_and_nothing_is_bound_by_it(tmp_path: Path) -> None:
    found = ask(store_of(tmp_path, Call(POOL, 1, 1), ceilings=[c for c in CPU if c != LAUNCH]))
    panel = only(found)
    assert (panel.boxes, panel.points[0].bound) == ([], "memory")
    assert any("calibrate --python PATH" in note for note in found.notes)


def test_ceilings_that_came_late_are_noted_where_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path, Call(GEMM, 1, 20 * US))
    view = store.view("job", OF_KERNELS)
    assert view is not None
    net = DRAM._replace(name="net.tcp", kind="network", peer="b")
    late = [LateCeilings("host-a", (c,), False, measured=True, after=True) for c in (net, LAUNCH, DRAM)]
    told = view._replace(machine_notes=late)
    monkeypatch.setattr(store, "view", lambda *_: told)
    assert [note for note in ask(store).notes if note.startswith("ceilings of")] == [
        f"ceilings of host-a ({name}) were measured after the job" for name in ("launch", "dram.triad")
    ]


def test_zero_bytes_and_zero_time_have_no_place_and_are_named(tmp_path: Path) -> None:
    idle = kernel("idle", 1000, 0)
    quick = kernel("quick", 1000, 1000)
    unsized = kernel("unsized", 1000, None)
    store = store_of(
        tmp_path, Call(GEMM, 1, 20 * US), Call(idle, 1, US), Call(quick, 1, 0), Call(unsized, 1, US)
    )
    found = ask(store)
    assert list(by_label(only(found))) == ["matmul 8x8"]
    for name, why in (
        ("idle", "bytes are zero"),
        ("quick", "time is zero"),
        ("unsized", "bytes are not known"),
    ):
        assert any(why in note and name in note for note in found.notes), why


def test_precision_without_ceilings_or_not_said_is_named(tmp_path: Path) -> None:
    odd = [kernel("matmul", 1000, 1000, precision=p) for p in ("bf16", "")]
    found = ask(store_of(tmp_path, Call(GEMM, 1, 20 * US), *(Call(k, 1, US) for k in odd)))
    assert {p.precision: p.compute is None for p in found.panels} == {
        "f32": False,
        "bf16": True,
        "": True,
    }
    assert any("BF16" in note and "calibrate" in note for note in found.notes)
    assert any("in a precision that is not known" in note for note in found.notes)


def test_kernels_of_one_step_only(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 2, 20 * US), steps=1)
    step = only(ask(store, "step")).points[0]
    assert (step.time_spread, step.flops.reason) == (None, "of one step")
    assert only(ask(store)).points[0].launches == 2


def test_only_kernels_without_flops_make_no_panel(tmp_path: Path) -> None:
    found = ask(store_of(tmp_path, Call(REORDER, 2, 20 * US)))
    assert found.panels == []
    assert any("2 kernels without FLOPs" in note for note in found.notes)


def test_without_steps_the_whole_run_counts(tmp_path: Path) -> None:
    found = ask(store_of(tmp_path, Call(GEMM, 2, 20 * US), steps=3, marked=False))
    (gemm,) = only(found).points
    assert (gemm.launches, gemm.flops.reason) == (6, "in the whole run")


def test_questions_that_cannot_be(tmp_path: Path) -> None:
    store = store_of(tmp_path, Call(GEMM, 1, 20 * US))
    with pytest.raises(BadRequest, match="kernel or step"):
        ask(store, "role")
    with pytest.raises(BadRequest, match="name either"):
        ask(store, job="")
    with pytest.raises(UnknownJob):
        ask(store, job="other")
    with pytest.raises(UnknownJob, match="lost"):
        ask(store, job="", experiment="lost")
    with pytest.raises(UnknownRank):
        ask(store, ranks=("worker:7",))


def test_points_beyond_the_most_are_left_out_and_said(tmp_path: Path) -> None:
    many = [Call(kernel("matmul", 1000 + n, 1000, problem=str(n)), 1, US) for n in range(103)]
    found = ask(store_of(tmp_path, *many))
    assert len(only(found).points) == 100
    assert any("3 more points" in note for note in found.notes)


def test_ceilings_that_changed_between_jobs_are_said(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    faster = (CPU[0]._replace(value=8e12, time_ns=7), *CPU[1:])
    run(store, Host("a"), [Call(GEMM, 1, 20 * US)], "j0")
    run(store, Host("b", faster, host="host-a"), [Call(GEMM, 1, 20 * US)], "j1")
    found = ask(store, job="", jobs=("j0", "j1"))
    assert only(found).balance.value == 80
    assert any("changed between these jobs" in note for note in found.notes)
