"""DRAM bandwidth: STREAM's triad, and reading alone, through more memory than the caches hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import NamedTuple

from roofline_agent.calibrate import kernels
from roofline_agent.calibrate.kernels import StreamKernel
from roofline_agent.calibrate.machine import Machine
from roofline_agent.calibrate.memory import Executable, Memory
from roofline_agent.calibrate.peak import vector
from roofline_agent.calibrate.records import Ceiling
from roofline_agent.calibrate.runs import Job, Plan, Rate, describe_effort, measure_rate
from roofline_agent.calibrate.team import Task, run_together

_TRIAD = "STREAM triad a[i] = b[i] + s * c[i] on f64 with non-temporal stores, 24 bytes an element"
_READ = "sum of f64 read in order, 8 bytes an element"

_MIB = 1 << 20
# Wide enough for any memory; with 512 bits the triad is no faster, and reading measured a little slower.
_WIDTH = 256
_UNKNOWN_CACHE_WORKING_SET = 2048 * _MIB
_LEAST_WORKING_SET = 128 * _MIB
_CACHE_LINE = 64
# Arrays that start at the same offset in a page make loads wait for unrelated stores to like addresses.
_ARRAY_SKEW = 17 * _CACHE_LINE
# 0x3f3f3f3f3f3f3f3f is the f64 4.8e-4. Some CPUs don't write lines of zeros back to memory.
_FILL_BYTE = 0x3F


class WorkingSet(NamedTuple):
    size: int  # bytes, over all threads
    description: str  # says if caches may have helped


def measure_dram(machine: Machine, plan: Plan) -> Iterator[Ceiling]:
    """Triad and read with vectors of up to 256 bits. `time_ns` is left at 0."""
    form = [form for form in kernels.usable_forms(machine.flags, "f64") if form.width <= _WIDTH][-1]
    working_set = choose_working_set(machine, plan)
    with ExitStack() as stack:
        arrays = stack.enter_context(_arrays(machine.cpus, working_set.size))
        jobs = (
            ("dram.triad", _TRIAD, _triad_job(stack, kernels.triad_kernel(form), arrays)),
            ("dram.read", _READ, _read_job(stack, kernels.read_kernel(form), arrays)),
        )
        for name, what, job in jobs:
            rate = measure_rate(machine.cpus, plan, job)
            effort = describe_effort(machine.cpus, plan, rate)
            yield _ceiling(name, rate, f"{what}; {working_set.description}; {effort}")


def choose_working_set(machine: Machine, plan: Plan) -> WorkingSet:
    """The plan's multiple of the caches, but never more than a quarter of the memory that is free."""
    cache = machine.last_level_cache_bytes
    wanted = _UNKNOWN_CACHE_WORKING_SET if cache is None else int(plan.caches * cache)
    limits = [machine.available_bytes // 4] + ([plan.most_bytes] if plan.most_bytes else [])
    size = min(max(wanted, _LEAST_WORKING_SET), *limits)
    text = f"working set {size / _MIB:.0f} MiB"
    if cache is None:
        return WorkingSet(size, f"{text}, the system does not tell its caches, may contain cache hits")
    text += f", {size / cache:.1f} x the last-level caches of {cache / _MIB:.0f} MiB"
    return WorkingSet(size, text if size >= wanted else f"{text}, may contain cache hits")


@contextmanager
def _arrays(cpus: Sequence[int], working_set_bytes: int) -> Iterator[list[Memory]]:
    """For each CPU an equal share of the working set, first touched on that CPU."""
    share = working_set_bytes // len(cpus) // _CACHE_LINE * _CACHE_LINE
    with ExitStack() as stack:
        arrays = [stack.enter_context(closing(Memory(share))) for _ in cpus]
        for array in arrays:
            array.ask_for_huge_pages()
        run_together(cpus, [partial(array.fill, _FILL_BYTE) for array in arrays])
        yield arrays


def _triad_job(stack: ExitStack, kernel: StreamKernel, arrays: Sequence[Memory]) -> Job:
    run = stack.enter_context(closing(Executable(kernel.code)))
    scale = stack.enter_context(closing(Memory(kernel.form.bytes)))
    scale.write(vector(kernel.form, 3.0))
    elements = triad_elements(arrays[0].size)
    blocks, tail = divmod(elements, kernel.block_elements)
    stride = elements * 8 + _ARRAY_SKEW

    def tasks(passes: int) -> list[Task]:
        return [
            partial(_pass, run, passes, blocks, tail, a, a + stride, a + 2 * stride, scale.address)
            for a in (array.address for array in arrays)
        ]

    return Job(tasks, len(arrays) * elements * kernel.bytes_per_element, first_units=1)


def triad_elements(share_bytes: int) -> int:
    """f64 in each of the triad's three arrays within a share; each array starts on a cache line."""
    return (share_bytes - 2 * _ARRAY_SKEW) // (3 * _CACHE_LINE) * _CACHE_LINE // 8


def _read_job(stack: ExitStack, kernel: StreamKernel, arrays: Sequence[Memory]) -> Job:
    run = stack.enter_context(closing(Executable(kernel.code)))
    sums = [stack.enter_context(closing(Memory(kernel.chains * kernel.form.bytes + 8))) for _ in arrays]
    elements = arrays[0].size // 8
    blocks, tail = divmod(elements, kernel.block_elements)

    def tasks(passes: int) -> list[Task]:
        return [
            partial(_pass, run, passes, blocks, tail, array.address, own.address)
            for array, own in zip(arrays, sums, strict=True)
        ]

    return Job(tasks, len(arrays) * elements * kernel.bytes_per_element, first_units=1)


def _pass(run: Executable, passes: int, *arguments: int) -> None:
    for _ in range(passes):
        run(*arguments)


def _ceiling(name: str, rate: Rate, method: str) -> Ceiling:
    return Ceiling(
        name=name,
        kind="memory",
        level="dram",
        precision="",
        width=0,
        value=rate.best,
        unit="byte/s",
        spread=rate.spread,
        method=method,
        time_ns=0,
    )
