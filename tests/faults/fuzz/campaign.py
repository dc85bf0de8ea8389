"""Fuzz of all targets in turns, each in a process of its own, until so many inputs are counted in a file.

All that is known is in the file, a line for each turn: stopped and started again, it goes on where it was.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

# Of the time. What is quick needs less of it.
SHARES: Mapping[str, float] = {
    "ingest": 0.45,
    "marks": 0.15,
    "recorded": 0.1,
    "questions": 0.1,
    "http": 0.05,
    "joining": 0.1,
    "stored": 0.05,
}


def turns(path: Path) -> list[dict[str, Any]]:
    """All that were taken so far."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def next_target(done: Sequence[Mapping[str, Any]]) -> str:
    """The one that is furthest behind its share."""
    spent = {name: sum(turn["seconds"] for turn in done if turn["target"] == name) for name in SHARES}
    return min(SHARES, key=lambda name: spent[name] / SHARES[name])


def fuzz_all(
    path: Path,
    goal: int,
    seconds: float,
    turn_s: float,
    folders: Sequence[str],
    report: Callable[[str], None],
) -> bool:
    """Until `goal` inputs are counted in the file at `path`, or so long; whether none failed. folders:
    options that say where inputs are kept."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done = turns(path)
        count = sum(turn["inputs"] for turn in done)
        bad = sum(turn["crashes"] + turn["hangs"] for turn in done)
        report(
            f"{count:,} of {goal:,} inputs in {sum(t['seconds'] for t in done) / 60:.1f} min, {bad} failed"
        )
        if count >= goal:
            return not bad
        name = next_target(done)
        command = [sys.executable, "-m", "tests.faults", "fuzz", name, "--seconds", str(turn_s)]
        # What the product logs is dropped with standard error, unless the run itself fails.
        ended = subprocess.run(
            [*command, "--json", str(path), *folders], stderr=subprocess.PIPE, text=True, check=False
        )
        if len(turns(path)) == len(done):
            report(f"{name} ended with {ended.returncode}: {ended.stderr[-2000:]}")
            return False
    return not any(turn["crashes"] + turn["hangs"] for turn in turns(path))
