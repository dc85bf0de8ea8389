"""What the work, the traffic and the time of steps are made of."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.phrases import WHOLE_RUN

from .wording import duration, first_of, many, quantity, title

# -- the time of a step -------------------------------------------------------------------------------------

WAITS_UNKNOWN = "it is not known when its ranks wait for each other"
NO_COMMUNICATION_IN_JOIN = "its pulls and pushes cannot be separated from its computing"
PHASES_AFTER_KERNELS = "phases follow the last kernel, and how much of the rest is communication is not known"
COMMUNICATION_UNSEEN = "nobody saw its ranks communicate: what they do after their last kernels is not known"
WITH_WAITS = "with the time it waits for other ranks"
OTHER = "the rest of the step"


def with_phases(names: Sequence[str]) -> str:
    """names: of phases that the training marks itself."""
    return f"with the phases {first_of(names)}"


def overlapping(names: Sequence[str]) -> str:
    """names: as of `with_phases`."""
    return f"phases that may overlap with others are not separated from it: {first_of(names)}"


ONCE = "before the first step, so no part of one"


def launched(seconds: float, steps: int) -> str:
    """What a launcher took, of a rank of so many steps."""
    return f"{duration(seconds)} from its start to its first step, over {many(steps, 'step')}"


def phases_known(phases: Sequence[str], ranks: Sequence[str] = ()) -> str:
    """Which phases of its steps, or of those of some ranks, are known: why the others are not."""
    steps = f"the steps of {first_of(ranks)}" if ranks else "its steps"
    if not phases:
        return f"no hook marks the phases of {steps}"
    return f"of the phases of {steps} hooks mark only {', '.join(phases)}"


def no_phases_at_all(why: str) -> str:
    return f"{why}: all kernels are outside any phase"


# -- parts of a whole ---------------------------------------------------------------------------------------

BELOW_ZERO = "a part is below zero: a counter ran backwards"
NOTHING = "all parts are zero"
NO_WHOLE = "these do not add up to a whole"

# -- FLOPs --------------------------------------------------------------------------------------------------

BY_IMPLEMENTATION = "by the names of the kernels' implementations: at most so wide"
NO_WIDTHS_ON_GPU = "its kernels ran on a GPU, which has no vectors of a width"
NO_AMX = "the matrix unit (AMX) ran, and no event counts its FLOPs"
NO_FLOPS = "its kernels did no FLOPs"


def width(precision: str, how: str) -> str:
    """Name of a part: "f32 256-bit", "f64 scalar", "bf16 AMX"."""
    return f"{precision} {how}".strip()


def wider_vectors(bits: int, precision: str, share: float) -> str:
    return (
        f"these CPUs have {bits}-bit vectors in {title(precision)}: in all {share:.0%} of the FLOPs could "
        "use wider ones"
    )


# -- bytes --------------------------------------------------------------------------------------------------

NOT_OF_EVERY_KERNEL = "no profiler counted it for every kernel"
NO_PROFILED_TRAFFIC = "no profiler counted the traffic of its kernels"
CACHE_MISSES = "cache misses of 64 bytes: no less than this"
SHARE_OF_NODE = "its share of the node's, by CPU time"
NO_DRAM_SOURCE = "nothing reads DRAM traffic on its node"
OF_TENSORS, COUNTED_TRAFFIC = "bytes of tensors", "counted traffic"


def accesses(of_what: str, line: int, intensity: float | None) -> str:
    """Bytes over those of one access. intensity: FLOP per byte; None: not known."""
    text = f"{of_what} over {line} bytes"
    if intensity is None:
        return text
    return f"{text}; {many(intensity * line, 'FLOP')} an access"


# -- kernels ------------------------------------------------------------------------------------------------

WHOLE_RUNS = "no rank has steps: numbers are of whole runs"


def kernels_of_sample(how: str) -> str:
    """how: of `origins.from_sampled`."""
    return f"kernels are {how}"


def outside_steps(kernels: int) -> str:
    lie = f"{many(kernels, 'kernel')} {'lies' if kernels == 1 else 'lie'}"
    return f"{lie} in none of these steps, or in one that was not watched in full"


def other_kinds(count: int) -> str:
    return many(count, "other kind")


def on_gpu(kernel: str) -> str:
    return f"{kernel} (GPU)"


def launches(count: float) -> str:
    return many(count, "launch")


def launches_without_known_flops(count: float) -> str:
    return f"{launches(count)}; its FLOPs are not known"


def launches_without_flops(count: float) -> str:
    return f"{launches(count)}; it only moves data: no FLOPs"


def launches_at(count: float, flops_per_second: float) -> str:
    return f"{launches(count)} at {quantity(flops_per_second, 'FLOP/s')}"


def mean_over(ranks: int, steps: int) -> str:
    """What sums of kernels are of: a step of one rank; without steps its whole run."""
    who = f" of {ranks} ranks" if ranks > 1 else ""
    if steps:
        return f"a step; mean over {many(steps, 'step')}{who}"
    return f"{WHOLE_RUN}; mean{who}" if ranks > 1 else WHOLE_RUN
