"""How a value came about: of what it is, what it leaves out, what was assumed."""

from __future__ import annotations

from .wording import two_digits

# What the bytes of level "minimum" are: those of reorders and element-wise kernels among them.
TENSOR_BYTES = "every kernel's tensors once, nothing kept in caches between kernels"
UNMODELLED = "pooling, normalisation and element-wise operations are not counted"
UPDATED_BYTES = (
    "gradient, variables and what the optimizer keeps of them, read and written once for each update"
)
NOT_TIMED = "nothing times the updates of a parameter server"
KERNEL_TIMES = "summed over kernels, as the library timed them"
PROFILED_FLOPS = "FLOPs of profiled steps over the mean time of the others"
BY_PROFILER = "as the profiler counted it, kernel by kernel"
AMX_NOT_COUNTED = "the matrix unit (AMX) ran, and no event counts its FLOPs: too few"
OF_CPUS = "what its CPUs counted beside its GPU, which is not the training's work"
MULTIPLEXED = "scaled up where multiplexed, not for cores that have no event for it"
WORKERS_WINDOWS = "windows of the workers it serves"
LARGEST_OF_RANKS = "largest of the ranks"
# Of a rate of ranks.
WHILE_ALL_WATCHED = "of the steps during which agents watched all ranks"
APART = "its ranks worked at different times: a mean over the time in which any of them did"


def updates_by_rule(rule: str) -> str:
    """rule: of the optimizer, as "SGD with momentum"."""
    return f"updates of the variables it holds, by the rule of {rule}"


def from_sampled(recorded: int, like: int, estimated: int) -> str:
    """Steps, by how their kernels are known."""
    steps = recorded + like + estimated
    text = f"from sampled steps: kernels of {recorded:,} of {steps:,} steps were recorded"
    if like:
        text += f", {like:,} did the same work as one of these"
    return f"{text}, {estimated:,} {'is' if estimated == 1 else 'are'} estimated" if estimated else text


# -- shares of a node ---------------------------------------------------------------------------------------

BY_CPU = "the node's, shared out by CPU time"
LOWER_BOUND = "a lower bound: misses of the last cache, 64 bytes each, without prefetches and write-backs"
OVER_LOWER_BOUND = "over a lower bound of the bytes, so an upper bound"
CPUS_ALONE = "the CPUs' of its node alone, shared out by CPU time: its GPU's is not known"
GPU_AND_CPUS = "its GPU's over the whole job, and of the node's CPUs its share by CPU time"
GPU_ALONE = "its GPU's alone, over the whole job: nothing reads the CPUs' energy"

# -- columns of the table of steps --------------------------------------------------------------------------

SERVER_TIME = "server's UNIX time"
INTERPOLATED = "read at both borders by interpolation between samples"
ENGINE_TIME = "time in which it executed any collective"
OVERLAP = "time in which the engine worked and the rank was not blocked by it"
OF_LIKE = "for steps whose kernels were not recorded: taken from recorded steps that did the same work"
OVER_TENSOR_BYTES = f"over {TENSOR_BYTES}"


def tensor_bytes_of_idle(share: float) -> str:
    """share: of the bytes, those of kernels without FLOPs."""
    return f"{TENSOR_BYTES}; {share:.0%} of it by kernels without FLOPs (reorders, copies, element-wise)"


def over_bytes(bytes_: str) -> str:
    return f"over {bytes_}"


def left_out(what: str) -> str:
    return f"{what}: left out"


def of_ranks_known(known: int, ranks: int) -> str:
    return f"; of the {known} of {ranks} ranks of which both are known"


def of_ranks_with_examples(known: int, ranks: int) -> str:
    return f"of the {known} of {ranks} ranks whose examples are known"


def with_unseen(ranks: int, steps: int) -> str:
    """steps: of these ranks, that nobody saw."""
    whose = "a rank" if ranks == 1 else f"{ranks} ranks"
    return f"with {steps:,} steps of {whose} that nobody saw: with as many examples as those that were seen"


def of_ranks_with_flops(known: int, ranks: int) -> str:
    return f"of the {known} of {ranks} ranks whose FLOPs are known"


def interpolated(samples: float) -> str:
    """samples: a step."""
    seen = two_digits(samples)
    return f"interpolated between samples, {seen} a step: single steps are blurred, the mean is not"
