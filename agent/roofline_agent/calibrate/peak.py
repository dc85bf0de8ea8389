"""Peak FLOP/s by precision and vector width: multiply-adds in registers, nothing loaded or stored."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

from roofline_agent.calibrate import clock, kernels, tiles
from roofline_agent.calibrate.assembler import Form
from roofline_agent.calibrate.kernels import PeakKernel
from roofline_agent.calibrate.memory import Memory
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.records import Ceiling
from roofline_agent.calibrate.runs import Job, Plan, Rate, describe_effort, measure_rate

# Long mantissas: multipliers fed with ones draw less power and may clock higher than in real work.
_X, _Y = 0.7310585786300049, 1.2345678901234567
_FIRST_ITERATIONS = 1_000  # well under a millisecond
_NEVER = b"\0" * clock.BLOCK_BYTES

Measurement = Callable[[], Ceiling]


class _Shape(NamedTuple):
    """What distinguishes a ceiling from the others."""

    precision: str
    width: int
    name: str  # of the width: "scalar", "512", "amx"
    operation: str
    what: str


def measure_peaks(bench: Bench, plan: Plan) -> Iterator[Measurement]:
    """f32 and f64, from scalar to the widest vectors the CPU has; `time_ns` is left at 0.

    Without FMA and on one core: the widest vectors, or with `plan.everything` all of them.
    """
    for precision in ("f32", "f64"):
        yield from _of_precision(bench, plan, precision)


def measure_half_peaks(bench: Bench, plan: Plan) -> Iterator[Measurement]:
    """f16, bf16 dot products and bf16 tiles, where the CPU has them."""
    for precision in ("f16", "bf16"):
        yield from _of_precision(bench, plan, precision, narrow=plan.everything)
    if bench.machine.flags >= tiles.NEEDED_FLAGS:
        for cpus in _teams(bench, plan.everything):
            yield lambda cpus=cpus: _measure_tiles(bench, plan, cpus)  # type: ignore[misc]


def _of_precision(bench: Bench, plan: Plan, precision: str, narrow: bool = True) -> Iterator[Measurement]:
    forms = kernels.usable_forms(bench.machine.flags, precision)
    for form in forms if narrow else forms[-1:]:
        detailed = plan.everything or (form == forms[-1] and precision in ("f32", "f64"))
        for fused in (True, False) if kernels.has_fma(form) and detailed else (True,):
            kernel = kernels.peak_kernel(form if fused else kernels.without_fma(form), fused)
            for cpus in _teams(bench, detailed and fused):
                yield lambda k=kernel, c=cpus: _measure_peak(bench, plan, k, c)  # type: ignore[misc]


def _teams(bench: Bench, also_one: bool) -> list[tuple[int, ...]]:
    cpus = bench.machine.cpus
    return [cpus, cpus[:1]] if also_one and len(cpus) > 1 else [cpus]


def _measure_peak(bench: Bench, plan: Plan, kernel: PeakKernel, cpus: Sequence[int]) -> Ceiling:
    with ExitStack() as stack:
        rate = measure_rate(cpus, plan, peak_job(bench, stack, kernel, cpus))
    form = kernel.form
    width, shape = ("scalar", "scalars") if form.is_scalar else (str(form.width), f"{form.width}-bit vectors")
    per_lane = "4 FLOP per f32 lane" if kernel.operation == "dot" else "2 FLOP per lane and multiply-add"
    what = (
        f"{kernels.describe(kernel)} on {shape} in registers, {kernel.chains} independent chains, {per_lane}"
    )
    return _ceiling(
        bench, plan, cpus, rate, _Shape(form.precision, form.width, width, kernel.operation, what)
    )


def peak_job(bench: Bench, stack: ExitStack, kernel: PeakKernel, cpus: Sequence[int]) -> Job:
    operands = [stack.enter_context(closing(_operands(kernel))) for _ in cpus]
    sums_offset = 2 * kernel.form.bytes

    def arguments(k: int, iterations: int) -> tuple[int, ...]:
        return iterations, operands[k].address, operands[k].address + sums_offset

    work = len(cpus) * kernel.flops_per_iteration
    return bench.job(stack, kernel.code, [_NEVER] * len(cpus), arguments, work, _FIRST_ITERATIONS)


def _measure_tiles(bench: Bench, plan: Plan, cpus: Sequence[int]) -> Ceiling:
    tiles.ask_permission()
    kernel = tiles.tile_kernel()
    with ExitStack() as stack:
        size = tiles.CONFIG_BYTES + (2 + kernel.chains) * tiles.TILE_BYTES
        memories = [stack.enter_context(closing(Memory(size))) for _ in cpus]
        for memory in memories:
            memory.write(tiles.configuration() + bfloat(_X) * 512 + bfloat(_Y) * 512)
        sums_offset = tiles.CONFIG_BYTES + 2 * tiles.TILE_BYTES

        def arguments(k: int, iterations: int) -> tuple[int, ...]:
            return iterations, memories[k].address, memories[k].address + sums_offset

        work = len(cpus) * kernel.flops_per_iteration
        job = bench.job(stack, kernel.code, [_NEVER] * len(cpus), arguments, work, _FIRST_ITERATIONS)
        rate = measure_rate(cpus, plan, job)
    what = f"AMX products of bf16 tiles added to f32, {kernel.chains} independent sums, 16384 FLOP a product"
    return _ceiling(bench, plan, cpus, rate, _Shape("bf16", 0, "amx", "amx", what))


def _operands(kernel: PeakKernel) -> Memory:
    """The vectors x and y, then the sums, on pages of one thread's own."""
    form = kernel.form
    memory = Memory((2 + kernel.chains) * form.bytes)
    memory.write(vector(form, _X) + vector(form, _Y))
    return memory


def vector(form: Form, value: float) -> bytes:
    """The number in every lane, as it lies in memory."""
    if form.precision == "bf16":
        return bfloat(value) * form.lanes
    return struct.pack({"f16": "<e", "f32": "<f", "f64": "<d"}[form.precision], value) * form.lanes


def bfloat(value: float) -> bytes:
    """The upper half of the f32: bf16, cut and not rounded."""
    return struct.pack("<f", value)[2:]


def _ceiling(bench: Bench, plan: Plan, cpus: Sequence[int], rate: Rate, shape: _Shape) -> Ceiling:
    name = f"peak.{shape.precision}.{shape.name}"
    name += ".mul_add" if shape.operation == "mul_add" and _has_fma(bench, shape) else ""
    name += ".one" if len(cpus) < len(bench.machine.cpus) else ""
    return Ceiling(
        name=name,
        kind="compute",
        level="",
        precision=shape.precision,
        width=shape.width,
        value=rate.best,
        unit="FLOP/s",
        spread=rate.spread,
        method=f"{shape.what}; {describe_effort(cpus, bench.machine, plan, rate)}; {bench.method}",
        time_ns=0,
        threads=len(cpus),
        median=rate.median,
        clock_hz=rate.clock_hz,
        operation=shape.operation,
    )


def _has_fma(bench: Bench, shape: _Shape) -> bool:
    """Whether another ceiling, with FMA, has the plain name."""
    forms = kernels.usable_forms(bench.machine.flags, shape.precision)
    return any(form.width == shape.width and kernels.has_fma(form) for form in forms)
