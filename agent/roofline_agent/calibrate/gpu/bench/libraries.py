"""What a library must offer to measure a GPU with it, and why it may not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .timing import Plan

if TYPE_CHECKING:
    from .timing import Timed

    Clock = Callable[[], float | None]  # the SM clock now, Hz

TIMES_L2 = 16  # how much larger than the L2 an array is that must not be read from there
MIB = 1 << 20


class Unsupported(Exception):
    """This GPU or this library has no such thing; the text says which."""


class Work(NamedTuple):
    """Something to be timed: a unit of it, what that is, and how."""

    run: Callable[[], object]
    amount: float  # FLOPs or bytes
    what: str  # for the method of its ceiling
    operation: str  # "read", "copy", "triad", "gemm", "launch"
    timed: Timed


class GpuLibrary(Protocol):
    """One GPU as a library has it.

    Arrays hold random numbers where the library can make them: zeros need less power, and run faster.
    """

    def works(self, name: str, plan: Plan) -> Iterator[Work]:
        """Ways to reach the ceiling of that name, of which the fastest counts; each is made when it is asked
        for, smaller ones first. Raises Unsupported."""

    def wait(self) -> None:
        """Until all is done that was started."""

    def release(self) -> None:
        """Give back memory that is no longer used."""


def array_bytes(plan: Plan, free_bytes: int, l2_bytes: int | None) -> int:
    """Size of one array that must not fit into the L2; three fill a third of the memory for us at most."""
    least, most = plan.array_bytes
    wanted = max(least, min(most, TIMES_L2 * (l2_bytes or 0)))
    return min(wanted, int(plan.memory * free_bytes) // 9) // MIB * MIB


def described(size: int, l2_bytes: int | None) -> str:
    """The working set in words."""
    against = f"{size / l2_bytes:.0f} x the L2" if l2_bytes else "the L2's size is not known"
    return f"arrays of {size / MIB:.0f} MiB each, {against}"


def sizes(plan: Plan, free_bytes: int) -> Iterator[int]:
    """Sizes of square matrices of 8 bytes an element, three of which fit into half of the memory; at least
    one."""
    most = int(plan.memory * free_bytes) // 2
    return (size for size in plan.sizes if size == plan.sizes[0] or 24 * size * size < most)


def timed_by_host(run: Callable[[], object], units: int) -> tuple[float, float | None]:
    begin = time.perf_counter()
    for _ in range(units):
        run()
    return time.perf_counter() - begin, None
