"""Every GPU of the node through NVML: load, memory, clocks, power, traffic, and from Hopper on its pipes.

Rows are of whole GPUs ("gpu 0"); one used by a single rank carries that rank. A rank that uses GPUs has a row
of its own too: how many, and what they did for it. A value the GPU or the driver does not have is
asked for once and then left out; a GPU that falls off the bus or needs a reset ends its own rows only, and is
tried again every few minutes.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..records import (
    CounterSet,
    Metric,
    MetricKind,
    Provenance,
    Rank,
    Sample,
    Scope,
    SourceSettings,
    SourceStatus,
)
from .gpu_totals import GPUS, TOTALS, GpuTotals
from .gpu_users import users_of, without_strays
from .nvml_device import Gpu, Lost
from .nvml_gpm import GPM_METRICS

log = logging.getLogger(__name__)

LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED = 12, 9  # nvml.h
NO_DRIVER, LOAD_DRIVER = "no NVIDIA driver is loaded here", "only where there are GPUs: load the driver"
WHO_EVERY_NS = 5_000_000_000
LEAST_APART_NS = 90_000_000  # of two questions to GPM; a little less than 0.1 s lets 10 Hz through
LOST_EVERY_NS = 180_000_000_000  # GPUs that were lost are tried again: a reset brings them back
NEW_EVERY_NS = 1_000_000_000  # while some rank uses no GPU: it may be about to


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
    # Of the rows of ranks.
    Metric(GPUS, MetricKind.GAUGE, "1"),
    *(
        Metric(
            name, MetricKind.CUMULATIVE, "byte" if total.is_sum else "ns", Scope.PROCESS, Provenance.ESTIMATED
        )
        for name, total in TOTALS.items()
    ),
)


def load_package() -> Any:
    """The package nvidia-ml-py. Raises OSError where there is no driver: then its 4 MB are not needed, and
    ImportError where it is not installed."""
    ctypes.CDLL("libnvidia-ml.so.1")
    return importlib.import_module("pynvml")


class NvmlSource:
    """Counter set "gpu"."""

    name = "gpu"
    fills = (
        "load, memory, power and traffic of GPUs; on Hopper and newer their pipes, with estimates of FLOP/s"
    )
    measures = True
    counter_set = CounterSet("gpu", METRICS)

    def __init__(self, settings: SourceSettings, load: Callable[[], Any] = load_package) -> None:
        self._clock = settings.clock
        self._proc = Path(settings.proc)
        self._load = load
        self._nvml: Any = None
        self._gpus: list[Gpu] = []
        self._lost: set[int] = set()  # indices of those that do not answer
        self._next_try_ns = 0
        self._users: dict[str, frozenset[Rank]] = {}
        self._totals = GpuTotals()
        self._activity_ns = -(1 << 62)  # when GPM was last asked
        self._asked: tuple[int, frozenset[Rank]] | None = None  # when users were asked for, of which ranks

    def probe(self) -> SourceStatus:
        try:
            nvml = self._load()
        except OSError:
            return SourceStatus(self.name, False, NO_DRIVER, LOAD_DRIVER)
        except ImportError:
            reason, advice = "the Python package nvidia-ml-py is not installed", "pip install nvidia-ml-py"
            if not (self._proc / "driver/nvidia").exists():
                reason += ", and no NVIDIA driver is loaded here"
                advice = "only where there are GPUs: load the driver, pip install nvidia-ml-py"
            return SourceStatus(self.name, False, reason, advice)
        self.close()  # checked once more after all were lost: only a new start finds them
        try:
            nvml.nvmlInit()
            self._nvml = nvml
            for index in range(nvml.nvmlDeviceGetCount()):
                try:
                    self._gpus.append(Gpu(nvml, index))
                except (Lost, nvml.NVMLError) as error:
                    log.warning("gpu %d is not sampled: %s", index, error)
                    self._leave(index)
        except nvml.NVMLError as error:
            if error.value in (LIBRARY_NOT_FOUND, DRIVER_NOT_LOADED):
                reason, advice = NO_DRIVER, LOAD_DRIVER
            else:
                reason, advice = f"NVML does not start: {error}", "look at `nvidia-smi`"
            return SourceStatus(self.name, False, reason, advice)
        if not self._gpus:
            return SourceStatus(self.name, False, "no GPU answers", "look at `nvidia-smi`")
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        """Raises Lost if no GPU is left."""
        self._try_lost()
        self._refresh_users(ranks)
        # GPM is asked about all GPUs or none, and totals are counted when it is: both speak of the same time.
        began = self._clock()
        activity = began - self._activity_ns >= LEAST_APART_NS
        rows = []
        gauges: dict[str, dict[str, int | float]] = {}
        for gpu in list(self._gpus):
            try:
                now, values = gpu.read(activity)
            except Lost as error:
                self._drop(gpu, error)
                continue
            users = self._users.get(gpu.name, frozenset())
            alone = next(iter(users)) if len(users) == 1 else None
            rows.append(Sample(alone, now, _row(values), gpu.name))
            gauges[gpu.name] = values
        if not self._gpus:
            raise Lost("no GPU answers any more")
        if activity:
            self._activity_ns = began
            for rank, totals in self._totals.add(began, gauges, self._users).items():
                rows.append(Sample(rank, began, _row(totals)))
        return rows

    def _drop(self, gpu: Gpu, error: Lost) -> None:
        log.warning("%s is not sampled until it answers again: %s", gpu.name, error)
        self._gpus = [one for one in self._gpus if one is not gpu]
        self._leave(gpu.index)
        with contextlib.suppress(self._nvml.NVMLError):
            gpu.close()

    def _leave(self, index: int) -> None:
        self._lost.add(index)
        self._next_try_ns = self._clock() + LOST_EVERY_NS

    def _try_lost(self) -> None:
        """Now and then take up those that answer again, under new handles: the old ones stay lost."""
        if not self._lost or self._clock() < self._next_try_ns:
            return
        for index in sorted(self._lost):
            try:
                self._gpus.append(Gpu(self._nvml, index))
            except (Lost, self._nvml.NVMLError):
                self._leave(index)
            else:
                self._lost.discard(index)
                log.info("gpu %d is sampled again", index)

    def _refresh_users(self, ranks: Sequence[Rank]) -> None:
        """Find out now and then, and when ranks come or go, which rank uses which GPU."""
        now, alive = self._clock(), frozenset(ranks)
        every = NEW_EVERY_NS if alive.difference(*self._users.values()) else WHO_EVERY_NS
        if self._asked is not None and now - self._asked[0] < every and alive == self._asked[1]:
            return
        self._asked = (now, alive)
        users = {}
        for gpu in list(self._gpus):
            try:
                users[gpu.name] = users_of(gpu.held(), ranks, self._proc)
            except Lost as error:
                self._drop(gpu, error)
        self._users = without_strays(users)

    def close(self) -> None:
        if self._nvml is not None:
            with contextlib.suppress(self._nvml.NVMLError):
                for gpu in self._gpus:
                    gpu.close()
                self._nvml.nvmlShutdown()
        self._nvml, self._gpus, self._lost = None, [], set()


def _row(values: Mapping[str, int | float]) -> tuple[int | float | None, ...]:
    return tuple(values.get(metric.name) for metric in METRICS)
