"""The layers of a model in the steps that a framework's profiler recorded."""

from __future__ import annotations

from collections.abc import Mapping

from roofline.phrases import OF_LAYERS

from .wording import duration, many, quantity

NO_LAYER = "(no layer)"
NOTHING_RAN = "(nothing ran)"
WHY_NOTHING_RAN = "no operator or kernel ran: Python, waiting, or the network"
NO_LAYERS = (
    "no step was traced whose layers are known: `roofline-client trace`, or `roofline-agent run --trace "
    "100-102`, has the framework's profiler record some"
)


def of_steps(steps: Mapping[str, int]) -> str:
    """steps: traced ones by rank."""
    who = ", ".join(f"{count} of {rank}" for rank, count in list(steps.items())[:8])
    more = f" and {many(len(steps) - 8, 'more rank')}" if len(steps) > 8 else ""
    return f"{OF_LAYERS} the traced steps ({who}{more}), which are slower than others"


def layers_without_flops(seconds: float) -> str:
    return f"{duration(seconds)} in layers without known FLOPs is not shown"


def other_layers(count: int) -> str:
    return many(count, "other layer")


def calls(count: float, flops_per_second: float | None) -> str:
    text = many(count, "call")
    return f"{text} at {quantity(flops_per_second, 'FLOP/s')}" if flops_per_second else text


def mean_over(ranks: int, steps: int) -> str:
    who = f" of {ranks} ranks" if ranks > 1 else ""
    return f"a step; mean over {many(steps, 'traced step')}{who}"
