"""From what an agent reads of GPUs to the verdict: who holds up a training on a GPU."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import NamedTuple

import pytest
from roofline.answers.report import Report
from roofline.answers.values import Provenance, Scope
from roofline.answers.verdict import Verdict
from roofline.v1 import ingest_pb2 as pb
from roofline_server.correlate.parts import PartTotal
from roofline_server.records import Metric
from roofline_server.report.job.build import build
from roofline_server.report.questions import STEADY_STEPS
from roofline_server.sentences.origins import OF_CPUS
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from ...builders import (
    ABSENT,
    BORDER,
    CUMULATIVE,
    DRAM,
    GAUGE,
    MS,
    PEAK_F32,
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
from ..work import HBM, Host

STEPS, STEP = 400, 20 * MS
TOTALS = [
    ("gpus", GAUGE, False),
    ("gpu_busy_ns", CUMULATIVE, True),
    ("gpu_tensor_ns", CUMULATIVE, True),
    ("gpu_dram_bytes", CUMULATIVE, True),
    ("gpu_copied_bytes", CUMULATIVE, True),
]
COUNTED = [("flops.f64.scalar", CUMULATIVE, True), ("flops.f32.256", CUMULATIVE, True)]
COUNTED += [("dram_bytes.llc_bound", CUMULATIVE, True)]


class Told(NamedTuple):
    """Shares of the time, and byte/s. busy None: another rank uses the GPU too."""

    busy: float | None
    input: float = 0.02
    run: float = 0.95
    tensor: float = 0.05
    dram: float = 5e11
    copied: float = 1e6
    facts: tuple[str, ...] = ("setting.device=cuda",)
    kernels: bool = False  # of CPUs, beside
    counted: bool = False  # by perf, of the CPUs
    gpus: int = 1  # that it uses


def verdict_of(folder: Path, told: Told) -> Verdict:
    found = report_of(folder, told).verdict
    assert found is not None
    return found


def report_of(folder: Path, told: Told) -> Report:
    store = open_store(folder)
    found = build(view_of(store, told), STEADY_STEPS)
    store.close()
    return found


def view_of(store: Store, told: Told) -> JobView:
    """A lone rank that spins while its GPU computes; HBM does 1e12 byte/s."""
    node = Host("a", (HBM, PEAK_F32, DRAM))
    node.greet(store)
    begin = 100 * S
    ends = [begin + k * STEP for k in range(STEPS + 1)]
    borders = [(0, BORDER, k - 1, 8, at) for k, at in enumerate(ends)]
    phases = []
    for k, at in enumerate(ends[:-1]):
        # A little more and less: a step that is always the same has no interval.
        fetched = at + round(told.input * STEP * (1 + 0.05 * (k % 3 - 1)))
        run = round(told.run * STEP)
        phases += [
            (0, "phase.input", at, fetched, ABSENT, 1),
            (0, "phase.forward", fetched, fetched + STEP // 4, ABSENT, 1),
            (0, "phase.backward", fetched + STEP // 4, at + STEP, ABSENT, 1),
            (0, "thread.run.step", at, at + STEP, ABSENT, run),
            (0, "thread.delay.step", at, at + STEP, ABSENT, 1),
        ]
    rows = []
    for second in range(STEPS * STEP // S + 2):
        busy = nan if told.busy is None else told.busy * S
        rates = (busy, told.tensor * S, told.dram, told.copied)
        rows.append((0, begin + second * S, (told.gpus, *(second * rate for rate in rates))))
    sets, sampled = [counter_set("gpu", TOTALS)], [samples(0, rows, TOTALS)]
    if told.counted:
        per_second = [(0, at, (2e6 * n, 3e8 * n, 4e8 * n)) for n, (_, at, _) in enumerate(rows)]
        sets.append(counter_set("perf", COUNTED))
        sampled.append(samples(1, per_second, COUNTED))
    facts = ("hook.torch_data=installed", *told.facts)
    events = [
        pb.Event(kind=pb.EVENT_KIND_FACT, rank=0, begin_ns=begin, end_ns=begin, text=text) for text in facts
    ]
    if told.kernels:
        covered = pb.EVENT_KIND_KERNELS_COVERED
        events.append(pb.Event(kind=covered, rank=0, begin_ns=begin, end_ns=ends[-1]))
    node.put(
        store,
        batch(
            begin_ns=begin,
            end_ns=ends[-1] + 2 * S,
            ranks=[rank(index=0, pid=100)],
            marks=marks(borders),
            spans=spans(phases),
            counter_sets=sets,
            samples=sampled,
            events=events,
            kernels=[kernel()] if told.kernels else [],
            calls=calls([(0, 0, at, 1000) for at in ends[:-1]]) if told.kernels else None,
        ),
    )
    view = store.view("job")
    assert view is not None
    return view


def parts(found: Verdict) -> dict[str, float]:
    (one,) = found.accounts
    return {part.part: round(part.share.value or 0.0, 2) for part in one.parts}


def test_gpu_that_computes_all_the_time_holds_the_training_up(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, Told(0.86))
    assert found.headline == "healthy: bound by kernels (86% of the step)"
    assert parts(found) == {"input": 0.02, "compute": 0.86, "host": 0.12}
    (line,) = found.roofline
    assert line == (
        "worker: GPU busy 86% of the time, its memory at 50% of the measured bandwidth, "
        "tensor cores active 5%"
    )
    (gain,) = found.also
    assert gain.kind == "compute" and any("tensor cores" in line for line in gain.tries)


def test_gpu_that_waits_for_the_host_is_named_with_what_that_costs(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, Told(0.2))
    assert found.bottleneck is not None
    assert (found.kind, found.bottleneck.kind, found.bottleneck.rank) == ("bottleneck", "gpu_idle", "")
    assert found.bottleneck.share.value == pytest.approx(0.78, abs=0.02)
    assert "the GPU computes 20% of the time" in found.bottleneck.evidence
    assert "CUDA graph" in found.bottleneck.tries[0]
    assert found.bottleneck.gain is not None
    assert found.bottleneck.gain.without == pytest.approx(0.22 * 0.02, rel=0.1)


def test_gpus_that_may_work_in_turns_are_not_called_idle(tmp_path: Path) -> None:
    """Layers that lie on four GPUs: each is busy for a quarter of the time, and one of them always."""
    found = verdict_of(tmp_path, Told(0.25, gpus=4))
    assert found.bottleneck is None
    assert found.headline.startswith(
        "healthy: bound by kernels or CPU time outside kernels (73% of the step)"
    )
    assert "low confidence: whether the GPUs of a rank compute at once or in turns" in found.headline
    assert parts(found) == {"input": 0.02, "compute": 0.25, "compute|host": 0.73}
    assert "in turns" in found.also[0].tries[0]
    assert found.roofline[0].startswith("worker: 4 GPUs a rank, each busy 25% of the time (mean)")


def test_time_in_which_all_gpus_of_a_rank_are_idle_is_named(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, Told(0.1, gpus=4))
    assert found.bottleneck is not None
    assert (found.bottleneck.kind, found.bottleneck.confidence) == ("gpu_idle", "high")
    assert found.bottleneck.share.value == pytest.approx(0.58, abs=0.01)


def test_copies_that_a_gpu_waits_for_are_told(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, Told(0.65, copied=1.4e9))
    assert found.bottleneck is not None and found.bottleneck.kind == "gpu_idle"
    assert "pin_memory=True" in found.bottleneck.tries[0]
    assert any("1.4 GB/s are copied to the GPU" in line for line in found.bottleneck.evidence)


def test_input_that_a_gpu_waits_for_is_input(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, Told(0.25, input=0.7, run=0.3))
    assert found.bottleneck is not None
    assert found.bottleneck.kind == "input"
    assert parts(found)["input"] == pytest.approx(0.7, abs=0.01)


def test_shared_gpu_leaves_computing_and_host_together(tmp_path: Path) -> None:
    """And is never called "CPU time outside kernels": the main thread spins while the GPU computes."""
    found = verdict_of(tmp_path, Told(None))
    assert "compute|host" in parts(found) and "host" not in parts(found)
    assert found.roofline == []


def test_run_under_ncu_is_doubted(tmp_path: Path) -> None:
    found = verdict_of(tmp_path, Told(0.2, facts=("setting.device=cuda", "ncu.steps=20")))
    assert found.bottleneck is not None
    assert found.bottleneck.confidence == "low" and "ncu" in found.bottleneck.why


@pytest.mark.parametrize("facts", [("setting.device=cuda",), ("hook.tf_steps=installed",)])
def test_kernels_of_cpus_beside_a_gpu_are_not_the_training(tmp_path: Path, facts: tuple[str, ...]) -> None:
    found = verdict_of(tmp_path, Told(0.86, facts=facts, kernels=True))
    assert [line[:25] for line in found.roofline] == ["worker: GPU busy 86% of t"], "no place under a roof"
    assert parts(found)["compute"] == 0.86


def test_what_perf_counts_beside_a_gpu_is_not_the_training(tmp_path: Path) -> None:
    """Python and the optimizer on CPUs have FLOPs too: they have no place under the CPUs' roof, ask for no
    wider vectors, and are not divided by the joules of the GPU."""
    found = report_of(tmp_path, Told(0.86, counted=True))
    assert found.verdict is not None
    assert [line[:25] for line in found.verdict.roofline] == ["worker: GPU busy 86% of t"]
    assert not any("vectors" in line for gain in found.verdict.also for line in gain.tries)
    values = found.ranks[0].summary.values
    for name in ("intensity.dram", "roof_share", "attainable_flops_per_second", "flops_per_joule"):
        assert values[name].value is None
    assert "--ncu" in values["roof_share"].reason
    assert values["flops_per_step.measured"].value == pytest.approx(3.02e8 * 0.02, rel=0.01)
    assert values["flops_per_step.measured"].reason == OF_CPUS


def test_gpu_that_is_too_hot_is_named_with_what_to_look_at(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    view = view_of(store, Told(0.86))
    (number,) = view.ranks
    mask = Metric("gpu", "throttle_reasons", 2, "1", Scope.GPU, Provenance.MEASURED, False, "")
    part = PartTotal(number, 1, "gpu 0", mask, 9.0, samples=9, shares={"sw_thermal": 0.34})
    found = build(view._replace(parts=[part]), STEADY_STEPS)
    store.close()
    words = "the clock of gpu 0 of worker:0 was held down by heat (software thermal slowdown) for 34%"
    assert any(note.startswith(words) and "nvidia-smi -q" in note for note in found.notes)
    assert found.verdict is not None
    (gain,) = found.verdict.also
    assert "cooling" in gain.tries[0]
    assert any(line.startswith(words) for line in gain.evidence)
