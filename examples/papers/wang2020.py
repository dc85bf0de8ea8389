"""Wang, Yang, Farrell, Zhang, Kurth, Williams 2020: time-based roofline (arXiv 2009.04598).

The abstract was read; figures are those of the tables that the authors published with their code (V100, FP32,
batch 16, 64 filters of 3 x 3; LSTM with 16 hidden units). PyTorch 1.5 where nothing else is said.
"""

from __future__ import annotations

from itertools import pairwise
from math import log

from judging import (
    FIGURE,
    READ,
    Claim,
    Job,
    Jobs,
    Judged,
    collect,
    holds,
    never,
    percent,
    series,
    times,
)
from points import SWEPT

TITLE = "Time-based roofline (Wang et al. 2020)"
CLAIMS: list[Claim] = []
claim = collect(CLAIMS)

FORWARD, WEIGHTS, DATA = (
    f"convolution {x}" for x in ("forward_training", "backward_weights", "backward_data")
)
RNN, RNN_BACK = "rnn forward_training", "rnn backward"
NO_GPU = "no GPU was at hand"
FRAMEWORKS = ("torch", "tensorflow")


def kernel(jobs: Jobs, kind: str, name: str, size: int, framework: str = "torch") -> Job:
    return jobs(f"{kind}-{name}", framework=framework, layer=kind, **{name: size})


def swept(jobs: Jobs, kind: str, name: str, framework: str = "torch") -> list[Job]:
    return [kernel(jobs, kind, name, size, framework) for size in SWEPT[kind][name]]


def of(jobs: list[Job], what: str, operation: str = FORWARD) -> list[float]:
    return [job[f"time.{operation}.{what}"] for job in jobs]


def intensity(jobs: list[Job], operation: str = FORWARD) -> list[float]:
    return [f / b for f, b in zip(of(jobs, "flops", operation), of(jobs, "bytes", operation), strict=True)]


def speed(jobs: list[Job], operation: str = FORWARD) -> list[float]:
    return [f / t for f, t in zip(of(jobs, "flops", operation), of(jobs, "time", operation), strict=True)]


def slope(sizes: tuple[int, ...], times_: list[float]) -> float:
    """Of the logarithms, from the first to the last: 1 is in proportion."""
    return log(times_[-1] / times_[0]) / log(sizes[-1] / sizes[0])


def rising(numbers: list[float]) -> bool:
    return all(a < b for a, b in pairwise(numbers))


def short(number: float) -> str:
    return f"{number:.3g}"


def gflops(flops_per_second: float) -> str:
    return f"{flops_per_second / 1e9:.3g}"


@claim(
    "abstract",
    "FLOP/s alone mislead: a kernel with more of them may take longer; work and time belong in one plane",
    "-",
    READ,
)
def more_flops_take_longer(jobs: Jobs) -> Judged:
    found = swept(jobs, "conv2d", "filters")
    first, last = found[0], found[-1]
    faster, longer = speed([last])[0] / speed([first])[0], of([last], "time")[0] / of([first], "time")[0]
    sizes = SWEPT["conv2d"]["filters"]
    return holds(
        faster > 1 and longer > 1,
        f"{sizes[0]} to {sizes[-1]} filters: {times(faster)} the FLOP/s, {times(longer)} the time",
    )


@claim(
    "machine",
    "A launch has a cost of its own, so n launches take at least n times that",
    "4.2 us on a V100",
    FIGURE,
)
def launch_overhead(jobs: Jobs) -> Judged:
    cost = kernel(jobs, "lstm", "batch", 16)["launch_overhead"]
    return holds(1e-7 < cost < 1e-4, f"{1e6 * cost:.2f} us: one PyTorch operation on this CPU (measured)")


@claim(
    "Conv2D by batch",
    "FLOPs, bytes and time grow in proportion to the batch; intensity stays",
    "16 to 64: FLOPs x3.99, time x3.65",
    FIGURE,
)
def by_batch(jobs: Jobs) -> Judged:
    sizes, found = SWEPT["conv2d"]["batch"], swept(jobs, "conv2d", "batch")
    steep, kept = slope(sizes, of(found, "time")), intensity(found)[-1] / intensity(found)[1]
    ours = f"slope of the time {steep:.2f}; intensity from batch 16 on x{kept:.2f}"
    return holds(
        0.8 <= steep <= 1.15 and 0.85 < kept < 1.15, ours, f"GFLOP/s by batch: {series(speed(found), gflops)}"
    )


@claim(
    "Conv2D by filters",
    "FLOPs grow in proportion, bytes by less: intensity and FLOP/s rise",
    "64 to 512: FLOPs x8.00, time x7.12",
    FIGURE,
)
def by_filters(jobs: Jobs) -> Judged:
    found = swept(jobs, "conv2d", "filters")
    ours = f"FLOP/byte {series(intensity(found), short)}; GFLOP/s {series(speed(found), gflops)}"
    return holds(rising(intensity(found)) and rising(speed(found)), ours)


@claim("Conv2D by filters", "The same in TensorFlow", "TF 1: time x3.18 for FLOPs x8.00", FIGURE)
def by_filters_in_tensorflow(jobs: Jobs) -> Judged:
    found = swept(jobs, "conv2d", "filters", "tensorflow")
    ours = f"FLOP/byte {series(intensity(found), short)}; GFLOP/s {series(speed(found), gflops)}"
    return holds(rising(intensity(found)) and rising(speed(found)), ours)


@claim(
    "Conv2D by kernel size",
    "FLOPs grow with the square of it, bytes hardly: intensity rises steeply",
    "3 to 7: FLOPs x5.04, time x4.65",
    FIGURE,
)
def by_kernel_size(jobs: Jobs) -> Judged:
    found = swept(jobs, "conv2d", "kernel")
    flops = of(found, "flops")
    grown = f"FLOPs x{flops[1] / flops[0]:.3g}, x{flops[2] / flops[0]:.3g}"
    ours = f"{grown}; FLOP/byte {series(intensity(found), short)}"
    return holds(rising(intensity(found)) and rising(flops), ours)


@claim("Conv2D by kernel size", "From 3 on time follows FLOPs", "3 to 7: 5.04 and 4.65", FIGURE)
def time_follows_flops(jobs: Jobs) -> Judged:
    found = swept(jobs, "conv2d", "kernel")[1:]
    flops, taken = (of(found, name)[1] / of(found, name)[0] for name in ("flops", "time"))
    return holds(0.7 < taken / flops < 1.3, f"FLOPs x{flops:.2f}, time x{taken:.2f}")


@claim(
    "Conv2D by stride",
    "A larger stride has fewer outputs: FLOPs and intensity fall",
    "2 to 3: FLOPs x0.454, time x0.586",
    FIGURE,
)
def by_stride(jobs: Jobs) -> Judged:
    found = swept(jobs, "conv2d", "stride")
    flops = of(found, "flops")
    fallen = f"FLOPs x{flops[1] / flops[0]:.3f}, x{flops[2] / flops[0]:.3f}"
    ours = f"{fallen}; FLOP/byte {series(intensity(found), short)}"
    return holds(rising(flops[::-1]) and rising(intensity(found)[::-1]), ours)


@claim("Conv2D by stride", "Time falls by less than FLOPs", "2 to 3: 0.586 against 0.454", FIGURE)
def stride_time(jobs: Jobs) -> Judged:
    found = swept(jobs, "conv2d", "stride")
    flops, taken = (of(found, name)[2] / of(found, name)[0] for name in ("flops", "time"))
    return holds(taken > flops, f"1 to 3: FLOPs x{flops:.3f}, time x{taken:.3f}")


claim(
    "Conv2D, algorithm",
    "Counted FLOPs may be fewer than the formula's (Winograd)",
    "7.0 of 14.8 GFLOP",
    FIGURE,
)(never("no hardware counters here: FLOPs are those of the shapes, whatever the algorithm"))


@claim(
    "Conv2D backward",
    "The gradient of the weights has forward's FLOPs and takes longer",
    "x1.00, 1.5 times the time",
    FIGURE,
)
def weights_gradient(jobs: Jobs) -> Judged:
    found = swept(jobs, "conv2d", "batch")[1:]
    flops = of(found, "flops", WEIGHTS)[0] / of(found, "flops")[0]
    taken = sum(of(found, "time", WEIGHTS)) / sum(of(found, "time"))
    there = swept(jobs, "conv2d", "batch", "tensorflow")[1:]
    in_tensorflow = sum(of(there, "time", WEIGHTS)) / sum(of(there, "time"))
    speeds = [series(speed(found, operation), gflops) for operation in (FORWARD, WEIGHTS)]
    return holds(
        abs(flops - 1) < 0.01 and taken >= 1,
        f"FLOPs x{flops:.3f}, time x{taken:.2f} (TensorFlow x{in_tensorflow:.2f})",
        "in PyTorch both kernels are oneDNN's and about as fast: at batch 16 and 64 "
        f"{speeds[0]} and {speeds[1]} GFLOP/s",
    )


@claim(
    "Conv2D, frameworks",
    "TensorFlow needs longer than PyTorch; the more work there is, the less",
    "2.7 times at 64 filters, 1.2 at 512",
    FIGURE,
)
def frameworks_of_convolution(jobs: Jobs) -> Judged:
    sizes = SWEPT["conv2d"]["filters"]
    ratios = [
        _step(kernel(jobs, "conv2d", "filters", n, "tensorflow"))
        / _step(kernel(jobs, "conv2d", "filters", n))
        for n in sizes
    ]
    ours = f"whole step at {', '.join(map(str, sizes))} filters: {series(ratios, '{:.2f}x'.format)}"
    copied = [
        [1e3 * kernel(jobs, "conv2d", "filters", n, f).get("kernel.reorder") for n in sizes]
        for f in FRAMEWORKS
    ]
    ms = [series(numbers, "{:.0f}".format) for numbers in copied]
    why = f"PyTorch copies tensors into the layout of oneDNN and back: {ms[0]} ms a step in reorders"
    return holds(ratios[0] > 1 and ratios[-1] < ratios[0], ours, f"{why}, TensorFlow {ms[1]} ms")


def _step(job: Job) -> float:
    return job["worker.step_time_median"]


claim(
    "auto-tuning",
    "The choice of cuDNN's algorithm decides, by default or by benchmark",
    "1.248 against 0.254 ms",
    FIGURE,
)(never(NO_GPU))
claim(
    "tensor cores",
    "FP16 on tensor cores is far from the ratio of the peaks; more filters bring it nearer",
    "1.60x, 3.39x of 7.0",
    FIGURE,
)(never(NO_GPU))


def _time_in_kernels(job: Job) -> float:
    return sum(job.like("kernel.").values())


def _launching(job: Job) -> float:
    """Launches times their overhead, over the time of all kernels."""
    return _launches(job) * job["launch_overhead"] / _time_in_kernels(job)


def _launches(job: Job) -> float:
    return sum(n for name, n in job.like("time.").items() if name.endswith(".launches"))


@claim("LSTM by sequence length", "Time grows in proportion to the steps", "16 to 128: x7.4", FIGURE)
def by_length(jobs: Jobs) -> Judged:
    sizes = SWEPT["lstm"]["length"]
    found = {
        f: slope(sizes, [_time_in_kernels(j) for j in swept(jobs, "lstm", "length", f)]) for f in FRAMEWORKS
    }
    return holds(
        all(0.8 < x < 1.2 for x in found.values()),
        f"slope: PyTorch {found['torch']:.2f}, TensorFlow {found['tensorflow']:.2f}",
    )


@claim(
    "LSTM by hidden size",
    "A small one costs nearly the same time as one of eight times the size: overhead",
    "16 to 128: FLOPs x15.2, time x1.14",
    FIGURE,
)
def by_hidden(jobs: Jobs) -> Judged:
    small, large = (kernel(jobs, "lstm", "hidden", n, "tensorflow") for n in SWEPT["lstm"]["hidden"][:2])
    flops, taken = (
        large["worker.flops_per_step"] / small["worker.flops_per_step"],
        _step(large) / _step(small),
    )
    sizes = SWEPT["lstm"]["hidden"]
    return holds(
        taken < 0.5 * flops, f"TensorFlow, {sizes[0]} to {sizes[1]}: FLOPs x{flops:.3g}, step x{taken:.2f}"
    )


@claim("LSTM by batch", "Time grows by less than the batch", "16 to 128: FLOPs x9.2, time x1.50", FIGURE)
def by_lstm_batch(jobs: Jobs) -> Judged:
    sizes, found = SWEPT["lstm"]["batch"], swept(jobs, "lstm", "batch")
    steep = slope(sizes, [_time_in_kernels(j) for j in found])
    return holds(
        steep < 0.9,
        f"slope {steep:.2f} from batch {sizes[0]} to {sizes[-1]}",
        f"launches take {percent(_launching(found[0]))} of the kernels' time at batch {sizes[0]}",
    )


@claim(
    "LSTM by features",
    "More features cost less time than they add FLOPs",
    "32 to 128: FLOPs x1.7, time x1.04",
    FIGURE,
)
def by_features(jobs: Jobs) -> Judged:
    small, large = swept(jobs, "lstm", "features")
    flops = large["worker.flops_per_step"] / small["worker.flops_per_step"]
    taken = _time_in_kernels(large) / _time_in_kernels(small)
    return holds(taken < flops, f"64 to 256: FLOPs x{flops:.2f}, kernels x{taken:.2f}")


@claim("LSTM", "It is far from the peak, farther than a convolution", "0.02 to 1.2 % of the peak", FIGURE)
def lstm_far_from_peak(jobs: Jobs) -> Judged:
    lstm, convolution = (
        kernel(jobs, "lstm", "hidden", 16)["worker.roof_share"],
        kernel(jobs, "conv2d", "batch", 16)["worker.roof_share"],
    )
    return holds(
        lstm < 0.1 and lstm < convolution,
        f"16 hidden units: {percent(lstm)} of the roof; Conv2D {percent(convolution)}",
    )


@claim(
    "LSTM, frameworks",
    "PyTorch's fused LSTM takes a fraction of TensorFlow's time, with fewer launches",
    "1/4 to 1/5; 38 against 277 launches",
    FIGURE,
)
def frameworks_of_lstm(jobs: Jobs) -> Judged:
    torch, tensorflow = (kernel(jobs, "lstm", "length", 32, f) for f in FRAMEWORKS)
    taken, calls = _step(tensorflow) / _step(torch), (_launches(torch), _launches(tensorflow))
    return holds(
        taken > 1 and calls[0] < calls[1],
        f"TensorFlow's step takes {times(taken)}; {calls[0]:.0f} against {calls[1]:.0f} calls",
    )


@claim("LSTM backward", "Forward and backward take 2.2 to 2.5 times forward alone", "x2.2 to x2.5", FIGURE)
def lstm_backward(jobs: Jobs) -> Judged:
    sizes, found = SWEPT["lstm"]["hidden"], swept(jobs, "lstm", "hidden")
    ratios, flops = (
        [1 + b / f for b, f in zip(of(found, what, RNN_BACK), of(found, what, RNN), strict=True)]
        for what in ("time", "flops")
    )
    return holds(
        all(1.98 < x < 2.75 for x in ratios),
        f"kernels of {', '.join(map(str, sizes))} hidden units: {series(ratios, '{:.2f}x'.format)}",
        f"the FLOPs are {flops[-1]:.1f} times forward's, which large layers come near to here; a small one's "
        "time is overhead",
    )


claim(
    "LSTM, FP16",
    "Lower precision does not help a kernel that is bound by overhead",
    "0.232 against 0.213 ms",
    FIGURE,
)(never(NO_GPU))
