"""Ceilings of one GPU: bandwidths, peaks by precision, the launch of a kernel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import output
from .libraries import Library, Unsupported, Work
from .timing import Measured, Plan, TooLong, TooShort, measure_rate, shortest

PRECISIONS = ("f64", "f32", "tf32", "f16", "bf16", "f8_e4m3")
_RATES: dict[str, dict[str, Any]] = {
    **{
        f"{level}.{kind}": {"kind": "memory", "unit": "byte/s", "level": level}
        for level, kind in (("hbm", "read"), ("hbm", "copy"), ("hbm", "triad"), ("l2", "read"))
    },
    **{
        f"peak.{precision}": {"kind": "compute", "unit": "FLOP/s", "precision": precision}
        for precision in PRECISIONS
    },
}


class _Reached(NamedTuple):
    """How far one way came."""

    measured: Measured
    what: str
    operation: str


def measure(index: int, libraries: Sequence[Library], plan: Plan) -> None:
    """Says every ceiling as it is measured, and why one could not be. index: as NVML numbers GPUs."""
    for name, fields in _RATES.items():
        reached, reasons = _reach(name, libraries, plan)
        if not reached:
            output.note(f"gpu {index}: {name} was not measured: {'; '.join(reasons) or 'nothing here can'}")
            continue
        best = max(reached, key=lambda one: one.measured.best)
        runs = f"best of {best.measured.runs} runs of about {plan.run_s:g} s after a warm-up"
        method = f"{best.what}; {runs}, by the device's clock"
        output.ceiling(
            name,
            measured=best.measured,
            method=method,
            device=f"gpu {index}",
            operation=best.operation,
            **fields,
        )
    _measure_launch(index, libraries, plan)


def _reach(name: str, libraries: Sequence[Library], plan: Plan) -> tuple[list[_Reached], list[str]]:
    """What every way gave, and why some gave nothing."""
    reached: list[_Reached] = []
    reasons: list[str] = []
    for library in libraries:
        try:
            _reach_by(name, library, plan, reached)
        except (Unsupported, TooLong, TooShort) as error:
            reasons.append(str(error))
        except Exception as error:
            # Frameworks raise what they like, and one ceiling less must not cost the others.
            reasons.append(f"{type(error).__name__}: {str(error)[:300]}")
        library.release()
    return reached, reasons


def _reach_by(name: str, library: Library, plan: Plan, reached: list[_Reached]) -> None:
    # A function of its own: when it returns, nothing holds the arrays any more, and they can be given back.
    for work in library.works(name, plan):
        measured = measure_rate(work.timed, work.amount, plan)
        reached.append(_Reached(measured, work.what, work.operation))


def _measure_launch(index: int, libraries: Sequence[Library], plan: Plan) -> None:
    """Wang et al. 2020 (time-based roofline): what one launch costs, kernels launched one behind another."""
    found: list[tuple[Measured, str]] = []
    for library in libraries:
        try:
            works = library.works("launch", plan)
            found += [(_launch_time(library, work, plan), work.what) for work in works]
        except Exception as error:
            output.note(f"gpu {index}: launch: {type(error).__name__}: {str(error)[:300]}")
        library.release()
    if not found:
        return
    measured, what = min(found, key=lambda one: one[0].best)
    method = (
        f"{what}; {plan.launches} launches back to back, by the host's clock until the last has ended; "
        f"shortest of {measured.runs} runs after a warm-up"
    )
    others = [f"{other}: {one.best * 1e6:.2f} us" for one, other in found if other != what]
    output.ceiling("launch", "overhead", "s", measured, "; ".join([method, *others]), device=f"gpu {index}")


def _launch_time(library: Library, work: Work, plan: Plan) -> Measured:
    taken = []
    for _ in range(plan.repeats + 1):
        library.wait()
        begin = time.perf_counter()
        for _ in range(plan.launches):
            work.run()
        library.wait()
        taken.append((time.perf_counter() - begin) / plan.launches)
    return shortest(taken[1:])  # the first is the warm-up
