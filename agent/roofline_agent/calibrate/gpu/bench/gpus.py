"""Ceilings of one GPU: bandwidths, peaks by precision, the launch of a kernel."""

from __future__ import annotations

import time
from typing import Any

from . import output
from .libraries import GpuLibrary, Unsupported
from .timing import Plan, Timing, TooLong, TooShort, measure_rate, shortest

PRECISIONS = ("f64", "f32", "tf32", "f16", "bf16", "f8_e4m3")
_RATES: dict[str, dict[str, Any]] = {
    **{
        f"hbm.{operation}": {"kind": "memory", "unit": "byte/s", "level": "hbm"}
        for operation in ("read", "copy", "triad")
    },
    **{
        f"peak.{precision}": {"kind": "compute", "unit": "FLOP/s", "precision": precision}
        for precision in PRECISIONS
    },
}


def measure(index: int, library: GpuLibrary, plan: Plan) -> None:
    """Reports every ceiling as it is measured, and why one could not be. index: as NVML numbers GPUs."""
    for name, fields in _RATES.items():
        try:
            timing, what, operation = _best_way(name, library, plan)
        except (Unsupported, TooLong, TooShort) as error:
            output.note(f"gpu {index}: {name} was not measured: {error}")
        except Exception as error:
            # Frameworks raise what they like, and one ceiling less must not cost the others.
            output.note(f"gpu {index}: {name} was not measured: {type(error).__name__}: {str(error)[:300]}")
        else:
            runs = f"best of {timing.runs} runs of about {plan.run_s:g} s after a warm-up"
            output.ceiling(
                name,
                measured=timing,
                method=f"{what}; {runs}, by the device's clock",
                device=f"gpu {index}",
                operation=operation,
                **fields,
            )
        library.release()
    try:
        _measure_launch(index, library, plan)
    except Exception as error:
        output.note(f"gpu {index}: launch: {type(error).__name__}: {str(error)[:300]}")


def _best_way(name: str, library: GpuLibrary, plan: Plan) -> tuple[Timing, str, str]:
    """The fastest of a library's ways to this ceiling, with its description and operation.

    Raises what the last way raised where none could be timed; what a larger size raises costs no smaller one.
    """
    # A function of its own: when it returns, nothing holds the arrays any more, and they can be given back.
    best: tuple[Timing, str, str] | None = None
    try:
        for work in library.works(name, plan):
            timing = measure_rate(work.timed, work.amount, plan)
            if best is None or timing.best > best[0].best:
                best = timing, work.what, work.operation
    except Exception:
        if best is None:
            raise
    if best is None:
        raise Unsupported("nothing here can")
    return best


def _measure_launch(index: int, library: GpuLibrary, plan: Plan) -> None:
    """Wang et al. 2020 (time-based roofline): what one launch costs, kernels launched one behind another."""
    for work in library.works("launch", plan):
        taken = []
        for _ in range(plan.repeats + 1):
            library.wait()
            begin = time.perf_counter()
            for _ in range(plan.launches):
                work.run()
            library.wait()
            taken.append((time.perf_counter() - begin) / plan.launches)
        timing = shortest(taken[1:])  # the first is the warm-up
        method = (
            f"{work.what}; {plan.launches} launches back to back, by the host's clock until the last has "
            f"ended; shortest of {timing.runs} runs after a warm-up"
        )
        output.ceiling("launch", "overhead", "s", timing, method, device=f"gpu {index}")
    library.release()
