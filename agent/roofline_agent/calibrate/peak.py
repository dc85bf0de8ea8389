"""Peak FLOP/s by precision and vector width: multiply-adds in registers, nothing loaded or stored."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial

from roofline_agent.calibrate import kernels
from roofline_agent.calibrate.assembler import Form
from roofline_agent.calibrate.kernels import PeakKernel
from roofline_agent.calibrate.machine import Machine
from roofline_agent.calibrate.memory import Executable, Memory
from roofline_agent.calibrate.records import Ceiling
from roofline_agent.calibrate.runs import Job, Plan, Rate, describe_effort, measure_rate
from roofline_agent.calibrate.team import Task

# Long mantissas: multipliers fed with ones draw less power and may clock higher than in real work.
_X, _Y = 0.7310585786300049, 1.2345678901234567
_FIRST_ITERATIONS = 10_000  # well under a millisecond


def measure_peaks(machine: Machine, plan: Plan) -> Iterator[Ceiling]:
    """For each precision, from scalar to the widest vectors the CPU has. `time_ns` is left at 0."""
    for precision in ("f32", "f64"):
        for form in kernels.usable_forms(machine.flags, precision):
            yield _measure_peak(machine, plan, kernels.peak_kernel(form))


def _measure_peak(machine: Machine, plan: Plan, kernel: PeakKernel) -> Ceiling:
    with ExitStack() as stack:
        run = stack.enter_context(closing(Executable(kernel.code)))
        operands = [stack.enter_context(closing(_operands(kernel))) for _ in machine.cpus]
        sums_offset = 2 * kernel.form.bytes

        def tasks(iterations: int) -> list[Task]:
            return [partial(run, iterations, own.address, own.address + sums_offset) for own in operands]

        work = len(machine.cpus) * kernel.flops_per_iteration
        rate = measure_rate(machine.cpus, plan, Job(tasks, work, _FIRST_ITERATIONS))
    return _ceiling(kernel, rate, describe_effort(machine.cpus, plan, rate))


def _operands(kernel: PeakKernel) -> Memory:
    """The vectors x and y, then the sums, on pages of one thread's own."""
    form = kernel.form
    memory = Memory((2 + kernel.chains) * form.bytes)
    memory.write(vector(form, _X) + vector(form, _Y))
    return memory


def vector(form: Form, value: float) -> bytes:
    """The number in every lane, as it lies in memory."""
    return struct.pack("<f" if form.precision == "f32" else "<d", value) * form.lanes


def _ceiling(kernel: PeakKernel, rate: Rate, effort: str) -> Ceiling:
    form = kernel.form
    width, shape = ("scalar", "scalars") if form.is_scalar else (form.width, f"{form.width}-bit vectors")
    return Ceiling(
        name=f"peak.{form.precision}.{width}",
        kind="compute",
        level="",
        precision=form.precision,
        width=form.width,
        value=rate.best,
        unit="FLOP/s",
        spread=rate.spread,
        method=f"{kernels.describe(form)} on {shape} in registers, {kernel.chains} independent chains, "
        f"2 FLOP per lane and multiply-add; {effort}",
        time_ns=0,
    )
