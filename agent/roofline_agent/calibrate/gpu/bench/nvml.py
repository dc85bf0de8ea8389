"""The driver's library by ctypes: which GPUs there are, their limits, and their clock while something runs.

Not the package nvidia-ml-py, which a training's Python need not have. Every question may stay without answer.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

_SM, _MEMORY = 1, 2  # nvmlClockType_t: NVML_CLOCK_SM, NVML_CLOCK_MEM
_MHZ = 1e6
BUSY = 0.1  # what a GPU that nobody uses may show
_MOST_PROCESSES = 1024
_TEXT = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE and NVML_DEVICE_UUID_V2_BUFFER_SIZE


class Facts(NamedTuple):
    """What the driver reports of a GPU; None: it does not."""

    number: int  # as NVML counts
    name: str
    uuid: str  # "GPU-..."
    capability: tuple[int, int] | None
    cores: int | None
    sm_clock_hz: float | None  # the highest
    memory_clock_hz: float | None  # the highest
    bus_bits: int | None
    mig: bool = False  # cut into parts (Multi-Instance GPU): a program has one of these, never the whole
    users: tuple[int, ...] = ()  # pids of those that compute on it, as the driver lists them


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t (nvml.h), since version 2 of the calls that fill it."""

    _fields_: ClassVar = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


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
            self.is_mig(handle),
            self.users(handle),
        )

    def is_mig(self, handle: Any) -> bool:
        now, pending = ctypes.c_uint(), ctypes.c_uint()
        answered = self._ask("nvmlDeviceGetMigMode", handle, ctypes.byref(now), ctypes.byref(pending))
        return answered and now.value == 1  # NVML_DEVICE_MIG_ENABLE

    def users(self, handle: Any) -> tuple[int, ...]:
        """Pids of the processes that compute on it; none where the driver does not report them."""
        for version in ("v3", "v2"):
            found, count = (_Process * _MOST_PROCESSES)(), ctypes.c_uint(_MOST_PROCESSES)
            call = f"nvmlDeviceGetComputeRunningProcesses_{version}"
            if self._ask(call, handle, ctypes.byref(count), found):
                return tuple(found[k].pid for k in range(min(count.value, _MOST_PROCESSES)))
        return ()

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


class PartOfGpu(Exception):
    """A library's device is no whole GPU; the text says by what it is known."""


def index_of(driver: Driver | None, at: int, uuid: str, environ: Mapping[str, str]) -> int:
    """NVML's number of a library's device `at`: by its UUID, else by CUDA_VISIBLE_DEVICES, else the same.

    The agent's samples name GPUs by NVML's number, which CUDA_VISIBLE_DEVICES does not change. Raises
    PartOfGpu for a part of a GPU (MIG): its ceilings would pass for those of the whole.
    """
    visible = [word.strip() for word in environ.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    if uuid.upper().startswith("MIG-"):
        raise PartOfGpu(f"its UUID is {uuid}")
    if any(word.upper().startswith("MIG-") for word in visible):
        raise PartOfGpu(f"CUDA_VISIBLE_DEVICES names {visible[0]}")
    all_facts = [driver.facts(index) for index in range(driver.count())] if driver else []
    index = _index(at, uuid, visible, [facts.uuid if facts else "" for facts in all_facts])
    facts = all_facts[index] if index < len(all_facts) else None
    if facts and facts.mig:
        raise PartOfGpu(f"MIG is on for GPU {index}")
    return index


def _index(at: int, uuid: str, visible: list[str], uuids: list[str]) -> int:
    bare = [_bare(one) for one in uuids]
    if uuid and _bare(uuid) in bare:
        return bare.index(_bare(uuid))
    if uuid and bare and all(bare):
        raise PartOfGpu(f"its UUID {uuid} is that of no GPU")
    word = visible[at] if at < len(visible) else ""
    if word.isdecimal():
        return int(word)
    # CUDA takes the begin of a UUID, too, if only one GPU has it.
    named = [index for index, one in enumerate(bare) if one.startswith(_bare(word))] if word else []
    return named[0] if len(named) == 1 else at


def _bare(uuid: str) -> str:
    return uuid.lower().replace("gpu-", "")


def clock_of(driver: Driver | None, index: int) -> Callable[[], float | None]:
    """Asks for the SM clock at this moment."""
    handle = driver.handle(index) if driver else None
    if driver is None or handle is None:
        return lambda: None
    asked = driver
    return lambda: asked.sm_clock_hz(handle)
