"""GPUs measured by a made-up CuPy next to a made-up driver: which are, which are not, and what is noted.

The made-up GPU takes 10 ms for every run. The values of its ceilings are checked in test_cupy.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from roofline_agent.calibrate import gpu
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.gpu import measure_gpus
from roofline_agent.calibrate.gpu.bench.libraries import array_bytes, sizes
from roofline_agent.calibrate.gpu.bench.run import INSTALL
from roofline_agent.calibrate.gpu.bench.timing import FULL
from roofline_agent.records import Provenance

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
HERE = Path(__file__).parent
NAMES = {"hbm.read", "hbm.copy", "hbm.triad", "peak.f16", "peak.f32", "peak.f64", "launch"}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a made-up NVML."""
    folder = tmp_path_factory.mktemp("driver")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", library, HERE / "fake_nvml_shared.c"], check=True)
    return folder


Measured = tuple[dict[str, Ceiling], tuple[str, ...]]


def measure(
    monkeypatch: pytest.MonkeyPatch, driver: Path, force: bool = False, cupy: bool = True
) -> Measured:
    """Ceilings by name, and notes."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    if cupy:
        monkeypatch.setenv("PYTHONPATH", str(HERE / "made_up"))
    seen: list[Ceiling] = []
    ceilings, notes = measure_gpus(seen.append, sys.executable, quick=True, force=force)
    assert tuple(seen) == ceilings
    return {ceiling.name: ceiling for ceiling in ceilings}, notes


@pytest.mark.slow
def test_fields_say_what_and_where(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    found, _ = measure(monkeypatch, driver)
    assert set(found) >= NAMES
    measured = [found[name] for name in NAMES]
    assert {one.device for one in measured} == {"gpu 0"}
    assert {one.provenance for one in measured} == {Provenance.MEASURED}
    triad, peak, launch = found["hbm.triad"], found["peak.f64"], found["launch"]
    assert (triad.kind, triad.level, triad.unit, triad.operation) == ("memory", "hbm", "byte/s", "triad")
    assert (peak.kind, peak.precision, peak.unit, peak.operation) == ("compute", "f64", "FLOP/s", "gemm")
    assert (launch.kind, launch.unit, launch.precision) == ("overhead", "s", "")
    assert 0 < launch.value < 1e-2
    assert triad.clock_hz == peak.clock_hz == 1755e6, "the SM clock while it ran"
    assert triad.median == pytest.approx(triad.value) and triad.spread == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_theory_stands_beside_and_what_was_not_measured_is_said(
    monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    found, notes = measure(monkeypatch, driver)
    theory = found["hbm.theory"]
    assert (theory.provenance, theory.device) == (Provenance.ANALYTIC, "gpu 0")
    assert theory.value == pytest.approx(3.352e12, rel=1e-3)
    for precision in ("bf16", "tf32", "f8_e4m3"):
        assert any(f"gpu 0: peak.{precision} was not measured" in note for note in notes)
    assert any("gpu 0 was 97% busy before" in note for note in notes)


def test_full_memory_costs_what_needs_it(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    monkeypatch.setenv("FAKE_CUPY_FULL", "1")
    found, notes = measure(monkeypatch, driver)
    assert "launch" in found and "hbm.read" not in found
    assert any("hbm.read was not measured: MemoryError: out of memory" in note for note in notes)


def test_what_to_install_is_said_where_nothing_can_measure(
    monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    found, notes = measure(monkeypatch, driver, cupy=False)
    assert {one.provenance for one in found.values()} == {Provenance.ANALYTIC}
    assert f"no GPU was measured: {sys.executable} has neither torch nor cupy; {INSTALL}" in notes


def test_gpu_that_others_compute_on_is_left_out_with_a_note(
    monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    monkeypatch.setenv("FAKE_NVML_USER", "4321")
    found, notes = measure(monkeypatch, driver)
    assert {one.provenance for one in found.values()} == {Provenance.ANALYTIC}
    (note,) = [note for note in notes if note.startswith("gpu 0")]
    assert "other processes compute on it (pid 4321, 4322)" in note and "--force" in note


@pytest.mark.slow
def test_gpu_that_others_compute_on_is_measured_in_little_memory_if_forced(
    monkeypatch: pytest.MonkeyPatch, driver: Path
) -> None:
    monkeypatch.setenv("FAKE_NVML_USER", "4321")
    found, notes = measure(monkeypatch, driver, force=True)
    assert set(found) >= NAMES
    assert any("gpu 0: measured beside other processes (pid 4321, 4322)" in note for note in notes)


def test_free_memory_of_a_shared_gpu_is_left_to_the_others() -> None:
    free, plan = 9000 << 20, FULL
    assert array_bytes(plan, free, 1 << 30) == 1000 << 20
    assert array_bytes(plan.sharing(), free, 1 << 30) == 100 << 20
    assert list(sizes(plan, free)) == [2048, 4096, 8192]
    assert list(sizes(plan.sharing(), free)) == [2048, 4096]


def test_part_of_a_gpu_is_not_measured_for_the_whole(monkeypatch: pytest.MonkeyPatch, driver: Path) -> None:
    monkeypatch.setenv("FAKE_NVML_MIG", "1")
    found, notes = measure(monkeypatch, driver, force=True)
    assert found == {}, "nor its theory, which is the whole's"
    assert any("a part of a GPU (MIG), as MIG is on for GPU 0" in note for note in notes)


@pytest.mark.parametrize(
    ("facts", "visible", "asked"),
    [
        ({"number": 0}, None, True),
        ({"number": 0}, "0,1", True),
        ({"number": 0}, "3", False),  # it would be asked about GPU 3
        ({"number": 1}, None, False),
        ({"number": 0, "users": [7]}, None, False),
    ],
)
def test_nsight_compute_is_asked_about_a_free_first_gpu_alone(
    facts: dict[str, object], visible: str | None, asked: bool
) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpu.gpus_for_ncu([facts], environ) == ([facts] if asked else [])


def test_node_without_a_gpu_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/dev/kfd").exists() or shutil.which("nvidia-smi"):
        pytest.skip("there is a GPU here")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    ceilings, notes = measure_gpus(lambda ceiling: None, sys.executable, quick=True)
    assert ceilings == ()
    assert [note for note in notes if "GPU" in note] == [
        "no GPU was measured: neither NVIDIA's nor AMD's driver is loaded here"
    ]
    assert any(note.startswith("launch: ") and "torch" in note for note in notes)


def test_environment_of_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 must not pass for FP32, nor a GPU for another."""
    environ = {"NVIDIA_TF32_OVERRIDE": "1", "PATH": os.environ["PATH"]}
    assert gpu.gpu_environment(environ) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PATH": os.environ["PATH"]}
    assert gpu.gpu_environment({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
