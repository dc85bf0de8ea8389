"""A machine-code kernel on each of some CPUs, with the clock probe behind it where the CPU allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial

from roofline_agent.calibrate import clock
from roofline_agent.calibrate.clock import TickRate
from roofline_agent.calibrate.machine import Machine
from roofline_agent.calibrate.memory import Executable, Memory
from roofline_agent.calibrate.runs import Job
from roofline_agent.calibrate.team import Task

Arguments = Callable[[int, int], tuple[int, ...]]


class Bench:
    """Makes jobs of kernels. One a process: the rate of its time stamps gets better with time."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._ticks = TickRate() if machine.flags >= clock.NEEDED_FLAGS else None

    @property
    def method(self) -> str:
        """The words on the clock for a ceiling's method."""
        return clock.METHOD if self._ticks else "clock not known: the CPU has no constant time stamp counter"

    def job(
        self,
        stack: ExitStack,
        code: bytes,
        blocks: Sequence[bytes],
        arguments: Arguments,
        work: float,
        first_units: int,
    ) -> Job:
        """`code` on as many CPUs as there are blocks, each of which goes into memory of one CPU's own.

        arguments(k, units): the first five of the call on the k-th CPU; the sixth is its block's address.
        work: FLOP or bytes of a unit on all CPUs together. A block has at least `clock.BLOCK_BYTES`.
        """
        run = stack.enter_context(closing(Executable(clock.with_probe(code) if self._ticks else code)))
        memories = [stack.enter_context(closing(Memory(len(block)))) for block in blocks]
        for memory, block in zip(memories, blocks, strict=True):
            memory.write(block)

        def tasks(units: Sequence[int]) -> list[Task]:
            shares = zip(units, memories, strict=True)
            return [partial(run, *_six(arguments(k, n), m.address)) for k, (n, m) in enumerate(shares)]

        return Job(tasks, work, first_units, partial(self._clocks_hz, memories))

    def _clocks_hz(self, blocks: Sequence[Memory]) -> tuple[float | None, ...]:
        """Of each core in use; None: not seen."""
        if self._ticks is None:
            return ()
        hz = self._ticks.hz()
        seen = [clock.cycles_per_tick(block.read(clock.BLOCK_BYTES)) for block in blocks]
        clocks = [None if cycles is None else cycles * hz for cycles in seen]
        core_of = self.machine.core_of[: len(blocks)] or tuple(range(len(blocks)))
        return by_core(clocks, core_of)


def by_core(clocks: Sequence[float | None], core_of: Sequence[int]) -> tuple[float | None, ...]:
    """The clocks of the cores from those of their CPUs.

    What else runs on a core makes its clock look lower, and nothing makes one look higher.
    """
    of_core: dict[int, list[float]] = {core: [] for core in core_of}
    for core, clock_hz in zip(core_of, clocks, strict=True):
        of_core[core] += [] if clock_hz is None else [clock_hz]
    return tuple(max(seen, default=None) for seen in of_core.values())


def _six(arguments: tuple[int, ...], last: int) -> tuple[int, ...]:
    return (*arguments, *[0] * (5 - len(arguments)), last)
