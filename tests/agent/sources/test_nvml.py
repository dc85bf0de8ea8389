"""GPU rows from a made-up driver of the same shape: values, units, what is missing, and whose they are."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.records import MetricKind, Provenance, Rank, Sample, Scope, SourceSettings
from roofline_agent.sources import SOURCES, nvml, nvml_device
from roofline_agent.sources.nvml import METRICS, NvmlSource

from .fake_nvml import FakeGpu, FakeNvml, NVMLError, Pid, field, process, rank
from .trees import Clock


@pytest.fixture(autouse=True)
def close_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two samples may follow at once."""
    monkeypatch.setattr(nvml, "LEAST_APART_NS", 0)
    monkeypatch.setattr(nvml_device, "SLOW_EVERY_NS", 0)


OF_RANKS = ("gpu_busy_ns", "gpu_tensor_ns", "gpu_dram_bytes", "gpu_copied_bytes")


def source(tmp_path: Path, *gpus: FakeGpu, **more: Any) -> NvmlSource:
    library = FakeNvml(*gpus, **more)
    made = NvmlSource(SourceSettings(proc=str(tmp_path)), lambda: library)
    made.probe()
    return made


def values(row: Sample) -> dict[str, float]:
    named = zip((m.name for m in METRICS), row.values, strict=True)
    return {name: value for name, value in named if value is not None}


def test_row_is_in_base_units(tmp_path: Path) -> None:
    made = source(tmp_path, FakeGpu())
    (row,) = made.sample([])
    got = values(row)
    assert (row.rank, row.instance) == (None, "gpu 0")
    assert abs(time.monotonic_ns() - row.time_ns) < 10**9
    assert got == {
        "utilization": 0.97,
        "memory_used_bytes": 20 << 30,
        "sm_clock_hz": 1755e6,
        "memory_clock_hz": 2619e6,
        "temperature_celsius": 61,
        "throttle_reasons": 4,
        "power_watts": pytest.approx(650.123),
        "energy_joules": pytest.approx(5000.5),
        "pcie_tx_bytes": 1_000_000,
        "pcie_rx_bytes": 2_000_000,
        "nvlink_tx_bytes": 10 * 1024,
        "nvlink_rx_bytes": 20 * 1024,
    }, "pipes are known from the second sample on"


def test_pipes_are_read_between_two_samples_and_estimates_follow(tmp_path: Path) -> None:
    made = source(tmp_path, FakeGpu())
    made.sample([])
    got = values(made.sample([])[0])
    assert got["gpm.sm_active"] == pytest.approx(0.9)
    assert got["gpm.pcie_rx_bytes_per_second"] == 2 * 2**20
    assert "gpm.nvlink_tx_bytes_per_second" not in got
    # 5120 bit at 2619 MHz, two transfers a clock: the data sheet's 3.35 TB/s.
    assert got["dram_bytes_per_second"] == pytest.approx(0.6 * 3.352e12, rel=1e-3)
    per_clock = 0.5 * 2048 + 0.1 * 128 + 0.05 * 256
    assert got["flops_per_second.upper"] == pytest.approx(2 * per_clock * 132 * 1755e6)


def test_estimates_are_labelled_so_and_all_rows_are_of_the_gpu() -> None:
    provenance = {m.name: m.provenance for m in METRICS}
    assert {n for n, p in provenance.items() if p != Provenance.MEASURED} == {
        "dram_bytes_per_second",
        "flops_per_second.upper",
        *OF_RANKS,
    }
    assert {m.name for m in METRICS if m.scope != Scope.GPU} == {"gpus", *OF_RANKS}
    assert {m.name for m in METRICS if m.kind == MetricKind.CUMULATIVE} == {
        *("energy_joules", "pcie_tx_bytes", "pcie_rx_bytes", "nvlink_tx_bytes", "nvlink_rx_bytes"),
        *OF_RANKS,
    }


def test_zeros_of_all_pipes_on_a_busy_gpu_are_no_values(tmp_path: Path) -> None:
    gpu = FakeGpu()
    gpu.gpm = dict.fromkeys((2, 5, 10, 11, 12, 13), 0.0) | {20: 1.0}
    made = source(tmp_path, gpu)
    made.sample([])
    got = values(made.sample([])[0])
    assert [name for name in got if name.endswith("_active")] == []
    assert "dram_bytes_per_second" not in got and "flops_per_second.upper" not in got
    assert got["gpm.pcie_tx_bytes_per_second"] == 2**20
    gpu.answers["nvmlDeviceGetUtilizationRates"].gpu = 0
    assert values(made.sample([])[0])["gpm.sm_active"] == 0.0, "an idle GPU does nothing, and that is known"


def test_snapshots_too_close_together_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LEAST_APART_NS", 10**12)
    gpu = FakeGpu()
    made = source(tmp_path, gpu)
    rows = [values(made.sample([])[0]) for _ in range(3)]
    assert all("gpm.sm_active" not in row for row in rows)
    assert gpu.calls["nvmlGpmSampleGet"] == 1, "the first snapshot is kept until enough time has passed"


def test_what_the_gpu_has_not_is_asked_once(tmp_path: Path) -> None:
    gpu = FakeGpu(nvmlDeviceGetTemperature=NVMLError(3), nvmlGpmQueryDeviceSupport=NVMLError(3))
    gpu.fields[197] = gpu.fields[198] = field(0, status=3)
    gpu.fields[186] = field(0, status=3)
    made = source(tmp_path, gpu)
    rows = [values(made.sample([])[0]) for _ in range(3)]
    assert gpu.calls["nvmlDeviceGetTemperature"] == 1
    assert not {"temperature_celsius", "pcie_tx_bytes", "gpm.sm_active"} & rows[2].keys()
    assert rows[2]["power_watts"] == 640.0, "the mean stands in where the GPU tells no instant"
    assert rows[2]["energy_joules"] == pytest.approx(5000.5)


def test_what_changes_slowly_is_asked_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_device, "SLOW_EVERY_NS", 10**12)
    gpu = FakeGpu()
    made = source(tmp_path, gpu)
    rows = [values(made.sample([])[0]) for _ in range(3)]
    assert gpu.calls["nvmlDeviceGetMemoryInfo"] == gpu.calls["nvmlDeviceGetTemperature"] == 1
    assert rows[2]["memory_used_bytes"] == 20 << 30
    assert gpu.calls["nvmlDeviceGetFieldValues"] == gpu.calls["nvmlDeviceGetUtilizationRates"] == 3


def test_what_fails_once_is_missing_once(tmp_path: Path) -> None:
    gpu = FakeGpu()
    made = source(tmp_path, gpu)
    good = gpu.answers["nvmlDeviceGetMemoryInfo"]
    gpu.answers["nvmlDeviceGetMemoryInfo"] = NVMLError(999)
    assert "memory_used_bytes" not in values(made.sample([])[0])
    gpu.answers["nvmlDeviceGetMemoryInfo"] = good
    assert "memory_used_bytes" in values(made.sample([])[0])


def test_package_older_than_a_call_goes_without_it(tmp_path: Path) -> None:
    gpu = FakeGpu()
    for name in ("nvmlDeviceGetNumGpuCores", "nvmlGpmQueryDeviceSupport", "nvmlDeviceGetMemoryBusWidth"):
        del gpu.answers[name]
    made = source(tmp_path, gpu)
    made.sample([])
    got = values(made.sample([])[0])
    assert got["utilization"] == 0.97
    assert "flops_per_second.upper" not in got


def test_lost_gpu_ends_its_own_rows_only(tmp_path: Path) -> None:
    one, two = FakeGpu(), FakeGpu()
    made = source(tmp_path, one, two)
    assert [row.instance for row in made.sample([])] == ["gpu 0", "gpu 1"]
    one.answers["nvmlDeviceGetMemoryInfo"] = NVMLError(15)
    assert [row.instance for row in made.sample([])] == ["gpu 1"]
    one.calls.clear()
    assert [row.instance for row in made.sample([])] == ["gpu 1"]
    assert not one.calls, "it is not asked again"
    made.close()


def test_gpu_that_was_reset_is_sampled_again(tmp_path: Path) -> None:
    one, clock = FakeGpu(), Clock()
    library = FakeNvml(one, FakeGpu())
    made = NvmlSource(SourceSettings(proc=str(tmp_path), clock=clock), lambda: library)
    made.probe()
    memory, one.answers["nvmlDeviceGetMemoryInfo"] = one.answers["nvmlDeviceGetMemoryInfo"], NVMLError(16)
    assert [row.instance for row in made.sample([])] == ["gpu 1"]
    one.answers["nvmlDeviceGetCudaComputeCapability"] = NVMLError(16)
    clock.advance(181)
    assert [row.instance for row in made.sample([])] == ["gpu 1"], "it still needs a reset"
    one.answers |= {"nvmlDeviceGetMemoryInfo": memory, "nvmlDeviceGetCudaComputeCapability": (9, 0)}
    clock.advance(181)
    assert sorted(row.instance for row in made.sample([])) == ["gpu 0", "gpu 1"]
    made.close()
    assert (library.open, library.samples) == (0, 0)


def test_source_without_a_gpu_left_fails_and_may_be_started_again(tmp_path: Path) -> None:
    gpu = FakeGpu()
    library = FakeNvml(gpu)
    made = NvmlSource(SourceSettings(proc=str(tmp_path)), lambda: library)
    assert made.probe().works
    memory, gpu.answers["nvmlDeviceGetMemoryInfo"] = gpu.answers["nvmlDeviceGetMemoryInfo"], NVMLError(15)
    for _ in range(2):
        with pytest.raises(nvml_device.Lost, match="no GPU answers any more"):
            made.sample([])
    gpu.answers["nvmlDeviceGetMemoryInfo"] = memory
    assert made.probe().works and len(made.sample([])) == 1
    made.close()
    assert (library.open, library.samples) == (0, 0)


def test_gpu_lost_before_the_start_leaves_the_others(tmp_path: Path) -> None:
    made = source(tmp_path, FakeGpu(nvmlDeviceGetCudaComputeCapability=NVMLError(15)), FakeGpu())
    assert [row.instance for row in made.sample([])] == ["gpu 1"]


def test_whole_gpu_under_mig_has_no_utilization(tmp_path: Path) -> None:
    made = source(tmp_path, FakeGpu(nvmlDeviceGetUtilizationRates=NVMLError(3)))
    got = values(made.sample([])[0])
    assert "utilization" not in got and got["power_watts"]


def test_counter_that_wraps_at_32_bits_goes_on(tmp_path: Path) -> None:
    gpu = FakeGpu()
    made = source(tmp_path, gpu)
    seen = []
    for reading in (2**32 - 100, 50, 70):
        gpu.fields[197] = field(reading, 1)
        seen.append(values(made.sample([])[0])["pcie_tx_bytes"])
    assert [b - a for a, b in pairwise(seen)] == [150, 20]


def test_counter_that_starts_anew_never_falls(tmp_path: Path) -> None:
    gpu = FakeGpu()
    made = source(tmp_path, gpu)
    seen = []
    for reading in (1000, 10, 30):
        gpu.fields[198] = field(reading)
        seen.append(values(made.sample([])[0])["pcie_rx_bytes"])
    assert seen == [1000, 1010, 1030]


def test_gpu_of_one_rank_carries_that_rank(tmp_path: Path) -> None:
    for pid, parent in ((10, 1), (11, 10), (12, 11), (20, 1)):
        process(tmp_path, pid, parent)
    ranks = [rank(10), rank(20, 1)]
    busy = [FakeGpu(), FakeGpu(), FakeGpu(), FakeGpu()]
    for gpu, pids in zip(busy, ([12], [10, 20], [], [20, 99]), strict=True):
        gpu.answers["nvmlDeviceGetComputeRunningProcesses"] = [Pid(pid) for pid in pids]
    made = source(tmp_path, *busy)
    owners = [row.rank for row in made.sample(ranks) if row.instance]
    assert owners == [ranks[0], None, None, ranks[1]], "a descendant counts; strangers are no rank"


def test_rank_has_the_totals_of_the_gpus_that_it_uses_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in (10, 20, 30):
        process(tmp_path, pid)
    first, second, shared = rank(10), rank(20, 1), rank(30, 2)
    gpus = [FakeGpu(), FakeGpu(), FakeGpu()]
    for gpu, pids, busy in zip(gpus, ([10], [10], [20, 30]), (80.0, 40.0, 100.0), strict=True):
        gpu.answers["nvmlDeviceGetComputeRunningProcesses"] = [Pid(pid) for pid in pids]
        gpu.gpm |= {1: busy}
    clock = iter(range(0, 10**12, 2 * 10**9))
    library = FakeNvml(*gpus)
    made = NvmlSource(SourceSettings(proc=str(tmp_path), clock=lambda: next(clock) // 2), lambda: library)
    made.probe()

    def totals(ranks: list[Rank]) -> dict[Rank | None, dict[str, float]]:
        return {row.rank: values(row) for row in made.sample(ranks) if not row.instance}

    everyone = [first, second, shared]
    before, after = totals(everyone), totals(everyone)
    assert {one: found["gpus"] for one, found in after.items()} == {first: 2, second: 1, shared: 1}
    assert before[first]["gpu_busy_ns"] == 0
    # Two seconds by the clock: it is asked for users, then for the time of the totals.
    assert after[first]["gpu_busy_ns"] == pytest.approx(0.6 * 2e9), "the mean of two GPUs"
    assert after[first]["gpu_tensor_ns"] == pytest.approx(0.5 * 2e9)
    assert after[first]["gpu_dram_bytes"] == pytest.approx(2 * 2 * 0.6 * 3.352e12, rel=1e-3), "their sum"
    assert after[first]["gpu_copied_bytes"] == pytest.approx(2 * 2 * 2 * 2**20)
    assert after[second].keys() == after[shared].keys() == {"gpus"}, "who of them used it is not known"
    gpus[2].answers["nvmlDeviceGetComputeRunningProcesses"] = [Pid(20)]
    for _ in range(5):
        later = totals(everyone)
    assert shared not in later and later[second]["gpu_busy_ns"] > 0


def test_busy_time_of_a_gpu_without_gpm_is_by_its_utilization(tmp_path: Path) -> None:
    process(tmp_path, 10)
    gpu = FakeGpu(nvmlGpmQueryDeviceSupport=NVMLError(3))
    gpu.answers["nvmlDeviceGetComputeRunningProcesses"] = [Pid(10)]
    clock = iter(range(0, 10**12, 10**9))
    library = FakeNvml(gpu)
    made = NvmlSource(SourceSettings(proc=str(tmp_path), clock=lambda: next(clock)), lambda: library)
    made.probe()
    for _ in range(2):
        row = next(row for row in made.sample([rank(10)]) if not row.instance)
    assert values(row) == {"gpus": 1, "gpu_busy_ns": pytest.approx(0.97 * 2e9)}


def test_totals_go_on_where_a_sample_comes_too_soon_for_gpm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "LEAST_APART_NS", 90_000_000)
    process(tmp_path, 10)
    gpu = FakeGpu()
    gpu.answers["nvmlDeviceGetComputeRunningProcesses"] = [Pid(10)]
    clock, library = Clock(), FakeNvml(gpu)
    made = NvmlSource(SourceSettings(proc=str(tmp_path), clock=clock), lambda: library)
    made.probe()
    tensor_ms = []
    for seconds in (0, 0.1, 0.1, 0.085, 0.115, 0.1):
        clock.advance(seconds)
        rows = [values(row) for row in made.sample([rank(10)])]
        tensor_ms.append([round(row["gpu_tensor_ns"] / 1e6) for row in rows if "gpu_tensor_ns" in row])
    assert tensor_ms == [[], [50], [100], [], [200], [250]]
    assert gpu.calls["nvmlGpmSampleGet"] == 5


def test_users_are_asked_for_again_when_ranks_change(tmp_path: Path) -> None:
    process(tmp_path, 10)
    gpu = FakeGpu()
    gpu.answers["nvmlDeviceGetComputeRunningProcesses"] = [Pid(10)]
    made = source(tmp_path, gpu)
    assert made.sample([])[0].rank is None
    assert [row.rank for row in made.sample([rank(10)])] == [rank(10)] * 2
    made.sample([rank(10)])
    assert gpu.calls["nvmlDeviceGetComputeRunningProcesses"] == 2, "not with every sample"


def test_stray_contexts_on_the_first_gpu_leave_each_rank_its_own(tmp_path: Path) -> None:
    ranks = [rank(100 + index, index) for index in range(4)]
    gpus = [FakeGpu() for _ in ranks]
    for one, gpu in zip(ranks, gpus, strict=True):
        process(tmp_path, one.pid)
        gpu.answers["nvmlDeviceGetComputeRunningProcesses"] = [Pid(one.pid, 30 << 30)]
    strays = [Pid(one.pid, 400 << 20) for one in ranks[1:]]
    gpus[0].answers["nvmlDeviceGetComputeRunningProcesses"] += strays
    made = source(tmp_path, *gpus)
    rows = [made.sample(ranks) for _ in range(2)][1]
    assert [row.rank for row in rows if row.instance] == ranks
    of_ranks = {row.rank: values(row) for row in rows if not row.instance}
    assert of_ranks.keys() == set(ranks)
    assert all(found["gpus"] == 1 and "gpu_busy_ns" in found for found in of_ranks.values())


def no_package() -> Any:
    raise ModuleNotFoundError("pynvml", name="pynvml")


def test_missing_package_is_advised_where_there_is_a_driver(tmp_path: Path) -> None:
    made = NvmlSource(SourceSettings(proc=str(tmp_path)), no_package)
    status = made.probe()
    assert not status.works and "where there are GPUs" in status.advice
    assert "no NVIDIA driver" in status.reason
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    assert made.probe().advice == "pip install nvidia-ml-py"
    made.close()


@pytest.mark.parametrize("error", [9, 12])
def test_missing_driver_is_reported(tmp_path: Path, error: int) -> None:
    status = NvmlSource(SourceSettings(proc=str(tmp_path)), lambda: FakeNvml(broken=error)).probe()
    assert (status.works, status.reason) == (False, "no NVIDIA driver is loaded here")


def test_library_that_does_not_fit_its_driver_is_reported(tmp_path: Path) -> None:
    status = NvmlSource(SourceSettings(proc=str(tmp_path)), lambda: FakeNvml(broken=18)).probe()
    assert not status.works and status.advice == "look at `nvidia-smi`"


def test_package_is_not_loaded_where_there_is_no_driver(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom roofline_agent.records import SourceSettings\n"
        "from roofline_agent.sources.nvml import NvmlSource\n"
        "print(NvmlSource(SourceSettings()).probe().reason, 'pynvml' in sys.modules)"
    )
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stdout in ("no NVIDIA driver is loaded here False\n", " True\n"), (
        "the latter: this node has one"
    )


def test_node_without_gpus_has_no_source(tmp_path: Path) -> None:
    assert not NvmlSource(SourceSettings(proc=str(tmp_path)), lambda: FakeNvml()).probe().works


def test_close_gives_everything_back(tmp_path: Path) -> None:
    library = FakeNvml(FakeGpu(), FakeGpu())
    made = NvmlSource(SourceSettings(proc=str(tmp_path)), lambda: library)
    made.probe()
    made.sample([])
    assert (library.open, library.samples) == (1, 4)
    made.close()
    assert (library.open, library.samples) == (0, 0)


def test_source_is_in_the_table() -> None:
    assert SOURCES["gpu"] is NvmlSource
    assert NvmlSource.measures, "a driver may hang"


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="nvidia-ml-py is not installed")
def test_real_package_has_what_is_asked_of_it() -> None:
    import pynvml  # type: ignore[import-not-found,import-untyped,unused-ignore]

    for name in FakeGpu().answers:
        assert hasattr(pynvml, name)
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.metrics[0].metricId = 2
    assert isinstance(asked, ctypes.Structure) and asked.metrics[0].metricId == 2
    assert pynvml.NVMLError(15).value == 15
    assert (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_GPU_IS_LOST) == (3, 15)
    assert pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES == 197
    one = pynvml.c_nvmlFieldValue_t()
    assert {"nvmlReturn", "valueType", "value"} <= {name for name, _ in one._fields_}


SAMPLE_TWICE = """
from roofline_agent.records import SourceSettings
from roofline_agent.sources import nvml
from roofline_agent.sources.nvml import METRICS, NvmlSource
nvml.LEAST_APART_NS = 0
source = NvmlSource(SourceSettings())
assert source.probe().works
source.sample([])
(row,) = source.sample([])
source.close()
print({m.name: v for m, v in zip(METRICS, row.values) if v is not None})
"""


@pytest.mark.skipif(importlib.util.find_spec("pynvml") is None, reason="nvidia-ml-py is not installed")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_real_package_over_a_made_up_driver(tmp_path: Path) -> None:
    code, library = Path(__file__).with_name("fake_nvml.c"), tmp_path / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, code], check=True)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SAMPLE_TWICE], env=environ, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    got = ast.literal_eval(done.stdout)
    assert (got["memory_used_bytes"], got["power_watts"], got["energy_joules"]) == (20, 650.123, 5000.5)
    assert (got["nvlink_tx_bytes"], got["nvlink_rx_bytes"]) == (138 * 1024, 139 * 1024)
    assert (got["gpm.sm_active"], got["gpm.dram_active"]) == (0.02, 0.1)
    assert got["throttle_reasons"] == 4, "by the name that old drivers know"
    assert not {"temperature_celsius", "pcie_tx_bytes"} & got.keys()
