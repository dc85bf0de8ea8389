"""What a path under a roof shows, what jobs of an experiment differ in, and what cannot be compared.

A path is read as by Ibrahim, Williams, Oliker (2018): a point that sinks at the same intensity uses less of
the machine; one that goes to the left moves more bytes for the same work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from roofline.texts import listed

from .wording import enumerated, many, number, quantity, title

# -- a path -------------------------------------------------------------------------------------------------

NO_POINT = "no stop has a point"
WAITS_MORE = "as much work for its bytes, but it waits more, has more overhead, or fewer ranks do it there"
STAYS = "it stays where it is"
MORE_BYTES = "more bytes for each FLOP"
MORE_BYTES_ALONG_ROOF = f"{MORE_BYTES}, along its roof"
MORE_BYTES_BELOW_ROOF = f"{MORE_BYTES}, and farther below its roof"


class Change(NamedTuple):
    """A number from the first stop to the last. trend: 1 it rises, -1 it falls, 0 it stays.

    peak, dip: the stop between, and its number, at which it is above, or below, both ends."""

    first: float
    last: float
    trend: int
    peak: tuple[str, float] | None = None
    dip: tuple[str, float] | None = None


def one_value(over: str) -> str:
    return f"one value of {over} only: a path needs two"


def one_point(at: str) -> str:
    return f"only {at} has a point"


def moves(
    over: str, ends: tuple[str, str], where: str, reached: Change, intensity: Change, meaning: str
) -> str:
    """ends: values of the parameter at the first and the last stop; where: "GPU", "node", "GPU or node"."""
    text = (
        f"from {over} {ends[0]} to {ends[1]} FLOP/s per {where} {_change(reached, 'FLOP/s')} "
        f"while intensity {_change(intensity, 'FLOP/byte')}"
    )
    return f"{text}: {meaning}" if meaning else text


def _change(change: Change, unit: str) -> str:
    first, last = quantity(change.first, unit), quantity(change.last, unit)
    if change.trend == 0:
        text = f"stays at {first}"
    else:
        text = f"{'rises' if change.trend > 0 else 'falls'} from {first} to {last}"
    if change.peak:
        text += f" over {quantity(change.peak[1], unit)} at {change.peak[0]}"
    if change.dip:
        text += f" through {quantity(change.dip[1], unit)} at {change.dip[0]}"
    return text


def throughput(first: float, last: float, unit: str, last_unit: str, speedup: float) -> str:
    return f"throughput goes from {number(first)} {unit} to {number(last)} {last_unit}, {number(speedup)}x"


def scaling(throughput: str, efficiency: float, over: str, at: str) -> str:
    return f"{throughput} ({efficiency:.0%} scaling efficiency at {over} {at})"


# -- why there is no speedup or efficiency ------------------------------------------------------------------

NO_FIRST_THROUGHPUT = "the first job has no throughput"
STEPS_ONLY = "throughput is in steps, and the number of examples per step is not known: it may be more work"
NO_EFFICIENCY: Mapping[str, str] = {  # by parameter
    "ps": "adding parameter servers adds no compute",
    "batch": "a larger batch uses no more hardware: see speedup and FLOP/s",
    "ranks_per_node": "ranks of one node share its cores: more of them use no more hardware",
}


def other_unit(unit: str, first: str) -> str:
    return f"throughput is in {unit}, that of the first job in {first}"


def no_resource(over: str, resources: Iterable[str]) -> str:
    return f"{over} is not known to be an amount of resources; these are: {', '.join(sorted(resources))}"


def no_number(over: str) -> str:
    return f"{over} is no number above zero at every stop"


# -- jobs ---------------------------------------------------------------------------------------------------

STILL_RUNS = "still running: the numbers will change"
NOTHING_KNOWN = "neither steps nor FLOPs are known"


def failed(how: str, steps: int) -> str:
    """how: "failed: worker:1 exited with 1 after step 3"; steps: of how many its numbers are."""
    return f"{how}: its numbers are of {many(steps, 'step')}"


def failed_beside_others(how: str, over: str, at: str) -> str:
    """how: see `failed`."""
    return f"{how}: left out of {over} {at}, where another job did not fail"


def of_jobs(jobs: Sequence[str], note: str) -> str:
    """The same note of one job or of several."""
    if len(jobs) == 1:
        return f"job {jobs[0]}: {note}"
    return f"jobs {listed(jobs)}: {note}"


def no_role(role: str) -> str:
    return f"no rank is a {role}"


def left_out(role: str, why: str) -> str:
    return f"left out for {role}: {why}"


# -- the parameter ------------------------------------------------------------------------------------------

NO_HOSTS = "no agent saw the ranks"
NOBODY_TRAINS = "no rank trains"
NO_THREADS = "the ranks were started without OMP_NUM_THREADS"


def different_threads(threads: Iterable[str]) -> str:
    return f"the ranks have different OMP_NUM_THREADS: {', '.join(threads)}"


def no_tag(tag: str) -> str:
    return f"no tag {tag!r}"


def tag_against_count(over: str, tag: str, counted: str) -> str:
    of = " examples a step and rank" if over == "batch" else ""
    return f"the tag says {over} {tag}, the count is {counted}{of}: the tag is used"


def tag_of_some(over: str, without: Sequence[str]) -> str:
    return f"{over} is a tag of some jobs and counted of the others: {', '.join(without)}"


# -- what compares ------------------------------------------------------------------------------------------


def differing_tag(tag: str, values: Iterable[str]) -> str:
    return f"{tag} ({', '.join(values)})"


def pooled(over: str, at: str, jobs: Sequence[str], differ: Sequence[str]) -> str:
    """differ: of `differing_tag`."""
    return (
        f"{over} {at}: jobs {enumerated(jobs)} are pooled though they differ in {', '.join(differ)}: name "
        "jobs that are alike"
    )


def over_tensor_bytes(role: str) -> str:
    return (
        f"{role}: main memory's traffic was not counted in every job, or as fewer cache misses than its "
        "tensors have bytes: intensity is over tensor bytes"
    )


_ORIGINS = {"analytic": "computed from shapes"}


def mixed_origins(role: str, origins: Sequence[tuple[str, Sequence[str]]]) -> str:
    """origins: (provenance of FLOPs, the jobs where they have it)."""
    each = ", ".join(f"{_ORIGINS.get(origin, origin)} in {listed(jobs)}" for origin, jobs in origins)
    return f"{role}: FLOPs are known in several ways: {each}"


def mixed_precisions(role: str, over: str, at: str, precisions: Sequence[tuple[str, str]]) -> str:
    """precisions: (job, its precision)."""
    each = ", ".join(f"{job} {title(precision)}" for job, precision in precisions)
    return f"{role} at {over} {at}: jobs of different precisions are pooled: {each}"


def single_steps(role: str, over: str, at: str, jobs: Sequence[str]) -> str:
    if len(jobs) == 1:
        contribute = f"job {jobs[0]} contributes a single step"
    else:
        contribute = f"jobs {enumerated(jobs)} contribute a single step each"
    return f"{role} at {over} {at}: {contribute} to the pooled numbers"


def other_roof(host: str, lines: Sequence[str], drawn: str, drawn_job: str) -> str:
    """lines: labels of the ceilings that differ; drawn: whose roof is drawn."""
    return (
        f"the roof drawn is that of {drawn} in job {drawn_job}, but {host} has {', '.join(lines)}: "
        "attainable FLOP/s use each job's own roof"
    )


STEADY_STEPS = "of each job its steady steps: warm-up is left out; --steps all has every step"
