"""One real, quick calibration from end to end, and the ways it can be refused."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from roofline_agent.calibrate import node as package
from roofline_agent.calibrate.assembled import peaks, tiles
from roofline_agent.calibrate.assembled.kernel_set import AssembledKernels
from roofline_agent.calibrate.calibration import Calibration, Ceiling, SweepPoint
from roofline_agent.calibrate.child import PartResult
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import Cache, Hardware, this_hardware
from roofline_agent.calibrate.kernels import Form
from roofline_agent.calibrate.measure import PARTS, Callbacks, measure
from roofline_agent.calibrate.node import calibrate
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.runs import NORMAL, QUICK, RunPlan
from roofline_agent.records import Provenance

PACKAGES = Path(package.__file__).parents[2]


@pytest.fixture(scope="module")
def machine() -> Hardware:
    try:
        return this_hardware()
    except CalibrationError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def measured(machine: Hardware) -> tuple[Calibration, list[Ceiling]]:
    seen: list[Ceiling] = []
    return calibrate(seen.append, "quick"), seen


def width(form: Form) -> str:
    return "scalar" if form.is_scalar else str(form.width)


def test_every_usable_width_is_measured(
    machine: Hardware, measured: tuple[Calibration, list[Ceiling]]
) -> None:
    names = {ceiling.name for ceiling in measured[0].ceilings}
    for precision in ("f32", "f64"):
        forms = peaks.usable_forms(machine.flags, precision)
        assert names >= {f"peak.{precision}.{width(form)}" for form in forms}
        if peaks.has_fma(forms[-1]):
            assert f"peak.{precision}.{width(forms[-1])}.mul_add" in names
    for precision in ("f16", "bf16"):
        widest = peaks.usable_forms(machine.flags, precision)[-1:]
        assert names >= {f"peak.{precision}.{width(form)}" for form in widest}
    if machine.flags >= tiles.NEEDED_FLAGS:
        said = " ".join(measured[0].notes)
        assert "peak.bf16.amx" in names or "AMX" in said


@pytest.mark.slow
def test_each_level_of_memory_is_measured_or_said_why_not(
    measured: tuple[Calibration, list[Ceiling]],
) -> None:
    calibration, _ = measured
    names = {ceiling.name for ceiling in calibration.ceilings}
    said = " ".join(calibration.notes)
    assert names >= {"dram.read", "dram.copy", "dram.triad"}
    for level in {c.level for c in calibration.ceilings if c.kind == "memory"}:
        for operation in ("read", "copy", "triad"):
            assert f"{level}.{operation}" in names or f"{level}.{operation} on" in said


def test_values_are_finite_and_positive(measured: tuple[Calibration, list[Ceiling]]) -> None:
    for ceiling in measured[0].ceilings:
        assert math.isfinite(ceiling.value), ceiling
        assert ceiling.value > 0, ceiling
        assert 0 <= ceiling.spread < 1, ceiling
        if ceiling.provenance == Provenance.MEASURED:
            assert ceiling.median is not None
            assert 0 < ceiling.median <= ceiling.value


@pytest.mark.slow
def test_each_ceiling_says_how_it_was_measured(measured: tuple[Calibration, list[Ceiling]]) -> None:
    calibration, _ = measured
    of_cpus = [c for c in calibration.ceilings if c.provenance == Provenance.MEASURED]
    for ceiling in of_cpus:
        assert f"{ceiling.threads} thread" in ceiling.method
        assert re.search("best of [24] runs", ceiling.method)
        assert ceiling.name.endswith(".one") == (ceiling.threads == 1 and calibration.cpus > 1)
    memory = [c for c in of_cpus if c.kind == "memory"]
    assert all("working set" in c.method for c in memory)
    assert all(("stores" in c.method) == (c.operation != "read") for c in memory)
    assert {(c.kind, c.unit) for c in of_cpus} == {("compute", "FLOP/s"), ("memory", "byte/s")}
    assert {c.operation for c in memory} == {"read", "copy", "triad"}


@pytest.mark.slow
def test_clock_is_recorded_where_time_stamps_are_constant(
    machine: Hardware, measured: tuple[Calibration, list[Ceiling]]
) -> None:
    constant = {"tsc", "constant_tsc"} <= machine.flags
    for ceiling in measured[0].ceilings:
        assert (ceiling.clock_hz is not None) == constant
        assert ceiling.clock_hz is None or 0.1e9 < ceiling.clock_hz < 10e9


def test_each_ceiling_of_all_cpus_has_their_number(
    machine: Hardware, measured: tuple[Calibration, list[Ceiling]]
) -> None:
    """Theoretical ones too: what a roof is of is told by it."""
    for ceiling in measured[0].ceilings:
        assert ceiling.threads == (1 if ceiling.name.endswith(".one") else len(machine.cpus))


def test_sweep_goes_from_small_to_large(measured: tuple[Calibration, list[Ceiling]]) -> None:
    points = measured[0].sweep
    assert {(p.operation, p.streaming) for p in points} == {("read", False), ("triad", False)}
    for operation in ("read", "triad"):
        sizes = [p.bytes for p in points if p.operation == operation]
        assert sizes == sorted(sizes)
        assert len(sizes) > 5


def test_progress_gets_each_measured_ceiling_once_in_order(
    measured: tuple[Calibration, list[Ceiling]],
) -> None:
    calibration, seen = measured
    found = [c for c in calibration.ceilings if c.provenance == Provenance.MEASURED]
    # What speaks against one is known when all are.
    assert seen == [c._replace(doubt="") for c in found]
    times = [ceiling.time_ns for ceiling in seen]
    assert times == sorted(times)


def test_all_allowed_cpus_are_used(machine: Hardware, measured: tuple[Calibration, list[Ceiling]]) -> None:
    assert measured[0].cpus == len(machine.cpus) == len(os.sched_getaffinity(0))
    assert (measured[0].host, measured[0].cpu_model) == (machine.host, machine.cpu_model)


def assembled(machine: Hardware) -> Bench:
    return Bench(machine, AssembledKernels(machine.flags))


def collect() -> tuple[Callbacks, list[Ceiling], list[str], list[SweepPoint]]:
    ceilings: list[Ceiling] = []
    notes: list[str] = []
    points: list[SweepPoint] = []
    return Callbacks(ceilings.append, notes.append, points.extend), ceilings, notes, points


def test_cpu_without_wide_vectors_runs_no_wide_kernel(machine: Hardware) -> None:
    old = machine._replace(
        flags=frozenset({"sse2"}), cpus=machine.cpus[:1], available_bytes=64 << 20, caches=()
    )
    plan = RunPlan(run_s=1e-4, repeats=1, caches=4.0, sweep_repeats=1, patient=False)
    callbacks, ceilings, notes, _ = collect()
    for part in ("peaks", "half", "memory"):
        measure(part, assembled(old), plan, callbacks, now_ns=lambda: 7)
    assert [c.name for c in ceilings] == [
        "peak.f32.scalar",
        "peak.f32.128",
        "peak.f64.scalar",
        "peak.f64.128",
        "dram.read",
        "dram.copy",
        "dram.triad",
    ]
    assert {c.operation for c in ceilings[:4]} == {"mul_add"}
    assert "may contain cache hits" in ceilings[-1].method
    assert {c.time_ns for c in ceilings} == {7}
    assert {c.clock_hz for c in ceilings} == {None}  # without its flag no time stamp is read
    assert notes == []


def test_with_less_memory_than_caches_nothing_is_called_dram(machine: Hardware) -> None:
    large = (Cache(3, 480 << 20, frozenset(machine.cpus)),)
    small = machine._replace(
        flags=frozenset({"sse2"}), cpus=machine.cpus[:1], available_bytes=64 << 20, caches=large
    )
    plan = RunPlan(run_s=1e-4, repeats=1, caches=4.0, sweep_repeats=1, patient=False)
    callbacks, ceilings, notes, _ = collect()
    measure("memory", assembled(small), plan, callbacks)
    assert not [one for one in ceilings if one.level == "dram"]
    about = [note for note in notes if note.startswith("dram.")]
    assert len(about) == 3 and all("calibrate with over 1920 MiB" in note for note in about)


def test_what_cannot_be_measured_becomes_a_note_and_costs_nothing_else(
    machine: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise CalibrationError("no tiles for you")

    monkeypatch.setattr(tiles, "ask_permission", refuse)
    callbacks, ceilings, notes, _ = collect()
    able = machine._replace(flags=machine.flags | tiles.NEEDED_FLAGS)
    measure("half", assembled(able), QUICK, callbacks)
    assert set(notes) == {"no tiles for you"}
    assert len(ceilings) == sum(
        bool(peaks.usable_forms(machine.flags, precision)) for precision in ("f16", "bf16")
    )


def test_cpu_without_sse2_is_refused(machine: Hardware) -> None:
    with pytest.raises(CalibrationError, match="no sse2 flag"):
        AssembledKernels(frozenset({"mmx"}))


PEAK = Ceiling("peak.f32.256", "compute", "", "f32", 256, 2e11, "FLOP/s", 0.03, "FMA", 17)


def parts(*found: PartResult) -> Callable[..., list[PartResult]]:
    return lambda hardware, effort, progress, prefer, compiled: [*found]


def test_part_that_fails_does_not_cost_the_others(machine: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    found = (PartResult((PEAK,)), PartResult(error="killed by SIGILL"), PartResult(notes=("no L3",)))
    monkeypatch.setattr(package, "measure_parts", parts(*found))
    calibration = calibrate()
    # Whatever else runs on the machine just now is a caveat.
    assert calibration.ceilings[0]._replace(doubt="") == PEAK
    assert calibration.notes[:2] == ("killed by SIGILL", "no L3")
    assert not calibration.is_complete
    monkeypatch.setattr(package, "measure_parts", parts(PartResult((PEAK,))))
    assert calibrate().is_complete


def test_nothing_measured_is_an_error_with_the_reason(
    machine: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "measure_parts", parts(PartResult(error="may not be made executable")))
    with pytest.raises(CalibrationError, match="may not be made executable"):
        calibrate()


def test_limit_of_a_cgroup_is_said(machine: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "measure_parts", parts(PartResult((PEAK,))))
    limited = machine._replace(cpu_limit=0.5, cpus=machine.cpus[:1], node_cpus=2)
    monkeypatch.setattr(package, "this_hardware", lambda: limited)
    notes = calibrate().notes
    assert any("grants the time of 0.5 of 2 CPUs" in note for note in notes)
    assert not any("taskset" in note for note in notes)


def test_part_of_the_nodes_cpus_is_said(machine: Hardware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "measure_parts", parts(PartResult((PEAK,))))
    part = machine._replace(node_cpus=128)
    monkeypatch.setattr(package, "this_hardware", lambda: part)
    assert any(f"measured on {len(machine.cpus)} of 128 CPUs" in note for note in calibrate().notes)
    monkeypatch.setattr(package, "this_hardware", lambda: machine._replace(node_cpus=len(machine.cpus)))
    assert not any("CPUs, as this process" in note for note in calibrate().notes)


def test_threads_are_the_cpus_used_whatever_the_node_has(machine: Hardware) -> None:
    part = machine._replace(
        cpus=machine.cpus[:1], node_cpus=128, flags=frozenset({"sse2"}), available_bytes=64 << 20, caches=()
    )
    callbacks, ceilings, _, _ = collect()
    for name in ("peaks", "memory"):
        measure(
            name,
            assembled(part),
            RunPlan(run_s=1e-4, repeats=1, caches=4.0, sweep_repeats=1, patient=False),
            callbacks,
        )
    assert ceilings
    for ceiling in ceilings:
        assert (ceiling.threads, ceiling.name.endswith(".one")) == (1, False)
        assert "1 thread on 1 of 128 CPUs" in ceiling.method


@pytest.mark.parametrize("prefer", [True, False])
def test_every_part_is_told_if_it_comes_before_others(
    machine: Hardware, monkeypatch: pytest.MonkeyPatch, prefer: bool
) -> None:
    told: list[bool] = []

    def run(
        command: list[str], progress: object, packages: Path, timeout_s: float, preferred: bool
    ) -> PartResult:
        told.append(preferred)
        return PartResult((PEAK,))

    monkeypatch.setattr(package, "run_child", run)
    calibrate(prefer=prefer)
    assert told == [prefer] * 3


def test_child_stops_quietly_when_nobody_listens_any_more(machine: Hardware) -> None:
    command = [sys.executable, "-m", "roofline_agent.calibrate", "peaks", "--effort", "quick"]
    with subprocess.Popen(command, cwd=PACKAGES, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stderr
        assert "ceiling" in json.loads(child.stdout.readline())
        child.stdout.close()
        assert child.wait(60) == 1
        assert child.stderr.read() == b""


@pytest.mark.slow
def test_interrupt_ends_the_child_at_once(machine: Hardware) -> None:
    command = [sys.executable, "-m", "roofline_agent.calibrate", "peaks"]
    with subprocess.Popen(command, cwd=PACKAGES, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stderr
        child.stdout.readline()  # it measures
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == -signal.SIGINT
        assert child.stderr.read() == b""


def test_what_is_shown_to_be_too_low_is_measured_once_more(
    machine: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, high = (
        Ceiling(
            f"{level}.read", "memory", level, "", 0, value, "byte/s", 0, "", 0, threads=2, operation="read"
        )
        for level, value in (("l2", 1e10), ("l3", 5e10))
    )
    values = iter([1e10, 3e11, 1e9])

    def memory(*_: object) -> Iterator[Callable[[], Ceiling]]:
        yield lambda: low._replace(value=next(values))
        yield lambda: high

    monkeypatch.setitem(PARTS, "memory", memory)
    callbacks, ceilings, _, _ = collect()
    measure("memory", assembled(machine), NORMAL, callbacks, now_ns=lambda: 0)
    assert [(c.name, c.value) for c in ceilings] == [("l2.read", 1e10), ("l3.read", 5e10), ("l2.read", 3e11)]
    values = iter([1e10, 1e9])  # the second chance is no better
    callbacks, ceilings, _, _ = collect()
    measure("memory", assembled(machine), NORMAL, callbacks, now_ns=lambda: 0)
    assert [c.value for c in ceilings] == [1e10, 5e10]
