"""JAX: what is known of the functions that a training has compiled, and of their calls."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

UNKNOWN = float("nan")  # FLOPs of a step: no comparison with it is true


class CalledFunction:
    """A function that the training has compiled; all its executables."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.feeds_back = False  # its results were its own next arguments
        self.flops = UNKNOWN  # of the largest of its programs
        self.seen_after = -3  # number of the step that ended before its last call
        self.usual = True  # its calls since then belong to steps
        self.calls = 0  # so many
        self.flops_before = 0  # of what was called since then, before the first of them
        self.led = False  # its calls are or were steps
        self.passes = False  # it may train, but who trained before it was called again
        self.heavier = 0  # calls that do clearly more work than a step of this leader
        self.heavier_than: Optional[CalledFunction] = None


class JaxProgram:
    """One executable of a function, for arguments of certain shapes."""

    def __init__(
        self,
        function: CalledFunction,
        flops: Optional[int] = None,
        kernel: Optional[int] = None,
        examples: Optional[int] = None,
        like: int = 0,
    ) -> None:
        """kernel: its number in packets of executed kernels; None: it has none."""
        self.function = function
        self.flops = flops
        if flops is not None and not flops <= function.flops:
            function.flops = flops
        self.kernel = kernel
        self.examples = examples
        self.like = like
        # Of its steps; False: it has none. The second: by the names of the counts that a step has.
        self.layout: Any = None
        self.counted: Dict[Tuple[str, ...], Any] = {}


class JaxCall(NamedTuple):
    """A call of a program; its execution begins at dispatched_ns at the earliest."""

    program: JaxProgram
    begin_ns: int
    dispatched_ns: int
    result: Any  # what `held` made of an array it returned; None: nothing to look at


class EndedCall(NamedTuple):
    """Without its result, whose memory is the training's to free."""

    program: JaxProgram
    called_ns: int
    begin_ns: int
    end_ns: int
