"""A stand-in for nvidia-ml-py and the driver below it: same names, same error type, same structures' fields.

There is no GPU where the tests run. `calls` counts what was asked; a value that is an Exception is raised.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace as Struct
from typing import Any

from roofline_agent.records import Rank


class NVMLError(Exception):
    """`value` is the library's number, as in nvidia-ml-py."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return {3: "Not Supported", 12: "NVML Shared Library Not Found", 15: "GPU is lost"}.get(
            self.value, "?"
        )


def field(number: int, kind: int = 3, status: int = 0) -> Struct:
    """A c_nvmlFieldValue_t whose union holds `number` in the member of its type."""
    member = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal")[kind]
    return Struct(nvmlReturn=status, valueType=kind, value=Struct(**{member: number}))


def rank(pid: int, index: int = 0) -> Rank:
    return Rank("7", "worker", index, pid)


def process(proc: Path, pid: int, parent: int = 1, *inner: int) -> None:
    (proc / str(pid)).mkdir(parents=True)
    numbers = "\t".join(map(str, (pid, *inner)))
    (proc / str(pid) / "status").write_text(f"Name:\tpython\nPPid:\t{parent}\nNSpid:\t{numbers}\n")


class Pid:
    def __init__(self, pid: int, size: int | None = None) -> None:
        self.pid, self.usedGpuMemory = pid, size


class FakeGpu:
    """A made-up H100: 132 SMs, 5120 bit, 2619 MHz."""

    def __init__(self, **more: Any) -> None:
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetCudaComputeCapability": (9, 0),
            "nvmlDeviceGetNumGpuCores": 132 * 128,
            "nvmlDeviceGetMemoryBusWidth": 5120,
            "nvmlDeviceGetMaxClockInfo": {2: 2619},
            "nvmlDeviceGetUtilizationRates": Struct(gpu=97, memory=40),
            "nvmlDeviceGetMemoryInfo": Struct(total=80 << 30, free=60 << 30, used=20 << 30),
            "nvmlDeviceGetClockInfo": {1: 1755, 2: 2619},
            "nvmlDeviceGetTemperature": {0: 61},
            "nvmlDeviceGetCurrentClocksEventReasons": 4,
            "nvmlDeviceGetPowerUsage": 640_000,
            "nvmlDeviceGetComputeRunningProcesses": [],
            "nvmlGpmQueryDeviceSupport": Struct(isSupportedDevice=1),
            "nvmlGpmSampleGet": None,
            **more,
        }
        self.fields: dict[Any, Struct] = {
            186: field(650_123, 1),
            83: field(5_000_500),
            197: field(1_000_000),
            198: field(2_000_000),
            (138, 0xFFFFFFFF): field(10),
            (139, 0xFFFFFFFF): field(20),
        }
        # metric id -> percent, or MiB/s
        self.gpm: dict[int, float] = {
            2: 90.0,
            5: 50.0,
            10: 60.0,
            11: 0.0,
            12: 10.0,
            13: 5.0,
            20: 1.0,
            21: 2.0,
        }
        self.calls: Counter[str] = Counter()

    def answer(self, name: str, *arguments: Any) -> Any:
        self.calls[name] += 1
        found = self.answers[name]
        if isinstance(found, Exception):
            raise found
        return found[arguments[0]] if isinstance(found, dict) else found


class FakeNvml:
    """The module pynvml."""

    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, *gpus: FakeGpu, broken: int = 0) -> None:
        self.gpus = gpus
        self.broken = broken
        self.open = 0
        self.samples = 0

    def nvmlInit(self) -> None:
        if self.broken:
            raise NVMLError(self.broken)
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, ids: list[Any]) -> list[Struct]:
        gpu.calls["nvmlDeviceGetFieldValues"] += 1
        return [gpu.fields[one] for one in ids]

    def nvmlGpmSampleAlloc(self) -> Struct:
        self.samples += 1
        return Struct()

    def nvmlGpmSampleFree(self, _: Struct) -> None:
        self.samples -= 1

    def nvmlGpmSampleGet(self, gpu: FakeGpu, sample: Struct) -> Struct:
        gpu.answer("nvmlGpmSampleGet")
        sample.gpu = gpu
        return sample

    def c_nvmlGpmMetricsGet_t(self) -> Struct:
        return Struct(metrics=[Struct() for _ in range(98)])

    def nvmlGpmMetricsGet(self, asked: Struct) -> Struct:
        assert asked.sample1 is not asked.sample2
        assert asked.version == 1
        for one in asked.metrics[: asked.numMetrics]:
            value = asked.sample1.gpu.gpm.get(one.metricId)
            one.nvmlReturn, one.value = (3, 0.0) if value is None else (0, value)
        return asked

    def __getattr__(self, name: str) -> Any:
        # Calls that take a handle and at most one more argument.
        if not name.startswith("nvmlDeviceGet") and not name.startswith("nvmlGpm"):
            raise AttributeError(name)

        def call(gpu: FakeGpu, *arguments: Any) -> Any:
            if name not in gpu.answers:
                raise AttributeError(name)
            return gpu.answer(name, *arguments)

        return call
