"""Peak FLOP/s by precision and vector width: multiply-adds in registers, nothing loaded or stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial

from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.kernels import BLOCK_BYTES, Form, PeakKernel
from roofline_agent.calibrate.memory import Buffer
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.runs import Job, RunPlan, describe_effort, measure_rate

_FIRST_ITERATIONS = 1_000  # well under a millisecond

Measurement = Callable[[], Ceiling]


def measure_peaks(bench: Bench, plan: RunPlan) -> Iterator[Measurement]:
    """f32 and f64, from scalar to the widest vectors the CPU has; `time_ns` is left at 0.

    Without FMA and on one core: the widest vectors, or with `plan.everything` all of them.
    """
    for precision in ("f32", "f64"):
        forms = bench.kernels.forms(precision)
        for form in forms:
            yield from _of_form(bench, plan, form, plan.everything or form == forms[-1])


def measure_half_peaks(bench: Bench, plan: RunPlan) -> Iterator[Measurement]:
    """f16, bf16 dot products and bf16 matrices, where the CPU has them.

    The widest vectors on all cores, or with `plan.everything` all widths, on one core and without FMA too.
    """
    for precision in ("f16", "bf16"):
        forms = bench.kernels.forms(precision)
        for form in forms if plan.everything else forms[-1:]:
            yield from _of_form(bench, plan, form, plan.everything)
    if bench.kernels.multiplies_matrices:
        for cpus in _teams(bench, plan.everything):
            yield partial(_measure_matrices, bench, plan, cpus)


def _of_form(bench: Bench, plan: RunPlan, form: Form, detailed: bool) -> Iterator[Measurement]:
    """On all CPUs; if detailed on one too, and without FMA."""
    for cpus in _teams(bench, detailed):
        yield partial(_measure, bench, plan, bench.kernels.peak_kernel(form), cpus)
    if detailed and bench.kernels.has_fma(form):
        unfused = bench.kernels.peak_kernel(form, fused=False)
        yield partial(_measure, bench, plan, unfused, bench.hardware.cpus, ".mul_add")


def _teams(bench: Bench, also_one: bool) -> list[tuple[int, ...]]:
    cpus = bench.hardware.cpus
    return [cpus, cpus[:1]] if also_one and len(cpus) > 1 else [cpus]


def _measure_matrices(bench: Bench, plan: RunPlan, cpus: Sequence[int]) -> Ceiling:
    # Only here is the system asked to allow it: where it does not, that costs this ceiling alone.
    return _measure(bench, plan, bench.kernels.matrix_kernel(), cpus)


def _measure(
    bench: Bench, plan: RunPlan, kernel: PeakKernel, cpus: Sequence[int], suffix: str = ""
) -> Ceiling:
    with ExitStack() as stack:
        rate = measure_rate(cpus, plan, peak_job(bench, stack, kernel, cpus))
    one = ".one" if len(cpus) < len(bench.hardware.cpus) else ""
    effort = describe_effort(cpus, bench.hardware, plan, rate)
    return Ceiling(
        name=f"peak.{kernel.form.precision}.{kernel.name}{suffix}{one}",
        kind="compute",
        level="",
        precision=kernel.form.precision,
        width=kernel.form.width,
        value=rate.best,
        unit="FLOP/s",
        spread=rate.spread,
        method=f"{kernel.text}; {effort}; {bench.kernels.method}",
        time_ns=0,
        threads=len(cpus),
        median=rate.median,
        clock_hz=rate.clock_hz,
        operation=kernel.operation,
    )


def peak_job(bench: Bench, stack: ExitStack, kernel: PeakKernel, cpus: Sequence[int]) -> Job:
    # Operands and sums of each thread lie on pages of its own.
    size = len(kernel.operands) + kernel.sums_bytes
    buffers = [stack.enter_context(closing(Buffer(size))) for _ in cpus]
    for buffer in buffers:
        buffer.write(kernel.operands)

    def arguments(k: int, iterations: int) -> tuple[int, ...]:
        return iterations, buffers[k].address, buffers[k].address + len(kernel.operands)

    blocks = [bytes(BLOCK_BYTES)] * len(cpus)
    work = len(cpus) * kernel.flops_per_iteration
    return bench.job(stack, kernel.code, blocks, arguments, work, _FIRST_ITERATIONS)
