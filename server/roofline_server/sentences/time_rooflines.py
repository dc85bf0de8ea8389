"""The time-based roofline: what decides how long something takes, and what has no place in the plane."""

from __future__ import annotations

from collections.abc import Sequence

from .wording import are, duration, many, number, place, two_digits

# -- verdicts -----------------------------------------------------------------------------------------------

LAUNCHING = "bound by launching: it takes no longer than starting its kernels costs; make fewer, larger ones"
COMPUTE_PEAK, MEMORY_PEAK = "peak FLOP/s", "peak bandwidth"
LOWER_PRECISION = "only a lower precision makes it faster"
MOVE_LESS = "move less, or fuse it"


def above_peak(share: float, peak: str) -> str:
    return (
        f"{two_digits(share)} times what {_whole(peak)} allows: caches save traffic that was counted, or the "
        "ceiling was measured too low"
    )


def part_of_peak(peak: str, parts: float) -> str:
    """ "its half of the node's peak FLOP/s"."""
    part = "half" if parts == 2 else f"part (1/{number(parts)})"
    return f"its {part} of the shared {peak}"


def _whole(peak: str) -> str:
    return peak if peak.startswith("its ") else f"the {peak}"


def far_below(share: float, peak: str) -> str:
    return f"{two_digits(1 / share)} times slower than {_whole(peak)} allows: something else limits it"


def bound_by(what: str, share: float, peak: str, advice: str) -> str:
    """what: "computing", "moving data"."""
    text = f"bound by {what}, at {two_digits(100 * share)} % of {_whole(peak)}"
    return f"{text}: {advice}" if advice else text


def perhaps(bound: str) -> str:
    return f"at best {bound}, unless few threads, small kernels or stalls limit it"


def faster(share: float, same: str) -> str:
    """same: "FLOPs", "bytes"."""
    return f"{two_digits(1 / share)} times faster would be possible with the same {same}"


def by_median(verdict: str, what: str, factor: float) -> str:
    """what: "calls", "steps"; factor: of the mean over the median."""
    mean = f"a few {what} took much longer, and the mean is {number(factor)} times that"
    return f"{verdict}; judged by the median: {mean}"


# -- what is drawn ------------------------------------------------------------------------------------------

ONE_LAUNCH = "1 launch"
RECORDED_ALONE = (
    "launches of a step are calls of oneDNN and MKL: what else the framework starts is not counted"
)
FOR_KERNELS_ONLY = "counted where points are kernels"


def launches_of_step(launches: int, role: str, job: str) -> str:
    """job "": there is one."""
    of_job = f", job {job}" if job else ""
    return f"{many(launches, 'launch')} ({role}, a step{of_job})"


def jobs_added(jobs: int, per: str) -> str:
    return f"{jobs} jobs added up; of each {per}"


# -- what is of steps ---------------------------------------------------------------------------------------

ONE_STEP = "of one step"
UNCOUNTED_KERNELS = "FLOPs of some kernels (pooling, normalisation, ...) are not counted"


def mean_of_steps(steps: int) -> str:
    return f"mean of {steps:,} steps"


def replayed(steps: str) -> str:
    return f"{steps} that ncu replayed; time: the mean of the others"


# -- notes --------------------------------------------------------------------------------------------------


def no_precision(host: str) -> str:
    return f"{host}: these compute in a precision that is not known: no peak to compare them with"


def shared_peaks(ranks: int, host: str, device: str) -> str:
    return f"{ranks} ranks share the peaks of {place(host, device)}: one alone does not reach them"


def points_left_out(points: int, share: float) -> str:
    return f"{are(points, 'more point')} left out, {share:.1%} of the time"


def no_place(host: str, device: str, points: str, why: str, names: Sequence[str], seconds: float) -> str:
    """points: "kernel", "step"; why: "bytes are zero"."""
    some = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    where = place(host, device)
    return f"{where}: {points}s whose {why} have no place: {some} ({duration(seconds)})"


def only_without_flops(host: str, device: str, launches: float, seconds: float) -> str:
    kernels = f"{many(launches, 'kernel')} without FLOPs took {duration(seconds)}"
    return f"{place(host, device)}: {kernels}, and there are no others"


def no_launch_overhead(host: str, device: str) -> str:
    return (
        f"no launch overhead of {place(host, device)} was measured, so there is no overhead box: run "
        "`roofline-agent calibrate --python PATH` there (PATH: the Python of the training)"
    )


def kernels_outside(kernels: int) -> str:
    they = "it" if kernels == 1 else "they"
    where = "outside these steps, or in steps that were only partly watched"
    return f"{are(kernels, 'kernel')} left out: {they} ran {where}"


def _nothing_found(what: str) -> str:
    return f"no {what}; start ranks with `roofline-agent run -- CMD`, on GPUs with --ncu or --trace"


NO_KERNELS = _nothing_found("kernels were recorded")
NO_STEPS = _nothing_found("step of a rank has FLOPs")


def on_no_line(why: str) -> str:
    return f"on no sweep line: {why}"


def role_of(job: str, role: str) -> str:
    """Whose note it is: a role's, of a job."""
    return f"{job}, {role}"


def other_shapes(left_out: int) -> str:
    left = "1 is left out" if left_out == 1 else f"{left_out} are left out"
    return f"of kernels that differ in their shapes alone, the one that took most time is shown; {left}"


def ceilings_changed(host: str, job: str) -> str:
    return f"ceilings of {host} changed between these jobs: those of {job} are drawn"
