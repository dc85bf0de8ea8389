"""Holds the sources of this node against the truth: which can be, and with what result."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from .. import __version__
from ..calibrate.compiled.compiler import CompiledLibrary
from ..calibrate.errors import CalibrationError
from ..calibrate.hardware import this_hardware
from ..calibrate.interference import cpu_times, taken_by_others
from ..calibrate.kernel_sets import library_for
from ..machine import read_machine
from ..records import Rank, Source, SourceSettings, SourceStatus
from ..sampler import Sampler
from . import by_ncu
from .child.done import Cannot
from .errors import ValidationError
from .marked import MarkedSteps
from .peer import TcpPeer
from .runner import Result, WorkRunner
from .software import SoftwarePerf
from .validation import Check, Unchecked, Validation
from .worker import WorkingChild
from .works import HOOKS, NCU, ON_GPU, SOFTWARE, TRAFFIC, WORKS, KnownWork, flop_works, possible

# Of which no amount is known.
NO_TRUTH = {
    "dcgm": "its values are those of the last half minute; the driver's own are checked as source gpu"
}


class ValidateRequest(NamedTuple):
    """What is to be checked."""

    sources: Mapping[str, Source]
    only: tuple[str, ...]  # names of sources; none: all
    repeats: int
    settings: SourceSettings
    state: Path  # where files are written that storage is checked by


def validate(
    request: ValidateRequest, show: Callable[[Result], None], progress: Callable[[str], None]
) -> Validation:
    """Some minutes of works. show: gets each result as it is known. Raises ValidationError, Unavailable."""
    machine, cpus = read_machine(), tuple(sorted(os.sched_getaffinity(0)))
    before = cpu_times(cpus)
    checks: list[Check] = []
    unchecked: list[Unchecked] = []
    notes: list[str] = []

    def keep(results: Iterable[Result]) -> None:
        for one in results:
            (checks if isinstance(one, Check) else unchecked).append(one)  # type: ignore[arg-type]
            show(one)

    with ExitStack() as stack:
        place = stack.enter_context(_place(request.state))
        sources = _sources(request, place.socket)
        progress("looking which sources work")
        sampler = Sampler(sources)
        stack.callback(sampler.close)
        keep(_off(sampler.statuses, time.time_ns()))
        library = stack.enter_context(_library(notes))
        environment = {"ROOFLINE_SOCKET": str(place.socket), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        child = WorkingChild(place.folder, place.port, lambda: time.sleep(0.01), library, environment)
        stack.enter_context(closing(child))
        metrics = _metrics(sampler.statuses, sources)
        works = possible(_works(child, metrics, notes), metrics, request.only)
        rank = Rank("validate", "worker", 0, child.pid, 1, uid=os.getuid())
        runner = WorkRunner(sampler, rank, works)
        child.pause = runner.pause
        for work in works:
            keep(runner.run(work, child, _units(sources), request.repeats, progress))
        keep(_without_work(works, metrics, time.time_ns()))
    if not request.only or NCU in request.only:
        keep(by_ncu.check(request.settings.environ, request.repeats, progress, time.time_ns))
    return Validation(
        machine.host,
        machine.cpu_model,
        machine.kernel,
        __version__,
        time.time_ns(),
        request.repeats,
        tuple(checks),
        tuple(unchecked),
        tuple(notes),
        taken_by_others(before, cpu_times(cpus)),
    )


class _Place(NamedTuple):
    folder: Path  # on the storage that is checked
    socket: Path
    port: int


@contextmanager
def _place(state: Path) -> Iterator[_Place]:
    """Removed at the end."""
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (
            tempfile.TemporaryDirectory(prefix="validate-", dir=state) as folder,
            # Paths of sockets are short.
            tempfile.TemporaryDirectory(prefix="roofline-") as short,
            closing(TcpPeer()) as peer,
        ):
            yield _Place(Path(folder), Path(short) / "marks", peer.port)
    except OSError as error:
        raise ValidationError(f"nothing can be checked here: {error}") from error


@contextmanager
def _library(notes: list[str]) -> Iterator[CompiledLibrary | None]:
    """Compiled kernels where machine code cannot be made; a note where there is no compiler either."""
    with ExitStack() as stack:
        library = None
        try:
            library = stack.enter_context(library_for(this_hardware()))
        except CalibrationError as error:
            notes.append(f"no kernels of known FLOPs and bytes: {error}")
        yield library


def _sources(request: ValidateRequest, socket: Path) -> dict[str, Source]:
    """Those that are asked for, and what is checked in addition to them."""
    found = dict(request.sources)
    if not request.only or HOOKS in request.only:
        found[HOOKS] = MarkedSteps(socket)
    if not request.only or SOFTWARE in request.only:
        found[SOFTWARE] = SoftwarePerf(request.settings)
    return found


def _off(statuses: Iterable[SourceStatus], now_ns: int) -> Iterator[Unchecked]:
    for one in statuses:
        if not one.works:
            yield Unchecked(one.name, "", one.reason, one.advice, now_ns)
        elif one.name in NO_TRUTH:
            yield Unchecked(one.name, "", NO_TRUTH[one.name], time_ns=now_ns)


def _metrics(statuses: Iterable[SourceStatus], sources: Mapping[str, Source]) -> dict[str, tuple[str, ...]]:
    """Of each source that works; perf knows its own only when it has been probed."""
    return {
        one.name: tuple(metric.name for metric in sources[one.name].counter_set.metrics)
        for one in statuses
        if one.works
    }


def _units(sources: Mapping[str, Source]) -> dict[tuple[str, str], str]:
    return {
        (name, metric.name): metric.unit
        for name, source in sources.items()
        for metric in source.counter_set.metrics
    }


def _works(child: WorkingChild, metrics: Mapping[str, Sequence[str]], notes: list[str]) -> list[KnownWork]:
    found = [*WORKS, *TRAFFIC, *ON_GPU]
    if any(name.startswith("flops.") or name == "instructions" for name in metrics.get("perf", ())):
        try:
            found += flop_works(child.forms())
        except Cannot as error:
            notes.append(f"no kernels of known FLOPs: {error}")
    return found


def _without_work(
    works: Iterable[KnownWork], metrics: Mapping[str, Sequence[str]], now_ns: int
) -> Iterator[Unchecked]:
    """The metrics that no work shows, a line for each source."""
    shown = {(one.source, one.metric) for work in works for one in work.expectations}
    for source, names in metrics.items():
        left = [name for name in names if (source, name) not in shown and not name.endswith(".coverage")]
        if left and source not in NO_TRUTH:
            yield Unchecked(source, ", ".join(left), "no work of a known amount is done for it", "", now_ns)
