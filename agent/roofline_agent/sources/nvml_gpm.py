"""GPM: how busy a Hopper or newer GPU's pipes and memory were between two moments, and what follows from it.

The library keeps nothing between calls: two snapshots are taken and their difference asked for, so the newer
one is kept for the next time. FLOP/s and bytes/s that follow are estimates, and never more than that: a pipe
that is active is not a pipe that finishes a multiply-add on every lane (NVIDIA/DCGM issue 164).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MIB = 1 << 20
BUSY = 0.5

# Name of our gauge -> (nvmlGpmMetricId_t, factor to its base unit); ids as nvml.h numbers them.
GPM_METRICS: Mapping[str, tuple[int, float]] = {
    "gpm.graphics_active": (1, 0.01),
    "gpm.sm_active": (2, 0.01),
    "gpm.tensor_active": (5, 0.01),
    "gpm.dram_active": (10, 0.01),
    "gpm.fp64_active": (11, 0.01),
    "gpm.fp32_active": (12, 0.01),
    "gpm.fp16_active": (13, 0.01),
    "gpm.pcie_tx_bytes_per_second": (20, MIB),
    "gpm.pcie_rx_bytes_per_second": (21, MIB),
    "gpm.nvlink_rx_bytes_per_second": (60, MIB),
    "gpm.nvlink_tx_bytes_per_second": (61, MIB),
}
ACTIVITIES = tuple(name for name in GPM_METRICS if name.endswith("_active"))


class Lanes(NamedTuple):
    """Multiply-adds a clock and SM at most (CUDA C++ Programming Guide, arithmetic instruction throughput).

    tensor: of 16-bit floats, dense, from the data sheets' FLOP/s over SMs, boost clock and 2.
    """

    fp32: int
    fp64: int
    fp16: int
    tensor: int


LANES: Mapping[tuple[int, int], Lanes] = {
    (9, 0): Lanes(128, 64, 256, 2048),
    (10, 0): Lanes(128, 64, 256, 4096),
    (10, 3): Lanes(128, 2, 256, 4096),
    (12, 0): Lanes(128, 2, 128, 512),
}


class Gpm:
    """The snapshots of one GPU. nvml: the pynvml module."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        """Raises nvml.NVMLError when the GPU or the driver has no GPM."""
        self._nvml = nvml
        self._handle = handle
        if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        self._older = nvml.nvmlGpmSampleAlloc()
        self._newer = nvml.nvmlGpmSampleAlloc()
        self._has_older = False

    def read(self) -> dict[str, float]:
        """Gauges since the last call, in base units; empty the first time.

        Of calls closer together than 0.1 s the result is an error or noise. Raises nvml.NVMLError.
        """
        self._nvml.nvmlGpmSampleGet(self._handle, self._newer)
        found = {}
        if self._has_older:
            difference = self._nvml.c_nvmlGpmMetricsGet_t()
            difference.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
            difference.numMetrics = len(GPM_METRICS)
            difference.sample1, difference.sample2 = self._older, self._newer
            for at, (number, _) in enumerate(GPM_METRICS.values()):
                difference.metrics[at].metricId = number
            answers = self._nvml.nvmlGpmMetricsGet(difference).metrics
            for at, (name, (_, factor)) in enumerate(GPM_METRICS.items()):
                if answers[at].nvmlReturn == self._nvml.NVML_SUCCESS:
                    found[name] = answers[at].value * factor
        self._older, self._newer, self._has_older = self._newer, self._older, True
        return found

    def close(self) -> None:
        self._nvml.nvmlGpmSampleFree(self._older)
        self._nvml.nvmlGpmSampleFree(self._newer)


def without_silent_zeros(
    gauges: Mapping[str, float], utilization: float | None, activities: Sequence[str] = ACTIVITIES
) -> dict[str, float]:
    """The gauges, less the activities if all are zero though the GPU is busy: then nothing counted them
    (NVIDIA/DCGM issue 303)."""
    active = [gauges[name] for name in activities if name in gauges]
    if utilization is not None and utilization >= BUSY and active and not any(active):
        return {name: value for name, value in gauges.items() if name not in activities}
    return dict(gauges)


def flops_per_second_upper(
    gauges: Mapping[str, float],
    capability: tuple[int, int] | None,
    sms: float | None,
    sm_clock_hz: float | None,
) -> float | None:
    """FLOP/s if every active cycle of every pipe finished multiply-adds on all its lanes; tensor cores as if
    on 16-bit floats (8-bit ones do twice that). None unless all that it takes is known."""
    lanes = LANES.get(capability) if capability is not None else None
    shares = [gauges.get(f"gpm.{pipe}_active") for pipe in Lanes._fields]
    known = [share for share in shares if share is not None]
    if lanes is None or sms is None or sm_clock_hz is None or len(known) < len(shares):
        return None
    per_clock = sum(share * lane for share, lane in zip(known, lanes, strict=True))
    return 2 * per_clock * sms * sm_clock_hz
