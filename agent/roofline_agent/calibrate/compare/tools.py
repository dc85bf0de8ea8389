"""Other tools run in turn with our own kernels, so that whatever disturbs the machine hits all alike."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from roofline_agent.calibrate.compare import contenders
from roofline_agent.calibrate.compare.contenders import Contender, server
from roofline_agent.calibrate.compare.table import ComparisonRow
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.hardware import Hardware
from roofline_agent.calibrate.levels import beyond_caches
from roofline_agent.calibrate.runs import NORMAL, QUICK

_NAMES = {
    "non-temporal": "dram.triad (non-temporal stores)",
    "normal": "dram.triad (normal stores)",
    "read": "dram.read",
    "f32": "peak.f32 (FMA)",
    "f64": "peak.f64 (FMA)",
}
_ROUNDS, _QUICK_ROUNDS = 4, 1
_ENOUGH_S = 45.0  # no round begins later, as on a busy machine or one with slow memory


class Compared(NamedTuple):
    rows: list[ComparisonRow]
    notes: tuple[str, ...]  # which tools could not be had


def compare_tools(
    hardware: Hardware, python: str | None, quick: bool, progress: Callable[[str], None]
) -> Compared:
    """The best of several rounds of each test by each tool that is here.

    progress: gets a line on each round. Raises CalibrationError if our own kernels cannot run.
    """
    plan = QUICK if quick else NORMAL
    size = beyond_caches(hardware, plan, hardware.cpus).size
    notes: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roofline-")))
        us = stack.enter_context(server(*contenders.ours(size)))
        rivals: list[Contender] = []
        makers: tuple[Callable[[], Contender], ...] = (
            lambda: stack.enter_context(server(*contenders.compiled_stream(folder, size))),
            lambda: contenders.likwid(size, len(hardware.cpus), hardware.flags),
            lambda: stack.enter_context(server(*contenders.numpy_gemm(python))),
        )
        for make in makers:
            try:
                rivals.append(make())
            except CalibrationError as error:
                notes.append(str(error))
        best = run_rounds([us, *rivals], _QUICK_ROUNDS if quick else _ROUNDS, notes, progress)
    return Compared(rows(us, rivals, best), tuple(dict.fromkeys(notes)))


def rows(
    us: Contender, rivals: Sequence[Contender], best: Mapping[tuple[str, str], float]
) -> list[ComparisonRow]:
    """A row for each test that a rival has a rate of; best: by title and test."""
    found = []
    for test, name in _NAMES.items():
        unit = "FLOP/s" if test in ("f32", "f64") else "byte/s"
        for rival in rivals:
            theirs = best.get((rival.title, test))
            if theirs is not None:
                ours = best.get((us.title, test))
                found.append(ComparisonRow(name, ours, theirs, unit, rival.tests[test]))
    return found


def run_rounds(
    all_of_them: Sequence[Contender], rounds: int, notes: list[str], progress: Callable[[str], None]
) -> dict[tuple[str, str], float]:
    """(title, test) -> the best rate. Who goes first changes from round to round."""
    best: dict[tuple[str, str], float] = {}
    failed: set[tuple[str, str]] = set()
    begin = time.monotonic()
    for number in range(rounds):
        if time.monotonic() - begin > _ENOUGH_S:
            break
        progress(f"round {number + 1} of {rounds}: {', '.join(one.title for one in all_of_them)}")
        for test in _NAMES:
            turn = [one for one in all_of_them if test in one.tests and (one.title, test) not in failed]
            if len(turn) < 2:
                continue
            first = number % len(turn)
            for one in (*turn[first:], *turn[:first]):
                key = (one.title, test)
                try:
                    best[key] = max(best.get(key, 0.0), one.measure(test))
                except CalibrationError as error:
                    notes.append(str(error))
                    failed.add(key)
    return best
