"""Puts a kernel on each of some CPUs, and looks at their clocks behind it where the kernel leaves stamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial

from roofline_agent.calibrate.hardware import Hardware
from roofline_agent.calibrate.kernels import BLOCK_BYTES, Code, KernelSet, cycles_per_stamp
from roofline_agent.calibrate.memory import Buffer
from roofline_agent.calibrate.runs import Job
from roofline_agent.calibrate.team import Task

Arguments = Callable[[int, int], tuple[int, ...]]
_MOST_ARGUMENTS = 5  # besides the block


class Bench:
    """Makes jobs of kernels."""

    def __init__(self, hardware: Hardware, kernels: KernelSet) -> None:
        self.hardware, self.kernels = hardware, kernels

    def job(
        self,
        stack: ExitStack,
        code: Code,
        blocks: Sequence[bytes],
        arguments: Arguments,
        work: float,
        first_units: int,
    ) -> Job:
        """`code` on as many CPUs as there are blocks, each of which goes into memory of one CPU's own.

        arguments(k, units): those of the call on the k-th CPU, at most five; behind them comes its block's
        address. work: FLOP or bytes of a unit on all CPUs together. A block has at least `BLOCK_BYTES`.
        """
        run = stack.enter_context(closing(self.kernels.load(code)))
        buffers = [stack.enter_context(closing(Buffer(len(block)))) for block in blocks]
        for buffer, block in zip(buffers, blocks, strict=True):
            buffer.write(block)

        def tasks(units: Sequence[int]) -> list[Task]:
            made: list[Task] = []
            for k, (count, buffer) in enumerate(zip(units, buffers, strict=True)):
                given = arguments(k, count)
                unused = [0] * (_MOST_ARGUMENTS - len(given))
                made.append(partial(run, *given, *unused, buffer.address))
            return made

        def clocks_hz() -> tuple[float | None, ...]:
            """Of each core in use; None: not seen."""
            hz = self.kernels.stamps_hz()
            if hz is None:
                return ()
            seen = [cycles_per_stamp(buffer.read(BLOCK_BYTES)) for buffer in buffers]
            clocks = [None if cycles is None else cycles * hz for cycles in seen]
            return by_core(clocks, self.hardware.core_of[: len(buffers)] or range(len(buffers)))

        return Job(tasks, work, first_units, clocks_hz)


def by_core(clocks: Sequence[float | None], core_of: Sequence[int]) -> tuple[float | None, ...]:
    """The clocks of the cores from those of their CPUs.

    What else runs on a core makes its clock look lower, and nothing makes one look higher.
    """
    of_core: dict[int, list[float]] = {core: [] for core in core_of}
    for core, clock_hz in zip(core_of, clocks, strict=True):
        if clock_hz is not None:
            of_core[core].append(clock_hz)
    return tuple(max(seen, default=None) for seen in of_core.values())
