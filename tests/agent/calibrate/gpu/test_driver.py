"""A GPU measured through the driver alone: every call as cuda.h declares it, on a made-up driver.

Nothing here was ever measured: the made-up GPU takes 1 ms for every kernel. What is checked is that a ceiling
is the work that was launched over the time that it took.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from roofline_agent.calibrate import gpu
from roofline_agent.calibrate.gpu import measure_gpus
from roofline_agent.calibrate.gpu.bench import ptx
from roofline_agent.calibrate.gpu.bench.libraries import array_bytes, sizes
from roofline_agent.calibrate.gpu.bench.timing import FULL
from roofline_agent.calibrate.records import Ceiling
from roofline_agent.records import Provenance

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
BLOCKS = 4 * 24
KERNEL_S = 1e-3
DRIVER, NVML = (Path(__file__).with_name(name) for name in ("fake_cuda.c", "fake_nvml_shared.c"))
NAMES = {"hbm.read", "hbm.copy", "hbm.triad", "l2.read", "peak.f32", "peak.f64", "launch"}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("driver")
    for code, library in ((DRIVER, "libcuda.so.1"), (NVML, "libnvidia-ml.so.1")):
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-o", folder / library, code], check=True)
    return folder


Measured = tuple[dict[str, Ceiling], tuple[str, ...], list[list[str]]]


def measure(monkeypatch: pytest.MonkeyPatch, libraries: Path, log: Path, force: bool = False) -> Measured:
    """Ceilings by name, notes, and the kernels that were launched."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
    monkeypatch.setenv("FAKE_CUDA_LOG", str(log))
    log.touch()
    seen: list[Ceiling] = []
    ceilings, notes = measure_gpus(seen.append, sys.executable, quick=True, force=force)
    assert tuple(seen) == ceilings
    lines = [line.split() for line in log.read_text().splitlines()]
    return {ceiling.name: ceiling for ceiling in ceilings}, notes, lines


def launched(lines: list[list[str]], kernel: str) -> set[tuple[str, ...]]:
    return {tuple(words[1:]) for words in lines if words[0] == kernel}


def test_ceilings_are_the_launched_work_over_its_time(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path
) -> None:
    found, _, lines = measure(monkeypatch, libraries, tmp_path / "log")
    assert set(found) >= NAMES
    whole = BLOCKS * ptx.TILE
    reads = launched(lines, "read")
    assert len(reads) == 2 and all(words[:2] == (str(BLOCKS), "256") for words in reads)
    (hbm,) = [words for words in reads if words[2] == str(BLOCKS)]
    (l2,) = reads - {hbm}
    assert (l2[2], l2[3]) == (str((1 << 20) // 4 // ptx.TILE), "1"), "a quarter of the L2"
    assert found["hbm.read"].value == pytest.approx(whole * int(hbm[3]) / KERNEL_S)
    assert found["l2.read"].value == pytest.approx(whole * int(l2[4]) / KERNEL_S)
    for kernel, arrays in (("copy", 2), ("triad", 3)):
        ((_, _, rounds),) = launched(lines, kernel)
        assert found[f"hbm.{kernel}"].value == pytest.approx(arrays * whole * int(rounds) / KERNEL_S)
    for precision in ("f32", "f64"):
        ((blocks, threads, rounds, factor),) = launched(lines, f"fma_{precision}")
        each = 2 * ptx.CHAINS * ptx.LINKS * int(rounds)
        assert factor == "0.999"
        flops = each * int(blocks) * int(threads)
        assert found[f"peak.{precision}"].value == pytest.approx(flops / KERNEL_S)


def test_fields_say_what_and_where(monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path) -> None:
    found, _, _ = measure(monkeypatch, libraries, tmp_path / "log")
    measured = [found[name] for name in NAMES]
    assert {one.device for one in measured} == {"gpu 0"}
    assert {one.provenance for one in measured} == {Provenance.MEASURED}
    triad, peak, launch = found["hbm.triad"], found["peak.f64"], found["launch"]
    assert (triad.kind, triad.level, triad.unit, triad.operation) == ("memory", "hbm", "byte/s", "triad")
    assert (peak.kind, peak.precision, peak.unit, peak.operation) == ("compute", "f64", "FLOP/s", "fma")
    assert (launch.kind, launch.unit, launch.precision) == ("overhead", "s", "")
    assert 0 < launch.value < 1e-2
    assert found["l2.read"].level == "l2"
    assert triad.clock_hz == peak.clock_hz == 1755e6, "the SM clock while it ran"
    assert triad.median == pytest.approx(triad.value) and triad.spread == pytest.approx(0, abs=1e-6)


def test_theory_stands_beside_and_what_was_not_measured_is_said(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path
) -> None:
    found, notes, _ = measure(monkeypatch, libraries, tmp_path / "log")
    theory = found["hbm.theory"]
    assert (theory.provenance, theory.device) == (Provenance.ANALYTIC, "gpu 0")
    assert theory.value == pytest.approx(3.352e12, rel=1e-3)
    for precision in ("f16", "bf16", "tf32", "f8_e4m3"):
        assert any(f"gpu 0: peak.{precision} was not measured" in note for note in notes)
    assert any("neither torch nor cupy" in note for note in notes)
    assert any("gpu 0 was 97% busy before" in note for note in notes)


def test_full_memory_costs_what_needs_it(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_CUDA_FULL", "1")
    found, notes, _ = measure(monkeypatch, libraries, tmp_path / "log")
    assert "launch" in found and "hbm.read" not in found
    assert any(
        "hbm.read was not measured: DriverError: cuMemAlloc_v2: out of memory" in note for note in notes
    )


def test_gpu_that_others_compute_on_is_left_out_with_a_note(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_NVML_USER", "4321")
    found, notes, lines = measure(monkeypatch, libraries, tmp_path / "log")
    assert lines == [], "no kernel runs on it"
    assert {one.provenance for one in found.values()} == {Provenance.ANALYTIC}
    (note,) = [note for note in notes if note.startswith("gpu 0")]
    assert "other processes compute on it (pid 4321, 4322)" in note and "--force" in note


def test_gpu_that_others_compute_on_is_measured_in_little_memory_if_forced(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_NVML_USER", "4321")
    found, notes, _ = measure(monkeypatch, libraries, tmp_path / "log", force=True)
    assert set(found) >= NAMES
    assert any("gpu 0: measured beside other processes (pid 4321, 4322)" in note for note in notes)


def test_free_memory_of_a_shared_gpu_is_left_to_the_others() -> None:
    free, plan = 9000 << 20, FULL
    assert array_bytes(plan, free, 1 << 30) == 1000 << 20
    assert array_bytes(plan.sharing(), free, 1 << 30) == 100 << 20
    assert list(sizes(plan, free)) == [2048, 4096, 8192]
    assert list(sizes(plan.sharing(), free)) == [2048, 4096]


def test_part_of_a_gpu_is_not_measured_for_the_whole(
    monkeypatch: pytest.MonkeyPatch, libraries: Path, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAKE_NVML_MIG", "1")
    found, notes, lines = measure(monkeypatch, libraries, tmp_path / "log", force=True)
    assert (found, lines) == ({}, []), "nor its theory, which is the whole's"
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
    assert gpu._for_ncu([facts], environ) == ([facts] if asked else [])


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
    assert gpu._for_gpus(environ) == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PATH": os.environ["PATH"]}
    assert gpu._for_gpus({"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})["CUDA_DEVICE_ORDER"] == "FASTEST_FIRST"
    assert gpu._without_gpus({})["CUDA_VISIBLE_DEVICES"] == ""
