"""Fuzz of all targets in turns, each in a process of its own, until so many inputs are counted in a file.

All that is known is in the file (`tally`): stopped and started again, it goes on where it was. What got past
its parser is counted: the rest says little.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .tally import Row, rows_in, total

# Of the time. What is quick needs less of it.
SHARES: Mapping[str, float] = {
    "ingest": 0.35,
    "marks": 0.25,
    "recorded": 0.15,
    "questions": 0.1,
    "http": 0.08,
    "joining": 0.02,
    "stored": 0.05,
}


def next_target(done: Sequence[Row]) -> str:
    """The one that is furthest behind its share."""
    return min(SHARES, key=lambda name: total(done, name).seconds / SHARES[name])


def fuzz_all(
    path: Path,
    goal: int,
    seconds: float,
    turn_s: float,
    folders: Sequence[str],
    report: Callable[[str], None],
) -> bool:
    """Until `goal` parts that were read are counted in the file at `path`, or so long; whether none failed in
    this run. folders: options that say where inputs are kept."""
    end = time.monotonic() + seconds
    before = total(rows_in(path))
    while True:
        done = rows_in(path)
        now = total(done)
        bad = now.crashes + now.hangs - before.crashes - before.hangs
        report(f"{now.read:,} of {goal:,} in {now.seconds / 60:.1f} min, {bad} failed in this run")
        left = end - time.monotonic()
        if now.read >= goal or left <= 0:
            return not bad
        name = next_target(done)
        command = [sys.executable, "-m", "tests.faults", "fuzz", name, "--seconds", str(min(turn_s, left))]
        # What the product logs is dropped with standard error, unless the run itself fails.
        ended = subprocess.run(
            [*command, "--json", str(path), *folders], stderr=subprocess.PIPE, text=True, check=False
        )
        if total(rows_in(path)).inputs == now.inputs:
            report(f"{name} ended with {ended.returncode}: {ended.stderr[-2000:]}")
            return False
