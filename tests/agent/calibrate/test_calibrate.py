"""One real, quick calibration from end to end, and the ways it can be refused."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from roofline_agent import calibrate as package
from roofline_agent.calibrate import Calibration, CalibrationError, Ceiling, calibrate, kernels
from roofline_agent.calibrate.machine import Machine, this_machine
from roofline_agent.calibrate.measure import measure
from roofline_agent.calibrate.runs import Plan

PACKAGES = Path(package.__file__).parents[2]


@pytest.fixture(scope="module")
def machine() -> Machine:
    try:
        return this_machine()
    except CalibrationError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def measured(machine: Machine) -> tuple[Calibration, list[Ceiling]]:
    heard: list[Ceiling] = []
    return calibrate(heard.append, quick=True), heard


def test_every_usable_width_and_both_directions_of_memory_are_measured(
    machine: Machine, measured: tuple[Calibration, list[Ceiling]]
) -> None:
    peaks = [
        f"peak.{form.precision}.{'scalar' if form.is_scalar else form.width}"
        for precision in ("f32", "f64")
        for form in kernels.usable_forms(machine.flags, precision)
    ]
    assert [ceiling.name for ceiling in measured[0].ceilings] == [*peaks, "dram.triad", "dram.read"]


def test_values_are_finite_and_positive(measured: tuple[Calibration, list[Ceiling]]) -> None:
    for ceiling in measured[0].ceilings:
        assert math.isfinite(ceiling.value), ceiling
        assert ceiling.value > 0, ceiling
        assert 0 <= ceiling.spread < 1, ceiling


def test_each_ceiling_says_how_it_was_measured(measured: tuple[Calibration, list[Ceiling]]) -> None:
    calibration, _ = measured
    threads = f"{calibration.cpus} thread"
    assert all(threads in c.method and re.search("best of [24] runs", c.method) for c in calibration.ceilings)
    assert all("working set" in c.method for c in calibration.ceilings if c.kind == "memory")
    assert {(c.kind, c.unit, c.level) for c in calibration.ceilings} == {
        ("compute", "FLOP/s", ""),
        ("memory", "byte/s", "dram"),
    }


def test_progress_hears_each_ceiling_once_in_order(measured: tuple[Calibration, list[Ceiling]]) -> None:
    calibration, heard = measured
    assert tuple(heard) == calibration.ceilings
    times = [ceiling.time_ns for ceiling in heard]
    assert times == sorted(times)


def test_all_allowed_cpus_are_used(machine: Machine, measured: tuple[Calibration, list[Ceiling]]) -> None:
    assert measured[0].cpus == len(machine.cpus) == len(os.sched_getaffinity(0))
    assert (measured[0].host, measured[0].cpu_model) == (machine.host, machine.cpu_model)


def test_cpu_without_wide_vectors_runs_no_wide_kernel(machine: Machine) -> None:
    old = machine._replace(flags=frozenset({"sse2"}), cpus=machine.cpus[:1], available_bytes=64 << 20)
    calibration = measure(old, Plan(run_s=1e-4, repeats=1, caches=4.0), now_ns=lambda: 7)
    assert [c.name for c in calibration.ceilings] == [
        "peak.f32.scalar",
        "peak.f32.128",
        "peak.f64.scalar",
        "peak.f64.128",
        "dram.triad",
        "dram.read",
    ]
    assert "may contain cache hits" in calibration.ceilings[-1].method
    assert {c.time_ns for c in calibration.ceilings} == {calibration.time_ns} == {7}


def test_cpu_without_sse2_is_refused(machine: Machine) -> None:
    with pytest.raises(CalibrationError, match="no sse2 flag"):
        measure(machine._replace(flags=frozenset()))


def test_child_stops_quietly_when_nobody_listens_any_more(machine: Machine) -> None:
    command = [sys.executable, "-m", "roofline_agent.calibrate", "--quick"]
    with subprocess.Popen(command, cwd=PACKAGES, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stderr
        assert "ceiling" in json.loads(child.stdout.readline())
        child.stdout.close()
        assert child.wait(60) == 1
        assert child.stderr.read() == b""


def test_interrupt_ends_the_child_at_once(machine: Machine) -> None:
    command = [sys.executable, "-m", "roofline_agent.calibrate"]
    with subprocess.Popen(command, cwd=PACKAGES, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stderr
        child.stdout.readline()  # it measures
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == -signal.SIGINT
        assert child.stderr.read() == b""
