"""The driver's library by ctypes: which GPUs there are, their limits, and their clock while something runs.

Not the package nvidia-ml-py, which a training's Python need not have. Every question may stay without answer.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

_SM, _MEMORY = 1, 2  # nvmlClockType_t: NVML_CLOCK_SM, NVML_CLOCK_MEM
_MHZ = 1e6
BUSY = 0.1  # what a GPU that nobody uses may show
_TEXT = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE and NVML_DEVICE_UUID_V2_BUFFER_SIZE


class Facts(NamedTuple):
    """What the driver says of a GPU; None: it does not."""

    number: int  # as NVML counts
    name: str
    uuid: str  # "GPU-..."
    capability: tuple[int, int] | None
    cores: int | None
    sm_clock_hz: float | None  # the highest
    memory_clock_hz: float | None  # the highest
    bus_bits: int | None


class Driver:
    """The library, started. Raises OSError when it is not there or there is no driver."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL("libnvidia-ml.so.1")
        status = self._library.nvmlInitWithFlags(0)
        if status != 0:
            raise OSError(f"NVML does not start (error {status})")

    def close(self) -> None:
        self._library.nvmlShutdown()

    def count(self) -> int:
        number = ctypes.c_uint()
        return number.value if self._ask("nvmlDeviceGetCount_v2", ctypes.byref(number)) else 0

    def _ask(self, function: str, *arguments: Any) -> bool:
        call = getattr(self._library, function, None)  # a driver may be older than a call
        return call is not None and call(*arguments) == 0

    def handle(self, index: int) -> Any:
        found = ctypes.c_void_p()
        works = self._ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(found))
        return found if works else None

    def number(self, handle: Any, function: str, *arguments: int) -> int | None:
        """The answer to a question that has one unsigned number for it."""
        number = ctypes.c_uint()
        kinds = [ctypes.c_uint(one) for one in arguments]
        return number.value if self._ask(function, handle, *kinds, ctypes.byref(number)) else None

    def text(self, handle: Any, function: str) -> str:
        buffer = ctypes.create_string_buffer(_TEXT)
        works = self._ask(function, handle, buffer, ctypes.c_uint(_TEXT))
        return buffer.value.decode(errors="replace") if works else ""

    def facts(self, index: int) -> Facts | None:
        handle = self.handle(index)
        if handle is None:
            return None
        major, minor = ctypes.c_int(), ctypes.c_int()
        has_capability = self._ask(
            "nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor)
        )
        return Facts(
            index,
            self.text(handle, "nvmlDeviceGetName"),
            self.text(handle, "nvmlDeviceGetUUID"),
            (major.value, minor.value) if has_capability else None,
            self.number(handle, "nvmlDeviceGetNumGpuCores"),
            self._highest_clock(handle, _SM),
            self._highest_clock(handle, _MEMORY),
            self.number(handle, "nvmlDeviceGetMemoryBusWidth"),
        )

    def _highest_clock(self, handle: Any, kind: int) -> float | None:
        mhz = self.number(handle, "nvmlDeviceGetMaxClockInfo", kind)
        return mhz * _MHZ if mhz else None

    def sm_clock_hz(self, handle: Any) -> float | None:
        """Now."""
        mhz = self.number(handle, "nvmlDeviceGetClockInfo", _SM)
        return mhz * _MHZ if mhz else None

    def utilization(self, handle: Any) -> float | None:
        """Share of the time before in which something ran on it."""
        rates = (ctypes.c_uint * 2)()
        return rates[0] / 100 if self._ask("nvmlDeviceGetUtilizationRates", handle, rates) else None


@contextlib.contextmanager
def opened() -> Iterator[Driver | None]:
    """The driver, or None where there is none."""
    try:
        driver = Driver()
    except (OSError, AttributeError):
        yield None
        return
    try:
        yield driver
    finally:
        driver.close()


def index_of(driver: Driver | None, at: int, uuid: str, environ: Mapping[str, str]) -> int:
    """NVML's number of a library's device `at`: by its UUID, else by CUDA_VISIBLE_DEVICES, else the same.

    The agent's samples name GPUs by NVML's number, which CUDA_VISIBLE_DEVICES does not change.
    """
    for index in range(driver.count()) if driver and uuid else ():
        facts = driver.facts(index) if driver else None
        if facts and facts.uuid.lower().replace("gpu-", "") == uuid.lower().replace("gpu-", ""):
            return index
    visible = [word.strip() for word in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    return int(visible[at]) if at < len(visible) and visible[at].isdigit() else at


def clock_of(driver: Driver | None, index: int) -> Callable[[], float | None]:
    """Asks for the SM clock at this moment."""
    handle = driver.handle(index) if driver else None
    if driver is None or handle is None:
        return lambda: None
    asked = driver
    return lambda: asked.sm_clock_hz(handle)
