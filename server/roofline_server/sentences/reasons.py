"""Why a value is absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .wording import quantity

# -- steps --------------------------------------------------------------------------------------------------

NO_STEPS = "no steps"
UNREADABLE = "cannot be read: files of the job are damaged or missing"
NO_STEP_MARKS = "no step marks were received"
ONE_MARK = "one mark was received, and a step lasts from one mark to the next: mark every step"
NO_STEPS_IN_FILES = "the recorded files have no steps of it"
NO_STEPS_SEEN = "no steps were seen"
NO_RANK_HAS_STEPS = "no rank has steps"
LESS_WORK = "steps become shorter because less is done in them"
NO_EXAMPLES = "the number of examples per step is not known"
SERVES = "n/a: processes no batches"
AT_BEST = "no rate is predicted of what would be saved at best"
REPLAYED = "ncu replayed all of these steps: how long they took says nothing about the training"
_MARK = "mark them with roofline_step, or give `roofline-agent run --step-regex`"


def no_step_marks(hooks: Mapping[str, str], refused: str = "", has_marked: bool = False) -> str:
    """hooks: name -> its state, of the rank's process. refused: marks on its node at that time."""
    if has_marked:
        return ONE_MARK
    if not hooks and refused:
        return f"{NO_STEP_MARKS}; on its node {refused} was refused at that time"
    if not hooks:
        why = "no framework with a hook was imported, or Python ran with -I, -E or -S"
        return f"{NO_STEP_MARKS}: {why}; {_MARK}"
    states = ", ".join(f"{name} {state}" for name, state in sorted(hooks.items()))
    return f"{NO_STEP_MARKS} (hooks: {states}); {_MARK}"


def none_in_range(first: int, last: int) -> str:
    """first, last: steps of the job."""
    return f"no step is in the range asked for: the job has {first} to {last}"


def no_such_steps(job: str, asked: str, first: int, last: int) -> str:
    """asked: "5000:"; first, last: steps of the job."""
    return f"no steps in {asked} - job {job} has steps {first} to {last}"


# -- kernels and FLOPs --------------------------------------------------------------------------------------

NO_UPDATE_RULE = "the chief reported no optimizer whose updates can be counted"
NO_KERNELS = "no kernels were recorded"
NO_KERNELS_NO_COUNTER = "no kernels were recorded and no hardware counter counted FLOPs"
NO_FLOPS_COUNTER = "no hardware counter counted FLOPs"
EVENTS_READ_ZERO = (
    "its floating-point events read 0 beside billions of instructions, as in many virtual machines: they do "
    "not count here"
)
NO_FLOPS_COUNTED = "no FLOPs were counted"
NO_FLOPS = "it did no FLOPs"
NOT_WATCHED = "no step was watched from begin to end"
FLOPS_UNKNOWN = "the FLOPs of its kernels are not known"
TRAFFIC_UNKNOWN = "its kernels have FLOPs but no known traffic"
BYTES_NOT_COUNTED = "its bytes were not counted"
BYTES_OF_LEVEL_NOT_COUNTED = "they were not counted"
NO_BYTES = "no bytes that it moved were counted"
TOOK_NO_TIME = "it took no time"
LIBRARIES_IDLE = "no oneDNN or MKL kernels ran here"
NOT_WRAPPED = "not started by `roofline-agent run`: no kernels"
GPU_NOT_RECORDED = (
    "nothing recorded the kernels of its GPU: `roofline-agent run --ncu` or `--trace`, or `roofline-client "
    "trace`, does"
)
NO_SAMPLED_STEP = (
    "kernels are recorded in a sample of steps, and no such step was seen; `run --kernels all` records all"
)


def ran_backwards(amount: float, unit: str) -> str:
    return f"{quantity(amount, unit)}: a counter ran backwards"


# -- counters -----------------------------------------------------------------------------------------------

NOT_SAMPLED = "its process was not sampled"
NO_CONNECTIONS = "its connections were not counted"
BETWEEN_SAMPLES = "no step lies between two samples"
READ_ONCE = "read once only"
NO_DRAM_COUNTER = "no DRAM counter was read"
NO_ENERGY_COUNTER = "no energy counter was read"
NO_DRAM_TRAFFIC = "no DRAM traffic"
NO_TIME = "no time"
NO_HBM = "its kernels ran on a GPU, and nothing counted the traffic of its memory: `run --ncu` does"
NO_GPU_ENERGY = "its kernels ran on a GPU whose energy was not read, or that it shares"
NO_ENERGY_OF_PARTS = "the energy of single parts is not known"

# -- sources ------------------------------------------------------------------------------------------------

NO_AGENT = "only its coordinator reported it: no agent watches its process"
NOT_IN_FILES = "the recorded files do not have it, or not for this rank"


def not_configured(source: str) -> str:
    return f"source {source} is not configured"


def no_source(what: str) -> str:
    return f"no source on this node reads {what}"


def not_shared_out(what: str) -> str:
    return f"{what} was read, but there are no steps, or no CPU times, to share it out by"


def nothing_reads(what: str, sources: Sequence[tuple[str, str]]) -> str:
    """sources: (name, why it does not work)."""
    states = "; ".join(f"{name}: {why}" for name, why in sources)
    return f"nothing reads {what} on this node ({states})"


# -- places -------------------------------------------------------------------------------------------------

PLACE_UNKNOWN = "it is not known where it ran"

# -- clocks -------------------------------------------------------------------------------------------------

NO_CLOCK = "no agent's clock is in it: recorded files have their own"
NO_PING = "no ping of this node was answered yet"
NO_PING_IN_TIME = "steps were stored before a ping of this node was answered"
