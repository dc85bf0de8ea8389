"""Turns the nested operators of a trace into times that add up: what each spends outside those it calls.

An operator that has FLOPs owns everything it calls, so that neither its time nor its FLOPs count twice. Which
kernels of the GPU it launched is found by joined.py.
"""

from __future__ import annotations

import marshal
from array import array
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...by_shape.torch_arguments import Arguments
from ...by_shape.torch_operators import FORMULAS, why_unknown, work_of
from ...by_shape.work import OperatorWork
from ..collector import MAX_KERNELS, OTHERS, Collector, RecordLog
from ..recording import Launch
from .layers import TracedLayers
from .trace import number

BATCH = 100_000  # operators put in order at a time; traces of old versions list the inner ones first
MAX_CALLS = 1_000_000  # of operators with FLOPs that kernels are searched for
MICROSECOND = 1e-6
MOST_PROBLEM = 80  # characters
BY_SHAPES, BY_TORCH = "FLOPs by its shapes", "FLOPs by torch's formulas"
MAX_WORKS = 20_000
_SHAPES = ("Input Dims", "Input dims")
_ARGUMENTS = (*_SHAPES, "Input type", "Concrete Inputs", "Input Strides")


class OperatorCall(NamedTuple):
    """One call of an operator with FLOPs."""

    name: str
    work: OperatorWork
    thread: str
    begin_us: float
    end_us: float


class OperatorCalls:
    """A million of them fit into memory, by their order."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, OperatorWork, str], int] = {}
        self._each: list[tuple[str, OperatorWork, str]] = []
        self._which = array("i")
        self._begins_us, self._ends_us = array("d"), array("d")

    def __len__(self) -> int:
        return len(self._which)

    def __getitem__(self, at: int) -> OperatorCall:
        return OperatorCall(*self._each[self._which[at]], self._begins_us[at], self._ends_us[at])

    def append(self, call: OperatorCall) -> None:
        kind = call.name, call.work, call.thread
        at = self._kinds.setdefault(kind, len(self._each))
        if at == len(self._each):
            self._each.append(kind)
        self._which.append(at)
        self._begins_us.append(call.begin_us)
        self._ends_us.append(call.end_us)


@dataclass
class _OpenOperator:
    end_us: float
    name: str
    work: OperatorWork | None
    time_us: float  # its own so far
    call: int  # -1: it has no FLOPs
    begin_us: float
    problem: str  # "" unless each call is listed


class _EachCall(NamedTuple):
    """One call of an operator, and the thread that made it at begin_us."""

    launch: Launch
    thread: str
    begin_us: float


class _OperatorSum:
    """Calls of one operator."""

    def __init__(self) -> None:
        self.count = 0
        self.time_us = self.flops = self.bytes = 0.0
        self.precision = self.note = ""
        self._has_bytes = True

    def add(self, time_us: float, work: OperatorWork | None) -> None:
        self.count += 1
        self.time_us += max(0.0, time_us)
        if work is not None:
            self.flops += work.flops
            self.bytes += work.bytes or 0.0
            self._has_bytes = self._has_bytes and work.bytes is not None
            self.precision, self.note = work.precision, work.note

    def launch(self, name: str, has_time: bool, has_flops: bool) -> Launch:
        moved = {"minimum": self.bytes} if has_flops and self._has_bytes else {}
        return Launch(
            name,
            self.time_us * MICROSECOND if has_time else None,
            self.flops if has_flops else None,
            moved,
            precision=self.precision,
            library="torch",
            note="; ".join(filter(None, ("operator", self.note))),
            count=self.count,
        )


class Operators:
    """The operators of one trace."""

    def __init__(self, found: Collector, layers: TracedLayers | None = None) -> None:
        """Without a GPU's kernels calls are summed by name; where launches are kept, each is listed with its
        time and shapes, and with its layer if layers are given."""
        self._each: RecordLog[_EachCall] | None = None if found.launches is None else RecordLog(_EachCall)
        self._layers = layers
        self.calls = OperatorCalls()
        self.owners: dict[int, int] = {}  # External id of an operator -> the call that owns it
        self._found = found
        self._batch: list[tuple[str, float, float, str, OperatorWork | None, Any, str]] = []
        self._stacks: dict[str, list[_OpenOperator]] = {}
        self._works: dict[bytes, OperatorWork] = {}
        self._plain: dict[str, _OperatorSum] = {}
        self._known: dict[str, _OperatorSum] = {}  # those that have FLOPs

    def add(self, thread: str, at_us: float, duration_us: float, name: str, args: dict[str, Any]) -> None:
        # The longer of two that begin together is the outer one.
        work = self._work(name, args)
        problem = _shapes(args) if self._each is not None else ""
        self._batch.append((thread, at_us, -duration_us, name, work, args.get("External id"), problem))
        if len(self._batch) >= BATCH:
            self._nest()

    def _work(self, name: str, args: dict[str, Any]) -> OperatorWork | None:
        """Worked out once for the same arguments: a training calls the same in each step."""
        if name not in FORMULAS:
            return _by_torch(args)
        key = marshal.dumps([name, *(args.get(one) for one in _ARGUMENTS)], 0)
        work = self._works.get(key)
        if work is None:
            given = _arguments(args)
            work = _by_shapes(name, given)
            if work is None and (reason := why_unknown(name, given)):
                self._found.warn(reason)
                return None
            if work is not None and len(self._works) < MAX_WORKS:
                self._works[key] = work
        return work or _by_torch(args)

    def put_in_order(self) -> None:
        """The calls and owners are complete once this was called behind the last operator."""
        self._nest()
        for thread, stack in self._stacks.items():
            while stack:
                self._close(stack, thread)

    def finish(self, on_gpu: bool, joined: set[int], with_flops: bool) -> None:
        """on_gpu: the trace has GPU kernels, so operators get no time. joined: calls whose kernels
        were found. with_flops: no kernel has FLOPs of its own."""
        if not on_gpu:
            self._finish_on_cpu()
        elif self._known and not with_flops:
            self._found.warn(
                "operators have FLOPs too; those of the kernels are taken, for they are the same"
            )
        elif self._known:
            self._finish_without_kernels(joined)

    def _finish_on_cpu(self) -> None:
        if not self._known and not self._plain:
            return
        self._found.warn(
            "the trace has no GPU kernel: the kernels listed are operators on the CPU, each with the "
            "time it spends outside the operators it calls"
        )
        if self._each is not None:
            self._list_each(self._each)
            return
        for name, one in self._plain.items():
            self._found.launch(one.launch(name, has_time=True, has_flops=False))
        for name, one in self._known.items():
            self._found.launch(one.launch(self._label(name), has_time=True, has_flops=True))

    def _list_each(self, calls: RecordLog[_EachCall]) -> None:
        for fields, thread, begin_us in calls:
            one = Launch(*fields)
            if one.flops is not None:
                one = one._replace(name=self._label(one.name))
            if self._layers is not None:
                one = one._replace(layer=self._layers.of(thread, begin_us))
            self._found.launch(one)
        calls.close()

    def _label(self, name: str) -> str:
        """Of calls with FLOPs: those without have a sum of their own."""
        return f"{name} (with FLOPs)" if name in self._plain else name

    def _finish_without_kernels(self, joined: set[int]) -> None:
        """Calls whose kernels the trace does not show keep their FLOPs, without a time."""
        left: dict[str, _OperatorSum] = {}
        for at in range(len(self.calls)):
            if at not in joined:
                call = self.calls[at]
                left.setdefault(call.name, _OperatorSum()).add(0.0, call.work)
        if not left:
            return
        missing = sum(one.count for one in left.values())
        self._found.warn(
            f"of {missing} of {len(self.calls)} operators with FLOPs the trace does not say which kernels "
            "they launched: they are listed without a time"
        )
        for name, one in left.items():
            self._found.launch(one.launch(name, has_time=False, has_flops=True))

    def _nest(self) -> None:
        self._batch.sort(key=lambda one: one[:3])
        for thread, at_us, minus_us, name, work, key, problem in self._batch:
            stack, duration_us = self._stacks.setdefault(thread, []), -minus_us
            while stack and stack[-1].end_us <= at_us:
                self._close(stack, thread)
            if stack and stack[-1].work is not None:
                self._own(key, stack[-1].call)
                continue  # inside an operator that owns it
            if stack:
                stack[-1].time_us -= min(duration_us, stack[-1].end_us - at_us)
            call = -1
            if work is not None and len(self.calls) < MAX_CALLS:
                call = len(self.calls)
                self.calls.append(OperatorCall(name, work, thread, at_us, at_us + duration_us))
                self._own(key, call)
            stack.append(_OpenOperator(at_us + duration_us, name, work, duration_us, call, at_us, problem))
        self._batch.clear()

    def _own(self, key: Any, call: int) -> None:
        if type(key) is int and call >= 0:
            self.owners[key] = call

    def _close(self, stack: list[_OpenOperator], thread: str) -> None:
        one = stack.pop()
        if self._each is not None:
            launch = tuple(_launch(one))  # as the log keeps it
            self._each.append(_EachCall(launch, thread, one.begin_us))  # type: ignore[arg-type]
        sums = self._plain if one.work is None else self._known
        name = one.name if one.name in sums or len(sums) < MAX_KERNELS else OTHERS
        if name not in sums:
            sums[name] = _OperatorSum()
        sums[name].add(one.time_us, one.work)


def _launch(one: _OpenOperator) -> Launch:
    """One call, with the time it spent outside the operators it called."""
    single = _OperatorSum()
    single.add(one.time_us, one.work)
    launch = single.launch(one.name, has_time=True, has_flops=one.work is not None)
    return launch._replace(start_s=one.begin_us * MICROSECOND, problem=one.problem)


def _shapes(args: dict[str, Any]) -> str:
    """Shapes of an operator's tensors, "[64, 3] [3, 8]"."""
    shapes: list[Any] = next((args[key] for key in _SHAPES if isinstance(args.get(key), list)), [])
    return " ".join(str(shape) for shape in shapes if isinstance(shape, list) and shape)[:MOST_PROBLEM]


def _arguments(args: dict[str, Any]) -> Arguments:
    shapes = next((args[key] for key in _SHAPES if isinstance(args.get(key), list)), ())
    return Arguments(
        shapes, *(args[key] if isinstance(args.get(key), list) else () for key in _ARGUMENTS[len(_SHAPES) :])
    )


def _by_shapes(name: str, given: Arguments) -> OperatorWork | None:
    work = work_of(name, given)
    return work and work._replace(note="; ".join(filter(None, (BY_SHAPES, work.note))))


def _by_torch(args: dict[str, Any]) -> OperatorWork | None:
    """Of the FLOPs that torch has written."""
    printed = flops_of(args)
    return None if printed is None else OperatorWork(printed, None, "", 1, BY_TORCH)


def flops_of(args: dict[str, Any]) -> float | None:
    """What the profiler itself wrote of an event."""
    for key in ("flops", "Flops", "FLOPs", "FLOPS", "kernel_flop"):
        if key in args:
            value = number(args[key])
            if value is not None and value > 0:  # torch writes 0 where it has no formula
                return value
    return None
