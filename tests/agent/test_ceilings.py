"""Ceilings that an agent reports are those of its own node."""

from __future__ import annotations

from pathlib import Path

from pytest import LogCaptureFixture
from roofline_agent.calibrate import store
from roofline_agent.calibrate.calibration import Calibration, Ceiling
from roofline_agent.ceilings import Ceilings, ceilings_path
from roofline_agent.machine import Machine

MACHINE = Machine("node1", "a CPU", 1, 2, 4, 8, "k")
PEAK = Ceiling("peak.f32.512", "compute", "", "f32", 512, 4e11, "FLOP/s", 0.03, "AVX-512", 7)
KEPT = Calibration("node1", "a CPU", 2, 7, (PEAK,))


def reported(kept: Calibration, state: Path) -> tuple[Ceiling, ...]:
    store.save(kept, ceilings_path(state))
    return Ceilings(state, MACHINE).all()


def test_ceilings_of_the_node(tmp_path: Path) -> None:
    assert reported(KEPT, tmp_path) == (PEAK,)


def test_ceilings_of_another_cpu_are_not_used(tmp_path: Path, caplog: LogCaptureFixture) -> None:
    assert reported(KEPT._replace(host="golden-image", cpu_model="another CPU"), tmp_path) == ()
    assert "golden-image, another CPU" in caplog.text and "calibrate this node" in caplog.text


def test_ceilings_measured_under_another_name_have_a_caveat(tmp_path: Path) -> None:
    (found,) = reported(KEPT._replace(host="golden-image"), tmp_path)
    assert found.doubt == "measured on golden-image, which has the same CPU model"


def test_ceilings_without_a_cpu_model_are_used(tmp_path: Path) -> None:
    assert reported(KEPT._replace(cpu_model=""), tmp_path) == (PEAK,)
