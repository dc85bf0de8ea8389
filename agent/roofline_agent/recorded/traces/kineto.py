"""Reads a PyTorch profiler (Kineto) trace: GPU kernels, copies, collectives, profiler steps, operators.

GPU time and CPU time never add up here: kernels are the GPU's, and have the FLOPs of the operators on the CPU
that launched them (joined.py). Only where a trace has no GPU kernel at all do all operators count, each with
the time that it spends outside the operators it calls, and a warning says so. Times are microseconds,
whatever "displayTimeUnit" is: that is for the viewer (Chrome's Trace Event Format).

On an accelerator of MTIA every event of the device has one category: transfers, waits, and the parts that a
kernel is executed in are phases there, for as kernels they would count twice or count waiting as work.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..collector import Collector
from ..recording import Launch, StepLine, Throughput
from ..text import Text
from .activities import Activities
from .collectives import Collectives
from .cupti import measured
from .joined import KernelLog
from .layers import TracedLayers
from .operators import Operators, flops_of
from .streams import Streams
from .trace import Trace, arguments, number, thread_of

MICROSECOND = 1e-6
_ENDLESS = 1e300
UNIX_US = 1e14  # later than this a time counts from 1970, before it from the node's start
_STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,15})")
_STEPS = "ProfilerStep"
_MTIA_PARTS = re.compile(r"dma|event_|packet|(?:pe|job|cpum)_exe")
_COPY = re.compile(r"Memcpy\s+(\w+)|\b(HtoD|DtoH|DtoD|HtoH|PtoP)\b", re.I)
_SIGNS = re.compile(
    r'"(schemaVersion|deviceProperties|distributedInfo|baseTimeNanoseconds|record_shapes|with_flops)" ?:'
    r'|"cat": ?"(cpu_op|kernel|cuda_runtime|gpu_memcpy|gpu_memset|ac2g|user_annotation|python_function'
    r'|Operator|Kernel|Runtime|cuda_profiler_range)"|ProfilerStep#\d|"pid": ?"(CPU|CUDA) functions"'
)
_KINDS = {
    "operator": "cpu_op",
    "concurrent_kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
}  # what other versions and devices call them, in lower case
_LEGACY = {"CPU functions": "cpu_op", "CUDA functions": "kernel"}  # torch.autograd.profiler, by pid
_LOST = ("kernel", "gpu_memcpy", "gpu_memset")  # CUPTI gives those whose times it lost 0 for both
_LIBRARIES = (("hip", re.compile(r"AMD|Instinct|Radeon")), ("sycl", re.compile(r"Intel")))


def sniff(head: str) -> int:
    """How sure it is that this is a trace of the PyTorch profiler, 0..100."""
    if not head.lstrip().startswith(("[", "{")):
        return 0
    if not _SIGNS.search(head):
        return 0
    return 90 if '"traceEvents"' in head or '"ph"' in head else 40


def read(text: Text, found: Collector, with_layers: bool = False) -> None:
    """Adds kernels, phases and steps; facts: events, rank, world_size, backend, devices, span_s.

    with_layers: launches have the layers that our hooks named. Of a trace without GPU kernels every call of
    an operator is a launch if these are kept, else their sums by name are."""
    found.tool = "pytorch profiler"
    trace = Trace(text, found)
    profile = _Profile(found, trace, with_layers)
    for event in trace.events():
        profile.add(event)
    profile.finish()


class _Profile:
    """The events of one trace, in their order."""

    def __init__(self, found: Collector, trace: Trace, with_layers: bool) -> None:
        self._found = found
        self._trace = trace
        self._activities = Activities()
        self._collectives = Collectives()
        self._layers = TracedLayers() if with_layers else None
        self._operators = Operators(found, self._layers)
        self._log = KernelLog()
        self._streams = Streams()
        self._keeps = found.launches is not None  # sums alone say nothing of sizes
        self._kernels = 0
        self._ranges = 0
        self._kernel_flops = False
        self._zero_us: float | None = None
        self._first_us = float("inf")
        self._last_us = float("-inf")
        self._takers: dict[str, Callable[[dict[str, Any], float, float], None]] = {
            "kernel": self._kernel,
            "gpu_memcpy": self._copy,
            "gpu_memset": self._copy,
            "mtia_ccp_events": self._mtia_event,
            "cpu_op": self._operator,
            "user_annotation": self._annotation,
            "cuda_profiler_range": self._measured_range,
            "cuda_runtime": self._runtime,
            "cuda_driver": self._runtime,
            "hip_runtime": self._runtime,
        }

    def add(self, event: dict[str, Any]) -> None:
        """Takes one event; times of the file are microseconds."""
        if event.get("ph") != "X":
            return
        kind = _kind(event)
        take = self._takers.get(kind)
        at_us, duration_us = event.get("ts"), event.get("dur")
        if type(at_us) is not float or type(duration_us) is not float:
            at_us, duration_us = number(at_us), number(duration_us)
        is_lost = at_us == duration_us == 0 and kind in _LOST
        has_times = at_us is not None and duration_us is not None and _are_times(at_us, duration_us)
        if at_us is None or duration_us is None or not has_times or is_lost:
            if take is not None:
                self._found.warn("an event has no time or no duration; it is left out")
            return
        if at_us < self._first_us:
            self._first_us = at_us
        if at_us + duration_us > self._last_us:
            self._last_us = at_us + duration_us
        if self._zero_us is None:
            self._zero_us = at_us
        if take is not None:
            take(event, at_us - self._zero_us, duration_us)

    def _kernel(self, event: dict[str, Any], at_us: float, duration_us: float, library: str = "") -> None:
        name, args = str(event.get("name", "")), arguments(event)
        flops = flops_of(args)
        self._kernels += 1
        if "cat" in event:  # the old profiler names no stream
            self._streams.add(thread_of(event), at_us, duration_us)
        self._kernel_flops |= flops is not None
        self._collectives.kernel(name, duration_us * MICROSECOND, args)
        launch = Launch(
            name,
            duration_us * MICROSECOND,
            flops,
            start_s=at_us * MICROSECOND,
            library=library,
            problem=_sizes(args) if self._keeps else "",
        )
        self._log.add(launch, args.get("External id"), args.get("correlation"))

    def _library(self) -> str:
        devices = self._trace.values.get("deviceProperties")
        if not (isinstance(devices, list) and _are_objects(devices)):
            return "cuda"
        name = str(devices[0].get("name", ""))
        known = next((library for library, sign in _LIBRARIES if sign.search(name)), "cuda")
        # ROCm leaves names out; no GPU of NVIDIA has warps of 64.
        return "hip" if devices[0].get("warpSize") == 64 else known

    def _mtia_event(self, event: dict[str, Any], at_us: float, duration_us: float) -> None:
        name, args = str(event.get("name", "")), arguments(event)
        if not _MTIA_PARTS.match(name):
            self._kernel(event, at_us, duration_us, "mtia")
            return
        phase = " ".join(filter(None, (name, str(args.get("direction", "")))))
        self._activities.add(phase, duration_us * MICROSECOND, number(args.get("size")))

    def _copy(self, event: dict[str, Any], at_us: float, duration_us: float) -> None:
        name, args = str(event.get("name", "")), arguments(event)
        phase = "memset"
        if _kind(event) == "gpu_memcpy":
            direction = _COPY.search(f"{name} {args.get('kind', '')}")
            phase = f"memcpy {direction.group(1) or direction.group(2)}" if direction else "memcpy"
        self._activities.add(phase, duration_us * MICROSECOND, number(args.get("bytes")))

    def _operator(self, event: dict[str, Any], at_us: float, duration_us: float) -> None:
        name, args = str(event.get("name", "")), arguments(event)
        if name.startswith(_STEPS) and self._take_step(name, at_us, duration_us):
            return  # up to torch 1.9 steps are operators
        self._collectives.call(name, duration_us * MICROSECOND, args)
        thread = thread_of(event)
        self._operators.add(thread, at_us, duration_us, name, args)
        if self._layers is not None:
            self._layers.operator(thread, at_us, duration_us, name, args)

    def _runtime(self, event: dict[str, Any], at_us: float, duration_us: float) -> None:
        """A call of CUDA or HIP, within the operator that made it."""
        args = arguments(event)
        self._log.launched(event, at_us, args.get("External id"), args.get("correlation"))
        if self._layers is not None:
            self._layers.launched(args.get("correlation"), thread_of(event), at_us)

    def _annotation(self, event: dict[str, Any], at_us: float, duration_us: float) -> None:
        name = str(event.get("name", ""))
        if self._layers is not None:
            self._layers.annotation(f"{event.get('pid')} {event.get('tid')}", at_us, duration_us, name)
        if not self._take_step(name, at_us, duration_us):
            self._collectives.call(name, duration_us * MICROSECOND, arguments(event))

    def _take_step(self, name: str, at_us: float, duration_us: float) -> bool:
        """Take in a step of the profiler; False for anything else."""
        step = _STEP.match(name)
        if step:
            took_s = duration_us * MICROSECOND
            self._found.steps.append(StepLine(int(step.group(1)), None, at_us * MICROSECOND, None, took_s))
        return step is not None

    def _measured_range(self, event: dict[str, Any], at_us: float, duration_us: float) -> None:
        """A kernel measured by CUPTI's range profiler. The trace gives all of them the same share of the
        session for a duration: that is no kernel's time."""
        self._ranges += 1
        self._found.launch(measured(str(event.get("name", "")), arguments(event)))

    def finish(self) -> None:
        """Add what only the whole trace shows."""
        self._activities.finish(self._found)
        self._collectives.finish(self._found)
        self._streams.finish(self._found)
        on_gpu = self._kernels + self._ranges > 0
        self._finish_kernels(on_gpu)
        if self._ranges:
            self._found.warn(
                f"{self._ranges} kernels were measured by CUPTI's range profiler: the trace has their counts "
                "but not the time of each"
            )
        if steps := len(self._found.steps):
            self._found.throughput = Throughput("examples", None, None, steps, None, "this rank")
        self._add_facts()

        # UNIX time of the zero of all start times, which is the first event of the file.
        base_ns = number(self._trace.values.get("baseTimeNanoseconds"))
        if self._zero_us is not None and (base_ns is not None or self._zero_us >= UNIX_US):
            whole_us = int(self._zero_us)  # a float of today's nanoseconds has no digits left for them
            fraction_ns = round((self._zero_us - whole_us) * 1000)
            self._found.started_ns = int(base_ns or 0) + whole_us * 1000 + fraction_ns

    def _finish_kernels(self, on_gpu: bool) -> None:
        """The kernels with the FLOPs of the operators that launched them, and the operators left over."""
        self._operators.put_in_order()
        if self._layers is not None:
            self._layers.settle()
        library, joined = self._library(), set()
        for launch, call, correlation in self._log.join(self._operators, library):
            if launch.flops is not None:  # else only its helpers are in the trace
                joined.add(call)
            if self._layers is not None:
                launch = launch._replace(layer=self._layers.of_launch(correlation))
            self._found.launch(launch)
        self._log.close()
        self._operators.finish(on_gpu, joined, with_flops=not (self._kernel_flops or self._ranges))

    def _add_facts(self) -> None:
        # Each only where the trace has it, in the type that the profiler writes.
        values = self._trace.values
        facts: dict[str, float | int | str] = {"events": self._trace.count}
        if self._kernels:
            facts["gpu_kernels"] = self._kernels
        info = values.get("distributedInfo")
        if isinstance(info, dict):
            for key in ("rank", "world_size", "backend"):
                if isinstance(info.get(key), (int, str)):
                    facts[key] = info[key]
        devices = values.get("deviceProperties")
        if isinstance(devices, list) and devices and _are_objects(devices):
            facts["devices"] = len(devices)
            if names := sorted({str(one["name"]) for one in devices if one.get("name")}):
                facts["device"] = ", ".join(names)
        if self._last_us >= self._first_us:
            self._found.duration_s = (self._last_us - self._first_us) * MICROSECOND
            facts["span_s"] = self._found.duration_s
        self._found.facts.update(facts)


def _are_times(at_us: float, duration_us: float) -> bool:
    return -_ENDLESS < at_us < _ENDLESS and 0 <= duration_us < _ENDLESS


def _sizes(args: dict[str, Any]) -> str:
    return " ".join(f"{key} {args[key]}" for key in ("grid", "block") if isinstance(args.get(key), list))[:80]


def _kind(event: dict[str, Any]) -> str:
    kind = event.get("cat")
    if isinstance(kind, str):
        return _kind_of(kind)
    pid = event.get("pid")
    return _LEGACY.get(pid, "") if isinstance(pid, str) else ""


@lru_cache(maxsize=256)
def _kind_of(category: str) -> str:
    lower = category.lower()
    return _KINDS.get(lower, lower)


def _are_objects(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(one, dict) for one in items)
