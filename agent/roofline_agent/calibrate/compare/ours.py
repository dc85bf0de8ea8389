"""What our own kernels do in a comparison: the same tests as the other tools, as often."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack

from roofline_agent.calibrate.bandwidth import Arena, arena
from roofline_agent.calibrate.hardware import this_hardware
from roofline_agent.calibrate.kernel_sets import kernel_set, library_for
from roofline_agent.calibrate.peak import peak_job
from roofline_agent.calibrate.probe import Bench
from roofline_agent.calibrate.runs import NORMAL, measure_rate

# As often as the others run, in runs as long as a product of matrices or a pass through memory.
_PLAN = NORMAL._replace(run_s=0.05, repeats=5, patient=False)


def serve(size: int, requests: Iterable[str]) -> Iterator[float]:
    """The best rate for each test asked for: "normal", "non-temporal", "read", "f32" or "f64".

    size: bytes of the working set, over all CPUs. Raises CalibrationError.
    """
    hardware = this_hardware()
    with library_for(hardware) as library:
        bench = Bench(hardware, kernel_set(hardware, library))
        with arena(bench, _PLAN, hardware.cpus, size) as place:
            for request in requests:
                test = request.strip()
                yield _peak(bench, test) if test in ("f32", "f64") else _memory(place, test)


def _peak(bench: Bench, precision: str) -> float:
    """Of the widest vectors, or of narrower ones where these are faster."""
    cpus, rates = bench.hardware.cpus, []
    for form in bench.kernels.forms(precision)[-2:]:
        with ExitStack() as stack:
            job = peak_job(bench, stack, bench.kernels.peak_kernel(form), cpus)
            rates.append(measure_rate(cpus, _PLAN, job).best)
    return max(rates)


def _memory(place: Arena, test: str) -> float:
    operation = "read" if test == "read" else "triad"
    size = place.buffers[0].size
    return place.rate(place.kernel(operation, test == "non-temporal", size), size, _PLAN).best
