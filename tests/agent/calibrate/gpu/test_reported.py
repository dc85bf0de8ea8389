"""Nsight Compute's word is taken for what nobody measured, and for nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.gpu.reported import by_ncu
from roofline_agent.records import Provenance

from ...ncu.fake_ncu import install


def measured(name: str, device: str = "gpu 0") -> Ceiling:
    return Ceiling(name, "memory", "hbm", "", 0, 1e9, "byte/s", 0.0, "how", 1, device=device)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "ROOFLINE_NCU": str(install(tmp_path))}


def test_nothing_is_asked_where_there_is_no_gpu(environ: dict[str, str]) -> None:
    assert by_ncu([], [], environ) == ([], [])


def test_reported_ceilings_say_so(environ: dict[str, str]) -> None:
    (peak, bf16, hbm), notes = by_ncu([{"number": 0}], [], environ)
    assert notes == []
    assert (peak.name, peak.kind, peak.precision, peak.unit) == ("peak.f32", "compute", "f32", "FLOP/s")
    assert (bf16.name, bf16.precision) == ("peak.bf16", "bf16")
    assert (hbm.name, hbm.kind, hbm.level, hbm.unit) == ("hbm.sustained", "memory", "hbm", "byte/s")
    for one in (peak, hbm):
        assert (one.provenance, one.device, one.median) == (Provenance.REPORTED, "gpu 0", None)
        assert one.clock_hz == pytest.approx(1e9)


def test_what_was_measured_stays_as_measured(environ: dict[str, str]) -> None:
    """Of another GPU is not of this one."""
    found, _ = by_ncu([{"number": 0}], [measured("hbm.copy"), measured("peak.f32", "gpu 1")], environ)
    assert [one.name for one in found] == ["peak.f32", "peak.bf16"]


def test_profiler_is_left_alone_where_all_was_measured(environ: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "calls"
    names = ("peak.f64", "peak.f32", "peak.f16", "hbm.read", "l2.read")
    known = [measured(name) for name in names]
    assert by_ncu([{"number": 0}], known, {**environ, "FAKE_NCU_CALLS": str(log)}) == ([], [])
    assert not log.exists()


def test_reason_is_passed_on(environ: dict[str, str]) -> None:
    found, (note,) = by_ncu([{"number": 0}], [], {**environ, "FAKE_NCU": "denied"})
    assert found == [] and "ERR_NVGPUCTRPERM" in note and note.startswith("gpu 0: ")
