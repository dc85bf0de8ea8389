"""The kernels of `calibrate`, with the FLOPs, instructions, cycles and bytes of a run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

from ...calibrate.bandwidth import Arena, arena
from ...calibrate.compiled.compiler import CompiledLibrary
from ...calibrate.errors import CalibrationError
from ...calibrate.hardware import this_hardware
from ...calibrate.kernel_sets import kernel_set
from ...calibrate.kernels import PeakKernel, StreamKernel
from ...calibrate.levels import beyond_caches
from ...calibrate.peak import peak_job
from ...calibrate.probe import Bench
from ...calibrate.runs import NORMAL, Job, units_for
from ...calibrate.team import Took, run_together
from ..works import FlopForm
from .done import Amount, Cannot, Quantities, amounts

FLOPS_S, MEMORY_S, BUSY_S = 0.3, 0.5, 1.0
PRECISIONS = ("f32", "f64", "f16")
_LOOP = 2  # instructions of a turn besides its body: counting and jumping
_F64 = 8  # bytes


class _Ready(NamedTuple):
    """A job that was tried out, and what a run of it comes to."""

    job: Job
    units: int
    quantities: Callable[[int, Took], Quantities]


class KernelWork:
    """One kernel at a time is ready; making another one ready takes some seconds of work."""

    def __init__(self, library: CompiledLibrary | None) -> None:
        self._library = library
        self._bench: Bench | None = None
        self._name = ""
        self._ready: _Ready | None = None
        self._stack = ExitStack()

    def knows(self, name: str) -> bool:
        return name.startswith(("flops.", "memory."))

    def forms(self) -> list[list[object]]:
        """Fields of FlopForm. All widths in their best instructions, the widest also without FMA."""
        kernels = self._opened().kernels
        found: list[list[object]] = []
        for precision in PRECISIONS:
            forms = kernels.forms(precision)
            for form in forms:
                width = "scalar" if form.is_scalar else str(form.width)
                fused = kernels.has_fma(form)
                found.append([precision, width, fused])
                if fused and form == forms[-1]:
                    found.append([precision, width, False])
        return found

    def prepare(self, name: str) -> bool:
        """Raises Cannot."""
        if name == self._name:
            return False
        self._stack.close()
        self._name, self._ready = "", None
        try:
            kind, *words = name.split(".")
            self._ready = self._flops(words) if kind == "flops" else self._memory(*words)
        except CalibrationError as error:
            raise Cannot(str(error)) from error
        self._name = name
        return True

    def do(self, name: str) -> Quantities:
        assert self._ready is not None and name == self._name
        return self._ready.quantities(self._ready.units, self._run(self._ready.job, self._ready.units))

    def _opened(self) -> Bench:
        if self._bench is None:
            try:
                hardware = this_hardware()
                self._bench = Bench(hardware, kernel_set(hardware, self._library))
            except CalibrationError as error:
                raise Cannot(str(error)) from error
        return self._bench

    def _run(self, job: Job, units: int) -> Took:
        return run_together(self._opened().hardware.cpus[:1], job.tasks([units]))

    def _tried(self, job: Job, seconds: float, quantities: Callable[[int, Took], Quantities]) -> _Ready:
        units = units_for(seconds, job.first_units, lambda units: self._run(job, units).whole)
        return _Ready(job, units, quantities)

    def _flops(self, words: list[str]) -> _Ready:
        bench, precision, width = self._opened(), words[0], words[1]
        is_scalar = width == "scalar"
        form = next(
            f
            for f in bench.kernels.forms(precision)
            if f.is_scalar == is_scalar and (is_scalar or f.width == int(width))
        )
        kernel = bench.kernels.peak_kernel(form, fused=words[2:] != ["mul_add"])
        job = peak_job(bench, self._stack, kernel, bench.hardware.cpus[:1])

        def quantities(units: int, took: Took) -> Quantities:
            flops = units * job.work
            found = amounts(instructions=units * instructions_of(kernel))
            found |= dict.fromkeys(FlopForm(precision, width, True).metrics, Amount(flops, flops))
            clocks = [clock for clock in job.clocks_hz() if clock]
            if clocks:
                found |= amounts(cycles=took.used * clocks[0])
            return found

        return self._tried(job, FLOPS_S, quantities)

    def _memory(self, level: str, operation: str) -> _Ready:
        bench, cpus = self._opened(), self._opened().hardware.cpus[:1]
        size = beyond_caches(bench.hardware, NORMAL, cpus).size
        place = self._stack.enter_context(arena(bench, NORMAL, cpus, size))
        if level != "dram":
            size = within(place, level)
        kernel = place.kernel(operation, level == "dram" and operation != "read", size)
        job = place.job(self._stack, kernel, size)

        def quantities(units: int, took: Took) -> Quantities:
            return bytes_of(kernel, units * job.work, level == "dram")

        return self._tried(job, MEMORY_S, quantities)

    def busy(self) -> Quantities:
        """All CPUs multiply and add for a second."""
        bench = self._opened()
        cpus = bench.hardware.cpus
        with ExitStack() as stack:
            kernel = bench.kernels.peak_kernel(bench.kernels.forms("f64")[-1])
            job = peak_job(bench, stack, kernel, cpus)

            total_s = 0.0

            def seconds(units: int) -> float:
                nonlocal total_s
                took = run_together(cpus, job.tasks([units] * len(cpus))).whole
                total_s += took
                return took

            seconds(units_for(BUSY_S, job.first_units, seconds))
            return amounts(busy_s=total_s)  # finding out how much a second is takes energy, too


def within(place: Arena, name: str) -> int:
    """Bytes that lie well inside a level of cache. Raises Cannot."""
    for level in place.levels:
        if level.name == name and level.working_set:
            return level.working_set
    raise Cannot(f"the system does not tell this CPU's {name}")


def instructions_of(kernel: PeakKernel) -> float:
    """Instructions of one iteration."""
    multiply_adds = kernel.flops_per_iteration / (2 * kernel.form.lanes)
    each = 1 if kernel.operation == "fma" else 2
    if each == 2 and kernel.form.instructions == "sse2":
        each = 3  # a product overwrites a factor, which is copied before
    return multiply_adds * each + _LOOP


def bytes_of(kernel: StreamKernel, moved: float, beyond_caches: bool) -> Quantities:
    """What crosses the memory bus. moved: as STREAM counts."""
    elements = moved / kernel.bytes_per_element
    written = 0.0 if kernel.operation == "read" else _F64 * elements
    read = moved - written
    if written and not kernel.streaming:
        read += written  # a line is read before it is overwritten
    if not beyond_caches:
        read = written = 0.0
    return {
        "dram_read_bytes": Amount(read, read or moved),
        "dram_written_bytes": Amount(written, written or moved),
        "dram_bytes": Amount(read + written, (read + written) or moved),
    }
