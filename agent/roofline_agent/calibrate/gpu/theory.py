"""Theoretical peaks of a GPU: units x clock x operations a clock. They are listed next to what was measured.

FLOP/s = SMs x multiply-adds an SM and clock x 2 x clock; bytes/s = bus width / 8 x memory clock x 2 (double
data rate, HBM and GDDR alike). The clocks are the highest the driver lets the GPU have; under load it may not
reach them. Multiply-adds an SM and clock: CUDA C++ Programming Guide, arithmetic instructions, and for tensor
cores NVIDIA's white papers of V100, T4, A100, H100, the data sheet of B200. Where products of one capability
have tensor cores of different speed (8.6, 8.9, 12.0) there is no theoretical peak of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...records import Provenance
from ...sources.nvml_device import CORES_PER_SM
from ..calibration import Ceiling

# Capability -> precision -> multiply-adds an SM and clock, dense; the more of plain and of tensor cores.
LANES: Mapping[tuple[int, int], Mapping[str, int]] = {
    (6, 0): {"f32": 64, "f64": 32},
    (6, 1): {"f32": 128, "f64": 4},
    (7, 0): {"f32": 64, "f64": 32, "f16": 512},
    (7, 5): {"f32": 64, "f64": 2, "f16": 512},
    (8, 0): {"f32": 64, "f64": 64, "f16": 1024, "bf16": 1024, "tf32": 512},
    (8, 6): {"f32": 128, "f64": 2},
    (8, 9): {"f32": 128, "f64": 2},
    (9, 0): {"f32": 128, "f64": 128, "f16": 2048, "bf16": 2048, "tf32": 1024, "f8_e4m3": 4096},
    (10, 0): {"f32": 128, "f64": 64, "f16": 4096, "bf16": 4096, "tf32": 2048, "f8_e4m3": 8192},
    (12, 0): {"f32": 128, "f64": 2},
}
_CORES_PER_SM = {(6, 0): 64, (6, 1): 128, (8, 0): 64}  # the others by their major number


def peak_flops(sms: float, lanes: int, clock_hz: float) -> float:
    """FLOP/s. V100, tensor cores (Wang et al. 2020): 80 SMs x 8 x 64 at 1.312 GHz are 107.479 TFLOP/s."""
    return sms * lanes * 2 * clock_hz


def peak_bytes(bus_bits: float, memory_clock_hz: float) -> float:
    """Bytes/s."""
    return bus_bits / 8 * memory_clock_hz * 2


def theoretical(facts: Mapping[str, Any], now_ns: int) -> Iterator[Ceiling]:
    """Peaks of one GPU. facts: of `bench.nvml.Facts`; a peak whose facts are not known is left out."""
    device = f"gpu {facts['number']}"
    capability = tuple(facts.get("capability") or ())
    sms, clock = _sms(facts.get("cores"), capability) or 0.0, facts.get("sm_clock_hz") or 0.0
    known = LANES.get((capability[0], capability[1])) if sms and clock and len(capability) == 2 else None
    for precision, lanes in (known or {}).items():
        how = f"{sms:g} SMs x {lanes} multiply-adds a clock x 2 x {clock / 1e9:.3f} GHz, the highest SM clock"
        value = peak_flops(sms, lanes, clock)
        yield _ceiling(f"peak.{precision}.theory", "compute", value, "FLOP/s", how, device, now_ns, precision)
    bits, memory = facts.get("bus_bits"), facts.get("memory_clock_hz")
    if bits and memory:
        how = f"{bits} bit x {memory / 1e9:.3f} GHz, the highest memory clock, x 2"
        value = peak_bytes(bits, memory)
        yield _ceiling("hbm.theory", "memory", value, "byte/s", how, device, now_ns)


def _sms(cores: int | None, capability: tuple[int, ...]) -> float | None:
    if not cores or len(capability) != 2:
        return None
    each = _CORES_PER_SM.get((capability[0], capability[1])) or CORES_PER_SM.get(capability[0])
    return cores / each if each else None


def _ceiling(
    name: str, kind: str, value: float, unit: str, how: str, device: str, now_ns: int, precision: str = ""
) -> Ceiling:
    return Ceiling(
        name=name,
        kind=kind,
        level="hbm" if kind == "memory" else "",
        precision=precision,
        width=0,
        value=value,
        unit=unit,
        spread=0.0,
        method=f"{how}; reckoned, not measured",
        time_ns=now_ns,
        device=device,
        provenance=int(Provenance.ANALYTIC),
    )
