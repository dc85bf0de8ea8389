"""Runs a part of the measurement in a process of its own, so that nothing it does can take the agent down.

The child writes JSON lines: {"ceiling": ...}, {"note": ...} and {"sweep": [...]} as they come, at the end
{"end": true}, or {"error": ...} and exit status 1. What it wrote before it died is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from roofline_agent.calibrate.calibration import Ceiling, SweepPoint, ceiling_from_json, point_from_json
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.priority import prefer
from roofline_agent.child_process import ChildProcess, Exit

_HINTS = {
    "SIGILL": "the CPU refused an instruction that /proc/cpuinfo promises; report its model and flags",
    "SIGSEGV": "a fault of the measuring code; report the CPU's model and flags",
    "SIGKILL": "perhaps for memory; look at the memory limit of its cgroup and at the kernel log",
    "SIGXCPU": "by the limit on CPU time; raise it (ulimit -t)",
}


class PartResult(NamedTuple):
    """What a child reported until its end; `error`: why that came too early."""

    ceilings: tuple[Ceiling, ...] = ()
    notes: tuple[str, ...] = ()
    sweep: tuple[SweepPoint, ...] = ()
    error: str = ""


def run_child(
    command: Sequence[str],
    progress: Callable[[Ceiling], None],
    directory: Path,
    timeout_s: float,
    preferred: bool = True,
) -> PartResult:
    """What the command measures, started in `directory`. Leaves no process behind, however it ends.

    preferred: it comes before all others that share the CPUs, where we may have that done.

    Its `error` says so if the command fails, is killed, or takes longer than `timeout_s`; raises
    CalibrationError for a line that makes no sense.
    """
    ceilings: list[Ceiling] = []
    notes: list[str] = []
    sweep: list[SweepPoint] = []
    error, ended = "", False
    with ChildProcess(command, directory=directory) as child:
        if preferred:
            prefer(child.pid)
        try:
            for line in child.lines(total_s=timeout_s):
                try:
                    message = json.loads(line)
                    if "ceiling" in message:
                        ceilings.append(ceiling_from_json(message["ceiling"]))
                    if "note" in message:
                        notes.append(str(message["note"]))
                    sweep += [point_from_json(point) for point in message.get("sweep", [])]
                    error = str(message.get("error", error))
                    ended = ended or bool(message.get("end"))
                except (ValueError, TypeError, KeyError, AttributeError) as wrong:
                    raise CalibrationError(
                        f"the measuring process wrote an unexpected line: {line[:200]!r}"
                    ) from wrong
                if "ceiling" in message:
                    progress(ceilings[-1])
        except TimeoutError:
            error = (
                f"the calibration was stopped, as it took longer than {timeout_s:g} s{_after(ceilings)}; "
                "try again when the node is less busy"
            )
        else:
            is_complete = ended and child.exit.status == 0
            error = "" if is_complete else error or explain_exit(child.exit, ceilings)
    return PartResult(tuple(ceilings), tuple(notes), tuple(sweep), error)


def explain_exit(ended: Exit, ceilings: Sequence[Ceiling]) -> str:
    """Why there are no more ceilings than these."""
    if ended.signal:
        hint = f": {_HINTS[ended.signal]}" if ended.signal in _HINTS else ""
        return f"the measuring process was killed by {ended.signal}{_after(ceilings)}{hint}"
    return (
        f"the measuring process ended with status {ended.status} and no result{_after(ceilings)}: "
        f"{ended.reason}"
    )


def _after(ceilings: Sequence[Ceiling]) -> str:
    return f" after {ceilings[-1].name}" if ceilings else " before its first result"
