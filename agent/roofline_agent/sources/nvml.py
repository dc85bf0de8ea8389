"""Every GPU of the node through NVML: load, memory, clocks, power, traffic, and from Hopper on its pipes.

Rows are of whole GPUs ("gpu 0"); one used by a single rank carries that rank. A value the GPU or the driver
does not have is asked for once and then left out; a GPU that falls off the bus ends its own rows only.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..records import CounterSet, Metric, MetricKind, Provenance, Rank, Sample, Scope, Settings, SourceStatus
from .nvml_gpm import GPM_METRICS, Gpm, flops_per_second_upper, without_silent_zeros

log = logging.getLogger(__name__)

# From nvml.h; older nvidia-ml-py packages know the calls but not all of these names.
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 3, 4, 13, 15, 16
INVALID_ARGUMENT, LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED = 2, 12, 9
NEVER = (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, INVALID_ARGUMENT)
SM_CLOCK, MEMORY_CLOCK, GPU_TEMPERATURE = 1, 2, 0
ALL_LINKS = 0xFFFFFFFF
KIB = 1024
# Counters that one call fetches: metric -> (field id or (id, scope), factor to the base unit). The call for
# PCIe throughput is not used: it blocks for 20 ms and tells a rate.
FIELDS: dict[str, tuple[Any, float]] = {
    "power_watts": (186, 1e-3),  # POWER_INSTANT; PowerUsage is a mean over a second on many GPUs
    "energy_joules": (83, 1e-3),
    "pcie_tx_bytes": (197, 1),
    "pcie_rx_bytes": (198, 1),
    "nvlink_tx_bytes": ((138, ALL_LINKS), KIB),
    "nvlink_rx_bytes": ((139, ALL_LINKS), KIB),
}
_VALUE_OF_TYPE = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # nvmlValueType_t
UNSIGNED_INT = 1
WRAP = 1 << 32
WHO_EVERY_NS = 5_000_000_000
MAX_ANCESTORS = 16
CORES_PER_SM = {7: 64, 8: 128, 9: 128, 10: 128, 11: 128, 12: 128}  # by capability; (8, 0) has 64


def _metric(
    name: str, unit: str, kind: MetricKind = MetricKind.GAUGE, estimated: bool = False, whole: bool = False
) -> Metric:
    provenance = Provenance.ESTIMATED if estimated else Provenance.MEASURED
    return Metric(name, kind, unit, Scope.GPU, provenance, is_double=not whole)


METRICS = (
    _metric("utilization", "1"),
    _metric("memory_used_bytes", "byte", whole=True),
    _metric("sm_clock_hz", "Hz"),
    _metric("memory_clock_hz", "Hz"),
    _metric("temperature_celsius", "degC"),
    _metric("throttle_reasons", "1", whole=True),
    _metric("power_watts", "W"),
    _metric("energy_joules", "J", MetricKind.CUMULATIVE),
    _metric("pcie_tx_bytes", "byte", MetricKind.CUMULATIVE, whole=True),
    _metric("pcie_rx_bytes", "byte", MetricKind.CUMULATIVE, whole=True),
    _metric("nvlink_tx_bytes", "byte", MetricKind.CUMULATIVE, whole=True),
    _metric("nvlink_rx_bytes", "byte", MetricKind.CUMULATIVE, whole=True),
    *(_metric(name, "1" if name.endswith("_active") else "byte/s") for name in GPM_METRICS),
    _metric("dram_bytes_per_second", "byte/s", estimated=True),
    _metric("flops_per_second.upper", "FLOP/s", estimated=True),
)


class _Lost(Exception):
    """The GPU is no longer there."""


class _Gpu:
    """One GPU: what never changes about it, what it has not got, and its counters made monotonic."""

    def __init__(self, nvml: Any, index: int) -> None:
        self.name = f"gpu {index}"
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
        self._never: set[str] = set()
        self._fields = dict(FIELDS)
        self._counters: dict[str, tuple[int, int]] = {}  # last reading, what is to be added to it
        self._capability = self._ask("nvmlDeviceGetCudaComputeCapability")
        self._sms = self._count_sms()
        self._peak_bytes_per_second = self._peak_bandwidth()
        self._gpm: Gpm | None = None
        with contextlib.suppress(nvml.NVMLError, AttributeError):  # older package, driver or GPU
            self._gpm = Gpm(nvml, self._handle)

    def _ask(self, function: str, *arguments: Any) -> Any:
        key = f"{function}{arguments}"
        if key in self._never:
            return None
        try:
            return getattr(self._nvml, function)(self._handle, *arguments)
        except AttributeError:  # a package older than the call
            self._never.add(key)
        except self._nvml.NVMLError as error:
            self._note(error)
            if error.value in NEVER:
                self._never.add(key)
        return None

    def _note(self, error: Any) -> None:
        if error.value in (GPU_IS_LOST, RESET_REQUIRED):
            raise _Lost(str(error)) from None

    def _count_sms(self) -> float | None:
        cores = self._ask("nvmlDeviceGetNumGpuCores")
        if not cores or self._capability is None:
            return None
        per_sm = 64 if self._capability == (8, 0) else CORES_PER_SM.get(self._capability[0])
        return cores / per_sm if per_sm else None

    def _peak_bandwidth(self) -> float | None:
        """Bytes/s: bus width times twice the highest memory clock (double data rate, HBM and GDDR alike)."""
        width = self._ask("nvmlDeviceGetMemoryBusWidth")
        clock = self._ask("nvmlDeviceGetMaxClockInfo", MEMORY_CLOCK)
        return width / 8 * clock * 1e6 * 2 if width and clock else None

    def read(self) -> tuple[int, dict[str, int | float]]:
        """Node time and the values that are there. Raises _Lost."""
        found: dict[str, int | float | None] = {}
        load = self._ask("nvmlDeviceGetUtilizationRates")  # with MIG on there is none for the whole GPU
        found["utilization"] = None if load is None else load.gpu / 100
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        found["memory_used_bytes"] = None if memory is None else memory.used
        found["sm_clock_hz"] = _scaled(self._ask("nvmlDeviceGetClockInfo", SM_CLOCK), 1e6)
        found["memory_clock_hz"] = _scaled(self._ask("nvmlDeviceGetClockInfo", MEMORY_CLOCK), 1e6)
        found["temperature_celsius"] = _scaled(self._ask("nvmlDeviceGetTemperature", GPU_TEMPERATURE), 1.0)
        found["throttle_reasons"] = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        found.update(self._read_fields())
        if "power_watts" not in self._fields:
            found["power_watts"] = _scaled(self._ask("nvmlDeviceGetPowerUsage"), 1e-3)
        now = time.monotonic_ns()
        found.update(self._activity(now, found["utilization"], found["sm_clock_hz"]))
        return now, {name: value for name, value in found.items() if value is not None}

    def _read_fields(self) -> dict[str, int | float]:
        if not self._fields:
            return {}
        values = self._ask("nvmlDeviceGetFieldValues", [field for field, _ in self._fields.values()])
        found: dict[str, int | float] = {}
        for name, answer in zip(list(self._fields), values or (), strict=False):
            if answer.nvmlReturn == 0:
                found[name] = self._field(name, answer)
            elif answer.nvmlReturn in NEVER:
                del self._fields[name]
        return found

    def _field(self, name: str, answer: Any) -> int | float:
        number = getattr(answer.value, _VALUE_OF_TYPE[answer.valueType])
        factor = self._fields[name][1]
        if name.endswith("_bytes"):
            return self._unwrapped(name, number, answer.valueType) * int(factor)
        return float(number * factor)

    def _unwrapped(self, name: str, number: int, kind: int) -> int:
        """The counter as one that only grows: 32-bit ones wrap, others start anew when the driver does."""
        last, more = self._counters.get(name, (number, 0))
        if number < last:
            more += WRAP if kind == UNSIGNED_INT else last
        self._counters[name] = (number, more)
        return number + more

    def _activity(
        self, now_ns: int, utilization: float | None, sm_clock_hz: float | None
    ) -> dict[str, int | float | None]:
        if self._gpm is None:
            return {}
        try:
            gauges = without_silent_zeros(self._gpm.read(now_ns), utilization)
        except self._nvml.NVMLError as error:
            self._note(error)
            return {}
        dram, peak = gauges.get("gpm.dram_active"), self._peak_bytes_per_second
        return {
            **gauges,
            "dram_bytes_per_second": None if dram is None or peak is None else dram * peak,
            "flops_per_second.upper": flops_per_second_upper(
                gauges, self._capability, self._sms, sm_clock_hz
            ),
        }

    def pids(self) -> list[int]:
        """Processes that compute on it. Raises _Lost."""
        return [int(one.pid) for one in self._ask("nvmlDeviceGetComputeRunningProcesses") or ()]

    def close(self) -> None:
        if self._gpm is not None:
            self._gpm.close()


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


class NvmlSource:
    """Counter set "gpu"."""

    name = "gpu"
    fills = (
        "load, memory, power and traffic of GPUs; on Hopper and newer their pipes, with estimates of FLOP/s"
    )
    measures = True
    counter_set = CounterSet("gpu", METRICS)

    def __init__(
        self, settings: Settings, load: Callable[[], Any] = lambda: importlib.import_module("pynvml")
    ) -> None:
        self._proc = Path(settings.proc)
        self._load = load
        self._nvml: Any = None
        self._gpus: list[_Gpu] = []
        self._users: dict[str, Rank | None] = {}
        self._asked: tuple[int, frozenset[Rank]] | None = None

    def probe(self) -> SourceStatus:
        try:
            nvml = self._load()
        except ImportError:
            reason = "the Python package nvidia-ml-py is not installed"
            if not (self._proc / "driver/nvidia").exists():
                return SourceStatus(self.name, False, f"{reason}, and no NVIDIA driver is loaded here")
            return SourceStatus(self.name, False, reason, "pip install nvidia-ml-py")
        try:
            nvml.nvmlInit()
            self._nvml = nvml
            self._gpus = self._find()
        except nvml.NVMLError as error:
            return SourceStatus(self.name, False, *_why(error))
        if not self._gpus:
            return SourceStatus(self.name, False, "no GPU answers", "look at `nvidia-smi`")
        return SourceStatus(self.name, True)

    def _find(self) -> list[_Gpu]:
        found = []
        for index in range(self._nvml.nvmlDeviceGetCount()):
            try:
                found.append(_Gpu(self._nvml, index))
            except (_Lost, self._nvml.NVMLError) as error:
                log.warning("gpu %d is not sampled: %s", index, error)
        return found

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        self._refresh_users(ranks)
        rows = []
        for gpu in list(self._gpus):
            try:
                now, values = gpu.read()
            except _Lost as error:
                self._drop(gpu, error)
                continue
            row = tuple(values.get(metric.name) for metric in METRICS)
            rows.append(Sample(self._users.get(gpu.name), now, row, gpu.name))
        return rows

    def _drop(self, gpu: _Gpu, error: _Lost) -> None:
        log.warning("%s is sampled no more: %s", gpu.name, error)
        self._gpus = [one for one in self._gpus if one is not gpu]

    def _refresh_users(self, ranks: Sequence[Rank]) -> None:
        now, alive = time.monotonic_ns(), frozenset(ranks)
        if self._asked is not None and now - self._asked[0] < WHO_EVERY_NS and alive == self._asked[1]:
            return
        self._asked = (now, alive)
        for gpu in list(self._gpus):
            try:
                self._users[gpu.name] = user_of(gpu.pids(), ranks, self._proc)
            except _Lost as error:
                self._drop(gpu, error)

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                for gpu in self._gpus:
                    gpu.close()
                self._nvml.nvmlShutdown()


def _why(error: Any) -> tuple[str, str]:
    """Reason and advice for an error of nvmlInit or right after it."""
    if error.value in (LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED):
        return "no NVIDIA driver is loaded here", ""
    return f"NVML does not start: {error}", "look at `nvidia-smi`"


def user_of(pids: Sequence[int], ranks: Sequence[Rank], proc: Path) -> Rank | None:
    """The one rank to which all those processes belong that belong to any; None: nobody, or several.

    A process belongs to the rank that it is or descends from. NVML numbers processes as the host does; one
    that cannot be seen here may still be a rank under its number in another PID namespace (NSpid).
    """
    own = {rank.pid: rank for rank in ranks}
    found = {_rank_above(pid, own, proc) for pid in pids if (proc / str(pid)).exists()}
    hidden = {pid for pid in pids if not (proc / str(pid)).exists()}
    if hidden:
        found |= {rank for rank in ranks if hidden & {int(n) for n in _status(rank.pid, proc, "NSpid:")}}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def _rank_above(pid: int, ranks: Mapping[int, Rank], proc: Path) -> Rank | None:
    for _ in range(MAX_ANCESTORS):
        if pid in ranks or pid <= 1:
            return ranks.get(pid)
        parent = _status(pid, proc, "PPid:")
        pid = int(parent[0]) if parent else 0
    return None


def _status(pid: int, proc: Path, key: str) -> list[str]:
    with contextlib.suppress(OSError):
        for line in (proc / str(pid) / "status").read_text(errors="replace").splitlines():
            if line.startswith(key):
                return line.split()[1:]
    return []
