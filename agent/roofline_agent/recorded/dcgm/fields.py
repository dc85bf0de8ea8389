"""What the fields of DCGM mean and in which unit dcgm-exporter prints them, one line each.

Source: dcgm_fields.h and dcgm-exporter's default-counters.csv. The PCIe and NVLink bytes of the profiling
fields are rates (bytes a second, averaged over DCGM's interval), though old exporters call them counters.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class DcgmField(NamedTuple):
    """value in `unit` = printed value x scale; fraction: it lies between 0 and 1; note: a warning to give."""

    metric: str
    unit: str = "1"
    scale: float = 1.0
    kind: str = "gauge"
    printed_unit: str = ""
    fraction: bool = False
    note: str = ""


def _share(metric: str) -> DcgmField:
    return DcgmField(metric, fraction=True)


def _percent(metric: str) -> DcgmField:
    return DcgmField(metric, "1", 0.01, "gauge", "%", True)


def _mib(metric: str) -> DcgmField:
    return DcgmField(metric, "byte", 2.0**20, "gauge", "MiB")


def _mhz(metric: str) -> DcgmField:
    return DcgmField(metric, "Hz", 1e6, "gauge", "MHz")


def _rate(metric: str) -> DcgmField:
    return DcgmField(metric, "byte/s", 1.0, "gauge", "byte/s")


_FIELDS = {
    "PROF_GR_ENGINE_ACTIVE": _share("gpu.graphics_active"),
    "PROF_SM_ACTIVE": _share("gpu.sm_active"),
    "PROF_SM_OCCUPANCY": _share("gpu.sm_occupancy"),
    "PROF_PIPE_TENSOR_ACTIVE": _share("gpu.tensor_active"),
    "PROF_PIPE_TENSOR_IMMA_ACTIVE": _share("gpu.tensor_imma_active"),
    "PROF_PIPE_TENSOR_HMMA_ACTIVE": _share("gpu.tensor_hmma_active"),
    "PROF_PIPE_TENSOR_DFMA_ACTIVE": _share("gpu.tensor_dfma_active"),
    "PROF_DRAM_ACTIVE": _share("gpu.dram_active"),
    "PROF_PIPE_FP64_ACTIVE": _share("gpu.fp64_active"),
    "PROF_PIPE_FP32_ACTIVE": _share("gpu.fp32_active"),
    "PROF_PIPE_FP16_ACTIVE": _share("gpu.fp16_active"),
    "PROF_PIPE_INT_ACTIVE": _share("gpu.int_active"),
    "PROF_PCIE_TX_BYTES": _rate("gpu.pcie_tx_bytes"),
    "PROF_PCIE_RX_BYTES": _rate("gpu.pcie_rx_bytes"),
    "PROF_NVLINK_TX_BYTES": _rate("gpu.nvlink_tx_bytes"),
    "PROF_NVLINK_RX_BYTES": _rate("gpu.nvlink_rx_bytes"),
    "PROF_PCIE_TX_BYTES_TOTAL": DcgmField("gpu.pcie_tx_total_bytes", "byte", kind="total"),
    "PROF_PCIE_RX_BYTES_TOTAL": DcgmField("gpu.pcie_rx_total_bytes", "byte", kind="total"),
    "DEV_GPU_UTIL": _percent("gpu.utilization"),
    "DEV_MEM_COPY_UTIL": _percent("gpu.memory_utilization"),
    "DEV_ENC_UTIL": _percent("gpu.encoder_utilization"),
    "DEV_DEC_UTIL": _percent("gpu.decoder_utilization"),
    "DEV_POWER_USAGE": DcgmField("gpu.power_watts", "W", 1.0, "gauge", "W"),
    "DEV_POWER_USAGE_INSTANT": DcgmField("gpu.power_instant_watts", "W", 1.0, "gauge", "W"),
    "DEV_POWER_MGMT_LIMIT": DcgmField("gpu.power_limit_watts", "W", 1.0, "gauge", "W"),
    "DEV_TOTAL_ENERGY_CONSUMPTION": DcgmField("gpu.energy_joules", "J", 1e-3, "total", "mJ"),
    "DEV_SM_CLOCK": _mhz("gpu.sm_clock_hz"),
    "DEV_MEM_CLOCK": _mhz("gpu.memory_clock_hz"),
    "DEV_VIDEO_CLOCK": _mhz("gpu.video_clock_hz"),
    "DEV_APP_SM_CLOCK": _mhz("gpu.sm_clock_target_hz"),
    "DEV_APP_MEM_CLOCK": _mhz("gpu.memory_clock_target_hz"),
    "DEV_MAX_SM_CLOCK": _mhz("gpu.sm_clock_limit_hz"),
    "DEV_MAX_MEM_CLOCK": _mhz("gpu.memory_clock_limit_hz"),
    "DEV_FB_USED": _mib("gpu.memory_used_bytes"),
    "DEV_FB_FREE": _mib("gpu.memory_free_bytes"),
    "DEV_FB_TOTAL": _mib("gpu.memory_total_bytes"),
    "DEV_FB_RESERVED": _mib("gpu.memory_reserved_bytes"),
    "DEV_FB_USED_PERCENT": _share("gpu.memory_used_share"),
    "DEV_GPU_TEMP": DcgmField("gpu.temperature", "degC", 1.0, "gauge", "degC"),
    "DEV_MEMORY_TEMP": DcgmField("gpu.memory_temperature", "degC", 1.0, "gauge", "degC"),
    "DEV_PCIE_REPLAY_COUNTER": DcgmField("gpu.pcie_replays", kind="total"),
    "DEV_XID_ERRORS": DcgmField("gpu.last_xid"),
}
# DCGM 4.6 renamed fields, with the same meaning and unit (dcgm_fields.h).
_RENAMED = {
    "PROF_GR_ENGINE_UTIL_RATIO": "PROF_GR_ENGINE_ACTIVE",
    "PROF_SM_UTIL_RATIO": "PROF_SM_ACTIVE",
    "PROF_SM_OCCUPANCY_RATIO": "PROF_SM_OCCUPANCY",
    "PROF_TENSOR_UTIL_RATIO": "PROF_PIPE_TENSOR_ACTIVE",
    "PROF_IMMA_UTIL_RATIO": "PROF_PIPE_TENSOR_IMMA_ACTIVE",
    "PROF_HMMA_UTIL_RATIO": "PROF_PIPE_TENSOR_HMMA_ACTIVE",
    "PROF_DFMA_UTIL_RATIO": "PROF_PIPE_TENSOR_DFMA_ACTIVE",
    "PROF_DRAM_UTIL_RATIO": "PROF_DRAM_ACTIVE",
    "PROF_FP64_UTIL_RATIO": "PROF_PIPE_FP64_ACTIVE",
    "PROF_FP32_UTIL_RATIO": "PROF_PIPE_FP32_ACTIVE",
    "PROF_FP16_UTIL_RATIO": "PROF_PIPE_FP16_ACTIVE",
    "PROF_INT_UTIL_RATIO": "PROF_PIPE_INT_ACTIVE",
    "DEV_GPU_UTIL_RATIO": "DEV_GPU_UTIL",
    "DEV_FB_USED_RATIO": "DEV_FB_USED_PERCENT",
    "DEV_BOARD_POWER_WATTS": "DEV_POWER_USAGE",
    "DEV_BOARD_POWER_RAW_WATTS": "DEV_POWER_USAGE_INSTANT",
    "DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS": "DEV_POWER_MGMT_LIMIT",
    "DEV_GPU_TEMP_CELSIUS": "DEV_GPU_TEMP",
    "DEV_MEMORY_TEMP_CELSIUS": "DEV_MEMORY_TEMP",
    "DEV_PCIE_REPLAY_TOTAL": "DEV_PCIE_REPLAY_COUNTER",
    "DEV_XID_ERROR": "DEV_XID_ERRORS",
}
# dcgm-exporter 1.x: lower case, words of their own.
_OLD = {
    "SM_CLOCK": "DEV_SM_CLOCK",
    "MEMORY_CLOCK": "DEV_MEM_CLOCK",
    "MEMORY_TEMP": "DEV_MEMORY_TEMP",
    "GPU_TEMP": "DEV_GPU_TEMP",
    "POWER_USAGE": "DEV_POWER_USAGE",
    "TOTAL_ENERGY_CONSUMPTION": "DEV_TOTAL_ENERGY_CONSUMPTION",
    "PCIE_REPLAY_COUNTER": "DEV_PCIE_REPLAY_COUNTER",
    "GPU_UTILIZATION": "DEV_GPU_UTIL",
    "MEM_COPY_UTILIZATION": "DEV_MEM_COPY_UTIL",
    "ENC_UTILIZATION": "DEV_ENC_UTIL",
    "DEC_UTILIZATION": "DEV_DEC_UTIL",
    "XID_ERRORS": "DEV_XID_ERRORS",
    "FB_FREE": "DEV_FB_FREE",
    "FB_USED": "DEV_FB_USED",
}
# Units that a HELP line states for fields that are not listed above: base unit and factor.
_STATED = {
    "%": ("1", 0.01),
    "mhz": ("Hz", 1e6),
    "mib": ("byte", 2.0**20),
    "kb": ("byte", 1e3),
    "kib": ("byte", 2.0**10),
    "w": ("W", 1.0),
    "mj": ("J", 1e-3),
    "us": ("s", 1e-6),
    "ns": ("s", 1e-9),
    "c": ("degC", 1.0),
}


@lru_cache(maxsize=4096)
def field(name: str, kind: str = "", help_text: str = "") -> DcgmField:
    """What the series `name` means; kind and help_text: of its TYPE and HELP lines, "" without them."""
    key = re.sub(r"^DCGM_(FI_)?", "", name.upper())
    key = key.removesuffix("_TOTAL") if key not in _FIELDS and key.removesuffix("_TOTAL") in _FIELDS else key
    known = _FIELDS.get(_OLD.get(key, _RENAMED.get(key, key)))
    if known is None:
        unit = re.search(r"\((?:in )?([A-Za-z%]+)\)", help_text)
        base, scale = _STATED.get(unit[1].lower(), ("1", 1.0)) if unit else ("1", 1.0)
        return DcgmField(
            name, base, scale, "total" if kind == "counter" else "gauge", unit[1] if unit else ""
        )
    if known.unit == "byte/s" and kind == "counter":
        return known._replace(note=f"{known.metric}: called a counter, but DCGM gives bytes a second here")
    return known
