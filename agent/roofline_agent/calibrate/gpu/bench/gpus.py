"""Ceilings of one GPU with a library's help: bandwidths, peaks by precision, the launch of a kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from . import words
from .libraries import ARRAYS, PRECISIONS, Gpu, Unsupported, Work
from .timing import Measured, Plan, TooLong, measure_rate, shortest

TIMES_L2 = 16  # how much larger than the L2 an array is that shall not be read from there


def measure(gpu: Gpu, plan: Plan) -> None:
    """Says every ceiling as it is measured, and why one could not be."""
    for kind in ARRAYS:
        _attempt(gpu, f"hbm.{kind}", partial(measure_stream, gpu, kind, plan))
    for precision in PRECISIONS:
        _attempt(gpu, f"peak.{precision}", partial(measure_peak, gpu, precision, plan))
    _attempt(gpu, "launch", partial(measure_launch, gpu, plan))


def device(gpu: Gpu) -> str:
    return f"gpu {gpu.index}"


def _attempt(gpu: Gpu, name: str, work: Callable[[], None]) -> None:
    try:
        work()
    except Unsupported as error:
        words.note(f"{device(gpu)}: {name} was not measured: {error}")
    except Exception as error:
        # Frameworks raise what they like; one ceiling less must not cost the others.
        words.note(f"{device(gpu)}: {name} was not measured: {type(error).__name__}: {str(error)[:300]}")
    gpu.release()


def array_bytes(gpu: Gpu, plan: Plan) -> int:
    """Of one array: many times the L2, but all three of them within a third of the memory that is free."""
    least, most = plan.array_bytes
    wanted = max(least, min(most, TIMES_L2 * (gpu.l2_bytes or 0)))
    return min(wanted, gpu.free_bytes // 9) // 1024 * 1024


def measure_stream(gpu: Gpu, kind: str, plan: Plan) -> None:
    size = array_bytes(gpu, plan)
    best, work = _best(gpu, gpu.stream(kind, size), plan)
    against = f", {size / gpu.l2_bytes:.0f} x the L2" if gpu.l2_bytes else ", the L2's size is not known"
    method = f"{work.what}; arrays of {size / (1 << 20):.0f} MiB each{against}; {_effort(best, plan)}"
    words.ceiling(
        f"hbm.{kind}", "memory", "byte/s", best, method, level="hbm", device=device(gpu), operation=kind
    )


def measure_peak(gpu: Gpu, precision: str, plan: Plan) -> None:
    best, work = _best(gpu, _products(gpu, precision, plan), plan)
    method = f"{work.what}; best of sizes up to {max(plan.sizes)}; {_effort(best, plan)}"
    words.ceiling(
        f"peak.{precision}",
        "compute",
        "FLOP/s",
        best,
        method,
        precision=precision,
        device=device(gpu),
        operation="gemm",
    )


def _products(gpu: Gpu, precision: str, plan: Plan) -> Iterable[Work]:
    for size in plan.sizes:
        # Made when it is its turn: the matrices of the size before are no longer held then. Three of 8 bytes.
        if size == plan.sizes[0] or 3 * 8 * size * size < gpu.free_bytes // 2:
            yield gpu.gemm(precision, size)


def _best(gpu: Gpu, works: Iterable[Work], plan: Plan) -> tuple[Measured, Work]:
    """The fastest of several ways. Raises TooLong when even the first one is too slow."""
    found: list[tuple[Measured, Work]] = []
    for work in works:
        try:
            measured = measure_rate(partial(gpu.timed, work), work.amount, plan)
        except TooLong:
            if not found:
                raise
            break
        found.append((measured, work._replace(run=_nothing)))
    return max(found, key=lambda one: one[0].best)


def _nothing() -> None:
    """In place of work whose arrays are no longer to be held."""


def measure_launch(gpu: Gpu, plan: Plan) -> None:
    """Wang et al. 2020 (time-based roofline): what one launch costs, kernels launched one behind another."""
    work = gpu.tiny()
    taken = []
    for _ in range(plan.repeats + 1):
        gpu.wait()
        begin = time.perf_counter()
        for _ in range(plan.launches):
            work.run()
        gpu.wait()
        taken.append((time.perf_counter() - begin) / plan.launches)
    measured = shortest(taken[1:])  # the first is the warm-up
    method = (
        f"{work.what}; {plan.launches} launches back to back, by the host's clock until the last has ended; "
        f"shortest of {measured.runs} runs after a warm-up"
    )
    words.ceiling("launch", "overhead", "s", measured, method, device=device(gpu))


def _effort(measured: Measured, plan: Plan) -> str:
    runs = f"best of {measured.runs} runs of about {plan.run_s:g} s after a warm-up"
    return f"{runs}, timed by events on the device"
