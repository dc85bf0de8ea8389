"""Turns the nested operators of a CPU trace into times that add up: what each spends outside those it calls.

An operator that has FLOPs owns everything it calls, so that neither its time nor its FLOPs count twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..collector import MAX_KERNELS, OTHERS, Collector
from ..recording import Launch

BATCH = 100_000  # operators put in order at a time; traces of old versions list the inner ones first
MICROSECOND = 1e-6
NOTE = "operator; FLOPs by torch's formulas"


@dataclass
class _OpenOperator:
    end_us: float
    name: str
    flops: float | None
    time_us: float  # its own so far


@dataclass
class _OperatorSum:
    count: int = 0
    time_us: float = 0.0
    flops: float = 0.0


class Operators:
    """The operators of one trace."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._batch: list[tuple[str, float, float, str, float | None]] = []
        self._stacks: dict[str, list[_OpenOperator]] = {}
        self._plain: dict[str, _OperatorSum] = {}
        self._known: dict[str, _OperatorSum] = {}  # those that have FLOPs

    def add(self, thread: str, at_us: float, duration_us: float, name: str, flops: float | None) -> None:
        # The longer of two that begin together is the outer one.
        self._batch.append((thread, at_us, -duration_us, name, flops))
        if len(self._batch) >= BATCH:
            self._nest()

    def finish(self, on_gpu: bool, with_flops: bool) -> None:
        """on_gpu: the trace has GPU kernels, so operators get no time. with_flops: no kernel has FLOPs."""
        self._nest()
        for stack in self._stacks.values():
            while stack:
                self._close(stack)
        if not self._known and (on_gpu or not self._plain):
            return
        if on_gpu and not with_flops:
            self._found.warn(
                "operators have FLOPs too; those of the kernels are taken, for they are the same"
            )
        elif on_gpu:
            self._found.warn(
                "the FLOPs belong to operators and the time to GPU kernels: the trace does not say which "
                "kernel did how many"
            )
            for name, one in self._known.items():
                self._launch(name, None, one.flops, one.count)
        else:
            self._found.warn(
                "the trace has no GPU kernel: the kernels listed are operators on the CPU, each with the "
                "time it spends outside the operators it calls"
            )
            for name, one in self._plain.items():
                self._launch(name, one.time_us * MICROSECOND, None, one.count)
            for name, one in self._known.items():
                label = f"{name} (with FLOPs)" if name in self._plain else name
                self._launch(label, one.time_us * MICROSECOND, one.flops, one.count)

    def _launch(self, name: str, time_s: float | None, flops: float | None, count: int) -> None:
        note = NOTE if flops is not None else "operator"
        self._found.launch(Launch(name, time_s, flops, library="torch", note=note, count=count))

    def _nest(self) -> None:
        self._batch.sort(key=lambda one: one[:3])
        for thread, at_us, minus_us, name, flops in self._batch:
            stack, duration_us = self._stacks.setdefault(thread, []), -minus_us
            while stack and stack[-1].end_us <= at_us:
                self._close(stack)
            if stack and stack[-1].flops is not None:
                continue  # inside an operator that owns it
            if stack:
                stack[-1].time_us -= min(duration_us, stack[-1].end_us - at_us)
            stack.append(_OpenOperator(at_us + duration_us, name, flops, duration_us))
        self._batch.clear()

    def _close(self, stack: list[_OpenOperator]) -> None:
        one = stack.pop()
        sums = self._plain if one.flops is None else self._known
        name = one.name if one.name in sums or len(sums) < MAX_KERNELS else OTHERS
        added = sums.setdefault(name, _OperatorSum())
        added.count += 1
        added.time_us += max(0.0, one.time_us)
        added.flops += one.flops or 0.0
