"""Runs one task on each CPU, all at the same time, and takes the time of the whole and of each.

A task must spend its time outside Python's global lock, as a call of machine code does.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from roofline_agent.calibrate.errors import CalibrationError

Task = Callable[[], None]


class Took(NamedTuple):
    """Seconds; the whole goes from the first start to the last end: no rate made from it is too high."""

    whole: float
    each: tuple[float, ...]  # from its own start to its own end
    used: float = 0.0  # CPU time of all together


class _Member(threading.Thread):
    """One task on one CPU, between `start_ns` and `end_ns`; `error`: why it did not run."""

    def __init__(self, cpu: int, task: Task, barrier: threading.Barrier) -> None:
        super().__init__(name=f"calibrate-{cpu}", daemon=True)
        self.cpu, self.task, self.barrier = cpu, task, barrier
        self.start_ns = self.end_ns = self.used_ns = 0
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            os.sched_setaffinity(0, {self.cpu})  # 0 is the calling thread, not the process
            self.barrier.wait()
            used_ns = time.thread_time_ns()
            self.start_ns = time.perf_counter_ns()
            self.task()
            self.end_ns = time.perf_counter_ns()
            self.used_ns = time.thread_time_ns() - used_ns
        except Exception as error:
            self.error = error
            self.barrier.abort()


def run_together(cpus: Sequence[int], tasks: Sequence[Task]) -> Took:
    """What the tasks took, task k pinned to CPU k.

    Raises CalibrationError if a CPU can't be had, or what a task raised.
    """
    barrier = threading.Barrier(len(cpus))
    members = [_Member(cpu, task, barrier) for cpu, task in zip(cpus, tasks, strict=True)]
    for member in members:
        member.start()
    for member in members:
        member.join()
    for member in members:
        if isinstance(member.error, OSError):
            raise CalibrationError(
                f"can't run on CPU {member.cpu}: {member.error.strerror}; were the CPUs of this process "
                "changed meanwhile? Try again"
            ) from member.error
        # The others only saw the barrier break.
        if member.error and not isinstance(member.error, threading.BrokenBarrierError):
            raise member.error
    whole = max(member.end_ns for member in members) - min(member.start_ns for member in members)
    each = tuple((member.end_ns - member.start_ns) / 1e9 for member in members)
    return Took(whole / 1e9, each, sum(member.used_ns for member in members) / 1e9)
