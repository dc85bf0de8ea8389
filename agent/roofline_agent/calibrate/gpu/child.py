"""Runs a bench in a process of its own, reads its lines, and ends it when it is silent for too long.

Each line is {"ceiling": ...}, {"gpu": ...}, {"note": ...} or {"done": true}. What it wrote before a crash
counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...child_process import ChildProcess
from ..calibration import Ceiling, ceiling_from_json
from ..child import explain_exit


class BenchResult(NamedTuple):
    """What a bench measured, and notes on the rest."""

    ceilings: tuple[Ceiling, ...]
    gpus: tuple[dict[str, Any], ...]  # what the driver reports of each: bench.nvml.Facts
    notes: tuple[str, ...]


def run_bench(
    command: Sequence[str], environ: Mapping[str, str], progress: Callable[[Ceiling], None], silence_s: float
) -> BenchResult:
    """Never raises for what the command does; leaves no process behind.

    silence_s: so long it may write nothing. How long the whole takes depends on how many GPUs there are.
    """
    ceilings: list[Ceiling] = []
    gpus: list[dict[str, Any]] = []
    notes: list[str] = []
    done = False
    try:
        child = ChildProcess(command, environ)
    except OSError as error:
        return BenchResult((), (), (f"{command[0]} cannot be run: {error.strerror}",))
    with child:
        try:
            for line in child.lines(silence_s):
                try:
                    message = json.loads(line)
                    if "ceiling" in message:
                        ceilings.append(ceiling_from_json(message["ceiling"]))
                        progress(ceilings[-1])
                    elif "gpu" in message:
                        gpus.append(dict(message["gpu"]))
                    elif "note" in message:
                        notes.append(str(message["note"]))
                    done = done or "done" in message
                except (ValueError, TypeError) as error:
                    what = f"the measurement wrote a line that is none of ours ({error})"
                    notes.append(f"{what}: {line[:100].encode()!r}")
        except TimeoutError:
            after = f" after {ceilings[-1].name}" if ceilings else ""
            notes.append(f"the measurement was stopped: nothing new for {silence_s:g} s{after}")
        else:
            if not done:
                notes.append(explain_exit(child.exit, ceilings))
    return BenchResult(tuple(ceilings), tuple(gpus), tuple(notes))
