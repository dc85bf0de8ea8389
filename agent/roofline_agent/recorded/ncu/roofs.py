"""The roofs that Nsight Compute's roofline sections state, and the rates next to them where no time is.

A roof is operations or bytes per cycle times the clock that ncu ran the kernel at, which it fixes at the base
clock by default: --clock-control none gives the roof of a training.
"""

from __future__ import annotations

from ..recording import Counter, RecordedCeiling
from .metrics import PACKED_FP32, LaunchMetrics

_FMA = {"f": "f32", "d": "f64", "h": "f16"}
_PEAK = "sass_thread_inst_executed_op_{}fma_pred_on.sum.peak_sustained"
_OPERATION = "sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_SM_CLOCK = "sm__cycles_elapsed.avg.per_second"
_CLOCK = "at the clock of the profile (%.4g GHz)"
_FLOPS_OF = {"add": 1.0, "mul": 1.0, "fma": 2.0}


def roofs(found: LaunchMetrics, device: str) -> list[RecordedCeiling]:
    """The ceilings that a launch states; device: its number, "" the first."""
    gpu = f"gpu {device or 0}"
    made: list[RecordedCeiling] = []
    for letter, precision in _FMA.items():
        per_cycle = found.count(_PEAK.format(letter))
        if per_cycle and (sm_hz := found.take(_SM_CLOCK, "Hz")):
            method = f"ncu: two FLOPs of every FMA that a cycle can start, {_CLOCK % (sm_hz / 1e9)}"
            value = 2 * per_cycle * sm_hz
            made.append(
                RecordedCeiling(
                    f"peak.{precision}.theory", "compute", "", precision, value, "FLOP/s", method, 0, gpu
                )
            )
    per_cycle = found.take("dram__bytes.sum.peak_sustained")
    if per_cycle and (dram_hz := found.take("dram__cycles_elapsed.avg.per_second", "Hz")):
        method = f"ncu: bytes per cycle of the memory, {_CLOCK % (dram_hz / 1e9)}"
        made.append(
            RecordedCeiling("hbm.theory", "memory", "hbm", "", per_cycle * dram_hz, "byte/s", method, 0, gpu)
        )
    return made


def rates(found: LaunchMetrics, device: str) -> list[Counter]:
    """FLOP/s by precision of a launch whose time nobody printed: the chart's achieved values."""
    made: list[Counter] = []
    for letter, precision in _FMA.items():
        known = {kind: found.count(_OPERATION.format(letter + kind)) for kind in _FLOPS_OF}
        values = [value * _FLOPS_OF[kind] for kind, value in known.items() if value is not None]
        if len(values) == len(_FLOPS_OF) and (sm_hz := found.take(_SM_CLOCK, "Hz")):
            if precision == "f32":
                packed = {kind: found.count(_OPERATION.format(kind)) for kind in PACKED_FP32}
                values += [count * PACKED_FP32[kind] for kind, count in packed.items() if count is not None]
            name, rate = f"achieved.{precision}.flops_per_s", sum(values) * sm_hz
            made.append(Counter(name, name, rate, "FLOP/s", f"gpu {device or 0}", kind="gauge"))
    return made
