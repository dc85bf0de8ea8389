"""Bytes per second of each level of memory: reading, copying and STREAM's triad, by working set.

Cache levels are measured with normal stores at a size well inside them, DRAM with non-temporal stores on a
multiple of the caches. A sweep from 8 KiB to DRAM shows where one level ends and the next begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial

from roofline_agent.calibrate import levels
from roofline_agent.calibrate.calibration import Ceiling, SweepPoint
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.kernels import OPERATIONS, StreamKernel, constants
from roofline_agent.calibrate.levels import CacheLevel, WorkingSet
from roofline_agent.calibrate.memory import Buffer
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.runs import Job, Rate, RunPlan, describe_effort, measure_rate
from roofline_agent.calibrate.team import run_together

_WHAT = {
    "read": "sum of f64 read in order, 8 bytes an element",
    "copy": "a[i] = b[i] on f64, 16 bytes an element",
    "triad": "STREAM triad a[i] = b[i] + s * c[i] on f64, 24 bytes an element",
}
_PAGE = 4096
_CACHE_LINE = 64
# Arrays that start at the same offset in a page make loads wait for unrelated stores to like addresses.
_ARRAY_SKEW = 17 * _CACHE_LINE
# 0x3f3f3f3f3f3f3f3f is the f64 4.8e-4. Some CPUs don't write lines of zeros back to memory.
_FILL_BYTE = 0x3F
_SCALE = 3.0
# A cache that is hardly faster than DRAM is none of this machine's own.
_CLEARLY_FASTER = 1.2

Measurement = Callable[[], Ceiling]


class Arena:
    """A buffer on each of some CPUs, and what runs through them."""

    def __init__(self, bench: Bench, plan: RunPlan, cpus: Sequence[int], buffers: Sequence[Buffer]) -> None:
        self.bench, self.plan, self.cpus, self.buffers = bench, plan, cpus, buffers
        self.inner_bytes = max((level.share_bytes for level in self.levels if level.name < "l3"), default=0)

    @property
    def levels(self) -> tuple[CacheLevel, ...]:
        return levels.cache_levels(self.bench.hardware.caches, self.cpus)

    def kernel(self, operation: str, streaming: bool, cpu_bytes: int) -> StreamKernel:
        """The best for a working set of this size on each CPU."""
        return self.bench.kernels.stream_kernel(operation, streaming, outer=cpu_bytes > self.inner_bytes)

    def rate(self, kernel: StreamKernel, cpu_bytes: int, plan: RunPlan) -> Rate:
        with ExitStack() as stack:
            return measure_rate(self.cpus, plan, self.job(stack, kernel, cpu_bytes))

    def job(self, stack: ExitStack, kernel: StreamKernel, cpu_bytes: int) -> Job:
        blocks, stride = layout(kernel, cpu_bytes, self.buffers[0].size)

        def arguments(k: int, passes: int) -> tuple[int, ...]:
            start = self.buffers[k].address
            return passes, blocks, start, start + stride, start + 2 * stride

        moved = blocks * kernel.block_bytes // 8 * kernel.bytes_per_element * len(self.cpus)
        own = [constants(kernel, _SCALE, blocks)] * len(self.cpus)
        # The first guess is some 10 us at 10 GB/s.
        first = max(1, 100_000 // (blocks * kernel.block_bytes))
        return self.bench.job(stack, kernel.code, own, arguments, moved, first)


def layout(kernel: StreamKernel, cpu_bytes: int, room: int) -> tuple[int, int]:
    """Blocks of each array, and bytes from one array's start to the next one's, within a buffer."""
    padding = (kernel.arrays - 1) * (_PAGE + _ARRAY_SKEW)
    each = min(cpu_bytes, room - padding) // kernel.arrays
    blocks = each // kernel.block_bytes
    return blocks, -(-blocks * kernel.block_bytes // _PAGE) * _PAGE + _ARRAY_SKEW


@contextmanager
def arena(bench: Bench, plan: RunPlan, cpus: Sequence[int], size: int) -> Iterator[Arena]:
    """An equal share of `size` bytes for each CPU, first touched there."""
    share = size // len(cpus) // _PAGE * _PAGE
    with ExitStack() as stack:
        buffers = [stack.enter_context(closing(Buffer(share))) for _ in cpus]
        for buffer in buffers:
            buffer.ask_for_huge_pages()
        run_together(cpus, [partial(buffer.fill, _FILL_BYTE) for buffer in buffers])
        yield Arena(bench, plan, cpus, buffers)


def measure_memory(
    bench: Bench, plan: RunPlan, on_sweep: Callable[[list[SweepPoint]], None], note: Callable[[str], None]
) -> Iterator[Measurement]:
    """The sweep, then each level, on all CPUs; on one CPU too with `plan.everything`.

    A measurement raises CalibrationError where a level cannot be distinguished from the others.
    """
    all_cpus = bench.hardware.cpus
    for cpus in [all_cpus, all_cpus[:1]] if plan.everything and len(all_cpus) > 1 else [all_cpus]:
        working_set = levels.beyond_caches(bench.hardware, plan, cpus)
        with arena(bench, plan, cpus, working_set.size) as place:
            points = _sweep(place)
            on_sweep(points)
            _note_end(place, points, note)
            for level in place.levels:
                for operation in OPERATIONS:
                    yield partial(_measure_cache, place, level, operation, points)
            for operation in OPERATIONS:
                yield partial(_measure_dram, place, working_set, operation)


def _sweep(place: Arena) -> list[SweepPoint]:
    """Each curve from small to large. Sizes alternate with kinds, so that noise hits all curves alike."""
    plan = place.plan
    kinds = [("read", False), ("triad", False)]
    if plan.everything:
        kinds.append(("copy", False))
        # Not every CPU has such stores.
        kinds += [(o, True) for o in ("copy", "triad") if place.kernel(o, True, 0).streaming]
    # Short runs, and no second chance: a curve needs many points, and only its shape is used.
    short = plan._replace(run_s=plan.run_s / 3, repeats=plan.sweep_repeats, patient=False)
    points: list[SweepPoint] = []
    threads = len(place.cpus)
    for size in levels.sweep_sizes(place.buffers[0].size, 2 if plan.everything else 1):
        for operation, streaming in kinds:
            rate = place.rate(place.kernel(operation, streaming, size), size, short)
            points.append(SweepPoint(operation, streaming, threads, size * threads, rate.best))
    found: list[SweepPoint] = []
    for kind in kinds:
        curve = [point for point in points if (point.operation, point.streaming) == kind]
        # What something disturbed is measured again, once.
        for at in levels.dips(curve):
            point = curve[at]
            size = point.bytes // point.threads
            rate = place.rate(place.kernel(point.operation, point.streaming, size), size, short)
            curve[at] = point._replace(value=max(point.value, rate.best))
        found += curve
    return found


def _note_end(place: Arena, points: Sequence[SweepPoint], note: Callable[[str], None]) -> None:
    level = place.levels[-1] if place.levels else None
    end = levels.seen_end(points, level) if level else None
    if level and end:
        stated = levels.size_text(level.share_bytes * len(place.cpus))
        cpus = "one CPU" if len(place.cpus) == 1 else f"{len(place.cpus)} CPUs"
        others = "other guests of the host" if place.bench.hardware.is_virtual else "other CPUs"
        note(
            f"{level.name}, working from {cpus}: the system states {stated}, but reading "
            f"slows down beyond {levels.size_text(end)}; {others} have their part of it"
        )


def _measure_cache(place: Arena, level: CacheLevel, operation: str, points: Sequence[SweepPoint]) -> Ceiling:
    on = _on(place)
    if not level.working_set:
        raise CalibrationError(f"{level.name}.{operation} on {on}: not told apart, {level.reason}")
    kernel = place.kernel(operation, False, level.working_set)
    if level.working_set * 2 > place.buffers[0].size:
        raise CalibrationError(f"{level.name}.{operation} on {on}: too little memory is free to go beyond it")
    rate = place.rate(kernel, level.working_set, place.plan)
    farthest = levels.of_dram(points, operation, level, place.levels)
    if farthest is not None and rate.best < _CLEARLY_FASTER * farthest:
        raise CalibrationError(
            f"{level.name}.{operation} on {on}: {rate.best / 1e9:.1f} GB/s, hardly more than DRAM's "
            f"{farthest / 1e9:.1f}; the cache may be shared with other guests of the host"
        )
    inside = f"{level.working_set / 1024:.0f} of {level.share_bytes / 1024:.0f} KiB"
    stores = "" if operation == "read" else f"; {kernel.stores}"
    what = f"{_WHAT[operation]}{stores}; working set {inside} a CPU, beyond the level within"
    return _ceiling(place, level.name, kernel, rate, what)


def _measure_dram(place: Arena, working_set: WorkingSet, operation: str) -> Ceiling:
    if working_set.reason:
        raise CalibrationError(f"dram.{operation} on {_on(place)}: {working_set.reason}")
    size = place.buffers[0].size
    kernel = place.kernel(operation, operation != "read", size)
    rate = place.rate(kernel, size, place.plan)
    stores = "" if operation == "read" else f"; {kernel.stores}"
    return _ceiling(place, "dram", kernel, rate, f"{_WHAT[operation]}{stores}; {working_set.description}")


def _on(place: Arena) -> str:
    return "one CPU" if len(place.cpus) == 1 else "all CPUs at once"


def _ceiling(place: Arena, level: str, kernel: StreamKernel, rate: Rate, what: str) -> Ceiling:
    one = ".one" if len(place.cpus) < len(place.bench.hardware.cpus) else ""
    effort = describe_effort(place.cpus, place.bench.hardware, place.plan, rate)
    return Ceiling(
        name=f"{level}.{kernel.operation}{one}",
        kind="memory",
        level=level,
        precision="",
        width=0,
        value=rate.best,
        unit="byte/s",
        spread=rate.spread,
        method=f"{what}; {kernel.form.width}-bit vectors; {effort}; {place.bench.kernels.method}",
        time_ns=0,
        threads=len(place.cpus),
        median=rate.median,
        clock_hz=rate.clock_hz,
        operation=kernel.operation,
    )
