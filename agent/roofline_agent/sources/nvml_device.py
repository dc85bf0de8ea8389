"""One GPU as NVML shows it: asked as rarely as may be, what it has not got just once."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from .nvml_gpm import Gpm, flops_per_second_upper, without_silent_zeros

# From nvml.h; older nvidia-ml-py packages know the calls but not all of these names.
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, GPU_IS_LOST, RESET_REQUIRED = 3, 4, 13, 15, 16
INVALID_ARGUMENT = 2
NEVER = (NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND, INVALID_ARGUMENT)
SM_CLOCK, MEMORY_CLOCK, GPU_TEMPERATURE = 1, 2, 0
ALL_LINKS = 0xFFFFFFFF
KIB = 1024
# Counters that one call fetches: metric -> (field id or (id, scope), factor to the base unit). The call for
# PCIe throughput is not used: it blocks for 20 ms and gives a rate.
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
SLOW_EVERY_NS = 1_000_000_000  # memory, its clock and the temperature
CORES_PER_SM = {7: 64, 8: 128, 9: 128, 10: 128, 11: 128, 12: 128}  # by capability; (8, 0) has 64


class Lost(Exception):
    """The GPU is no longer there."""


class Gpu:
    """One GPU: what never changes about it, what it has not got, and its counters made monotonic."""

    def __init__(self, nvml: Any, index: int) -> None:
        self.name, self.index = f"gpu {index}", index
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
        self._never: set[str] = set()
        self._fields = dict(FIELDS)
        self._slow: dict[str, int | float | None] = {}
        self._slow_ns: int | None = None
        self._counters: dict[str, tuple[int, int]] = {}  # last reading, what is to be added to it
        self._capability = self._ask("nvmlDeviceGetCudaComputeCapability")
        self._sms = self._count_sms()
        # Bus width times twice the highest memory clock (double data rate, HBM and GDDR alike).
        width = self._ask("nvmlDeviceGetMemoryBusWidth")
        clock_mhz = self._ask("nvmlDeviceGetMaxClockInfo", MEMORY_CLOCK)
        self._peak_bytes_per_second = width / 8 * clock_mhz * 1e6 * 2 if width and clock_mhz else None
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
            self._raise_if_lost(error)
            if error.value in NEVER:
                self._never.add(key)
        return None

    def _raise_if_lost(self, error: Any) -> None:
        if error.value in (GPU_IS_LOST, RESET_REQUIRED):
            raise Lost(str(error)) from None

    def _count_sms(self) -> float | None:
        cores = self._ask("nvmlDeviceGetNumGpuCores")
        if not cores or self._capability is None:
            return None
        per_sm = 64 if self._capability == (8, 0) else CORES_PER_SM.get(self._capability[0])
        return cores / per_sm if per_sm else None

    def read(self, activity: bool) -> tuple[int, dict[str, int | float]]:
        """Node time and the values that are there; activity: with what GPM has. Raises Lost."""
        if self._slow_ns is None or time.monotonic_ns() - self._slow_ns >= SLOW_EVERY_NS:
            memory = self._ask("nvmlDeviceGetMemoryInfo")
            self._slow = {
                "memory_used_bytes": None if memory is None else memory.used,
                "memory_clock_hz": _scaled(self._ask("nvmlDeviceGetClockInfo", MEMORY_CLOCK), 1e6),
                "temperature_celsius": _scaled(self._ask("nvmlDeviceGetTemperature", GPU_TEMPERATURE), 1.0),
            }
            self._slow_ns = time.monotonic_ns()
        values: dict[str, int | float | None] = dict(self._slow)
        load = self._ask("nvmlDeviceGetUtilizationRates")  # with MIG on there is none for the whole GPU
        values["utilization"] = None if load is None else load.gpu / 100
        values["sm_clock_hz"] = _scaled(self._ask("nvmlDeviceGetClockInfo", SM_CLOCK), 1e6)
        values["throttle_reasons"] = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if values["throttle_reasons"] is None:  # its name before driver 535
            values["throttle_reasons"] = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        values.update(self._read_fields())
        if "power_watts" not in self._fields:
            values["power_watts"] = _scaled(self._ask("nvmlDeviceGetPowerUsage"), 1e-3)
        now = time.monotonic_ns()
        if activity:
            values.update(self._read_activity(values["utilization"], values["sm_clock_hz"]))
        return now, {name: value for name, value in values.items() if value is not None}

    def _read_fields(self) -> dict[str, int | float]:
        if not self._fields:
            return {}
        values = self._ask("nvmlDeviceGetFieldValues", [field for field, _ in self._fields.values()])
        found: dict[str, int | float] = {}
        for name, answer in zip(list(self._fields), values or (), strict=False):
            if answer.nvmlReturn == 0:
                number = getattr(answer.value, _VALUE_OF_TYPE[answer.valueType])
                factor = self._fields[name][1]
                if name.endswith("_bytes"):
                    found[name] = self._unwrap(name, number, answer.valueType) * int(factor)
                else:
                    found[name] = float(number * factor)
            elif answer.nvmlReturn in NEVER:
                del self._fields[name]
        return found

    def _unwrap(self, name: str, number: int, kind: int) -> int:
        """The counter as one that only grows: 32-bit ones wrap, others start again when the driver does."""
        last, more = self._counters.get(name, (number, 0))
        if number < last:
            more += WRAP if kind == UNSIGNED_INT else last
        self._counters[name] = (number, more)
        return number + more

    def _read_activity(
        self, utilization: float | None, sm_clock_hz: float | None
    ) -> dict[str, int | float | None]:
        """GPM's gauges since the last reading, and the estimates that follow from them."""
        if self._gpm is None:
            return {}
        try:
            gauges = without_silent_zeros(self._gpm.read(), utilization)
        except self._nvml.NVMLError as error:
            self._raise_if_lost(error)
            return {}
        dram, peak = gauges.get("gpm.dram_active"), self._peak_bytes_per_second
        return {
            **gauges,
            "dram_bytes_per_second": None if dram is None or peak is None else dram * peak,
            "flops_per_second.upper": flops_per_second_upper(
                gauges, self._capability, self._sms, sm_clock_hz
            ),
        }

    def held(self) -> dict[int, int | None]:
        """Processes that compute on it, with the bytes that they hold (None: not known). Raises Lost."""
        found: dict[int, int | None] = {}
        for one in self._ask("nvmlDeviceGetComputeRunningProcesses") or ():
            more, before = one.usedGpuMemory, found.get(int(one.pid), 0)  # several times on parts of a GPU
            found[int(one.pid)] = None if more is None or before is None else before + int(more)
        return found

    def close(self) -> None:
        if self._gpm is not None:
            self._gpm.close()


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
