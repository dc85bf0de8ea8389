"""Joins the kernels of a trace with the operators that launched them, which have the FLOPs.

A kernel has the `External id` of its operator, or only the `correlation` of the launch, which was made on a
thread at a moment within the operator. Its FLOPs are shared by the kernels of a call that compute (as many as
the operator has parts of equal size, as the two gradients of a convolution: equally; else by their time);
kernels next to them that copy, reduce or convert get none.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ..collector import RecordLog
from ..ncu.flops import is_of_tf32
from ..recording import Launch
from .operators import OperatorCall, OperatorCalls, Operators
from .trace import thread_of

_HELPS = re.compile(
    r"^void epilogue::|split_?k_?reduce|reduce_kernel|To(?:Nhwc|Nchw)"
    r"|transpose|elem(?:ent)?wise|copy|fill|convert|memset|im2col",
    re.I,
)
_TEMPLATE_ARGUMENTS = re.compile(r"<[^<>]*>")
_COMPUTES = re.compile(
    r"gemm|gemv|conv|mma|cutlass|wgrad|dgrad|fprop|winograd|Cijk_|flash|attention|attn|rnn|lstm|gru|matmul",
    re.I,
)


class TracedKernel(NamedTuple):
    """A kernel of the trace. external, correlation: its ids, -1 where it has none."""

    launch: tuple[Any, ...]  # the fields of a Launch, which may go to disk
    external: int
    correlation: int


class _TracedLaunch(NamedTuple):
    thread: str
    at_us: float
    correlation: int


class _Share(NamedTuple):
    """The kernels of one call so far: those whose names say that they compute, and those of unknown names."""

    computing: int
    computing_s: float
    unknown_s: float


class _Shares:
    """Those of all calls, by their order."""

    def __init__(self, calls: int) -> None:
        self._computing = array("i", [0]) * calls
        self._computing_s, self._unknown_s = array("d", [0]) * calls, array("d", [0]) * calls

    def add(self, call: int, kernel: str, time_s: float) -> None:
        role = _role(kernel)
        if role == "computes":
            self._computing[call] += 1
            self._computing_s[call] += time_s
        elif not role:
            self._unknown_s[call] += time_s

    def of(self, call: int) -> _Share:
        return _Share(self._computing[call], self._computing_s[call], self._unknown_s[call])


class KernelLog:
    """The kernels of one trace, kept on disk until all of its operators are known."""

    def __init__(self) -> None:
        self._kernels: RecordLog[TracedKernel] = RecordLog(TracedKernel)
        self._launches: RecordLog[_TracedLaunch] = RecordLog(_TracedLaunch)

    def add(self, launch: Launch, external: object, correlation: object) -> None:
        """A kernel and the ids in its args."""
        self._kernels.append(TracedKernel(tuple(launch), _id(external), _id(correlation)))

    def launched(self, event: Mapping[str, Any], at_us: float, external: object, correlation: object) -> None:
        """A call of the runtime. Where it has its operator's id, so have its kernels."""
        number = _id(correlation)
        if number >= 0 and _id(external) in (-1, number):
            self._launches.append(_TracedLaunch(thread_of(event), at_us, number))

    def join(self, operators: Operators, library: str) -> Iterator[tuple[Launch, int, int]]:
        """Every kernel in the file's order, the call that it belongs to, and its correlation; -1 for none.
        Kernels of a call have their share of its FLOPs and bytes. library: of those that name none."""
        shares = _Shares(len(operators.calls))
        by_correlation: dict[int, int] = {}
        if operators.calls:
            by_correlation = _owners_of(self._launches, operators.calls)
            for fields, call, _ in self._with_calls(operators, by_correlation):
                if call >= 0:
                    name, time_s, *_ = fields
                    shares.add(call, name, time_s or 0.0)
        for fields, call, correlation in self._with_calls(operators, by_correlation):
            kernel = Launch(*fields)
            if call >= 0 and kernel.flops is None:
                kernel = _shared(kernel, operators.calls[call], shares.of(call))
            yield kernel if kernel.library else kernel._replace(library=library), call, correlation

    def _with_calls(
        self, operators: Operators, by_correlation: dict[int, int]
    ) -> Iterator[tuple[tuple[Any, ...], int, int]]:
        owners = operators.owners
        for launch, external, correlation in self._kernels:
            call = by_correlation.get(correlation, -1)
            if call < 0 and external != correlation:  # the same number: it is not an operator's
                call = owners.get(external, -1)
            yield launch, call, correlation

    def close(self) -> None:
        self._kernels.close()
        self._launches.close()


def _owners_of(launches: RecordLog[_TracedLaunch], calls: OperatorCalls) -> dict[int, int]:
    """Correlation -> the call within which it was launched."""
    by_thread: dict[str, list[tuple[float, float, int]]] = {}
    for at in range(len(calls) if len(launches) else 0):
        call = calls[at]
        by_thread.setdefault(call.thread, []).append((call.begin_us, call.end_us, at))
    begins: dict[str, list[float]] = {}
    for thread, spans in by_thread.items():
        spans.sort()
        begins[thread] = [span[0] for span in spans]
    owners: dict[int, int] = {}
    for launch in launches:
        at = bisect_right(begins.get(launch.thread, []), launch.at_us) - 1
        if at >= 0 and launch.at_us <= by_thread[launch.thread][at][1]:
            owners[launch.correlation] = by_thread[launch.thread][at][2]
    return owners


@lru_cache(maxsize=8192)
def _role(kernel: str) -> str:
    """What a kernel's name shows that it does for its operator: "helps", "computes", "" nothing."""
    # Types of a product's copies ("Copy_Atom") and of what is fused to it are among its arguments.
    function, before = kernel, ""
    while function != before:
        function, before = _TEMPLATE_ARGUMENTS.sub("", function), function
    function = function.partition("<")[0]  # of a name that was cut off
    return "helps" if _HELPS.search(function) else "computes" if _COMPUTES.search(kernel) else ""


def _shared(kernel: Launch, call: OperatorCall, share: _Share) -> Launch:
    time_s, part, role = kernel.time_s or 0.0, 0.0, _role(kernel.name)
    if role == "helps":
        return kernel
    if not share.computing:
        part = time_s / share.unknown_s if share.unknown_s else 0.0
    elif not role:
        return kernel
    elif share.computing == call.work.parts:
        part = 1 / call.work.parts
    elif share.computing_s:
        part = time_s / share.computing_s
    if not part:
        return kernel
    work = call.work
    return kernel._replace(
        flops=work.flops * part,
        bytes={} if work.bytes is None else {"minimum": work.bytes * part},
        # Tensors in TF32 are float32; only the kernel's name shows how they are multiplied.
        precision="tf32" if work.precision == "f32" and is_of_tf32(kernel.name) else work.precision,
        note=f"{call.name}: {work.note}",
        counted=False,
    )


def _id(value: object) -> int:
    return value if type(value) is int and value >= 0 else -1
