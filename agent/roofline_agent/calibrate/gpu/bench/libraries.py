"""What a library must offer to measure a GPU with it, and why it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

PRECISIONS = ("f64", "f32", "tf32", "f16", "bf16", "f8_e4m3")
# FLOPs aside: how many arrays one pass over them touches.
ARRAYS = {"read": 1, "copy": 2, "triad": 3}


if TYPE_CHECKING:
    Clock = Callable[[], float | None]


class Unsupported(Exception):
    """This GPU or this library has no such thing; the text says which."""


class Work(NamedTuple):
    """Something to be timed: a unit of it, and what that is."""

    run: Callable[[], object]
    amount: float  # FLOPs or bytes
    what: str  # for people


class Gpu(Protocol):
    """One GPU as a library has it. Arrays hold random numbers: zeros need less power, and run faster."""

    index: int
    name: str  # the device's
    library: str  # "torch 2.13.0"
    l2_bytes: int | None

    @property
    def free_bytes(self) -> int:
        """Of its memory."""

    def gemm(self, precision: str, size: int) -> Work:
        """C = A B of square matrices. Raises Unsupported."""

    def stream(self, kind: str, array_bytes: int) -> list[Work]:
        """Ways to read, copy or combine arrays of so many bytes each, of which the fastest counts."""

    def tiny(self) -> Work:
        """A kernel with as good as nothing to do."""

    def timed(self, work: Work, units: int) -> tuple[float, float | None]:
        """Seconds by the device's own clock, and the SM clock meanwhile."""

    def wait(self) -> None:
        """Until all is done that was started."""

    def release(self) -> None:
        """Give back memory that is no longer used."""
