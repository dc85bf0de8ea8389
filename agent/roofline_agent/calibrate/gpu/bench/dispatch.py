"""What a framework needs to start one tiny operation on the CPU: launch overhead without a GPU."""

from __future__ import annotations

import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

from . import output
from .timing import Plan, shortest

FRAMEWORKS = ("torch", "tensorflow")
_EACH = 100  # operations between two looks at the clock: looking costs a twentieth of one operation


def measure(plan: Plan) -> None:
    """Says the ceiling `launch` of the CPUs for the first framework that is there."""
    name = next((one for one in FRAMEWORKS if importlib.util.find_spec(one)), None)
    if name is None:
        output.note(
            "launch: the dispatch overhead was not measured: this Python has neither torch nor tensorflow"
        )
        return
    try:
        run, what = _OPERATIONS[name](importlib.import_module(name))
    except Exception as error:
        output.note(f"launch: {name} does not work here: {type(error).__name__}: {str(error)[:300]}")
        return
    _measure(run, what, plan)


def _torch(torch: Any) -> tuple[Callable[[], object], str]:
    torch.set_num_threads(1)
    one = torch.zeros(1)

    def run() -> None:
        with torch.no_grad():
            for _ in range(_EACH):
                one.add_(1.0)

    return run, f"in-place add to a tensor of one element by torch {torch.__version__}, without autograd"


def _tensorflow(tensorflow: Any) -> tuple[Callable[[], object], str]:
    with tensorflow.device("/CPU:0"):
        one, add = tensorflow.constant([1.0]), tensorflow.raw_ops.AddV2

    def run() -> None:
        for _ in range(_EACH):
            add(x=one, y=one)

    return run, f"add of two tensors of one element, eager, by tensorflow {tensorflow.__version__}"


_OPERATIONS = {"torch": _torch, "tensorflow": _tensorflow}


def _measure(run: Callable[[], object], what: str, plan: Plan) -> None:
    run()
    stretches = max(5, plan.launches // 100)
    # A run's median: a stretch is short enough for the clock to be lucky once, or the scheduler to step in.
    runs = [statistics.median(_timed(run) for _ in range(stretches)) for _ in range(plan.repeats)]
    measured = shortest(runs)
    method = (
        f"{what}; median of {stretches} stretches of {_EACH} operations each, on one thread; shortest of "
        f"{measured.runs} such runs after a warm-up"
    )
    output.ceiling("launch", "overhead", "s", measured, method, threads=1)


def _timed(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) / _EACH
