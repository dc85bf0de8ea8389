"""A measuring process that is silent, dies, or writes nonsense costs what it did not write, nothing else."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import time
from pathlib import Path

from roofline_agent.calibrate.calibration import Ceiling, ceiling_to_json
from roofline_agent.calibrate.gpu.child import BenchResult, run_bench

from tests.fakes import wait_for

CEILING = Ceiling("launch", "overhead", "", "", 0, 4.2e-6, "s", 0.0, "how", 5, device="gpu 0")
WRITE = "import json, os, sys, time\ndef write(m): print(json.dumps(m), flush=True)\n"


def bench(code: str, silence_s: float = 60.0, seen: list[Ceiling] | None = None) -> BenchResult:
    program = WRITE + textwrap.dedent(code).replace("CEILING", repr(ceiling_to_json(CEILING)))
    progress = (seen if seen is not None else []).append
    return run_bench([sys.executable, "-c", program], dict(os.environ), progress, silence_s)


def test_everything_that_is_written_comes_through_in_order() -> None:
    seen: list[Ceiling] = []
    found = bench(
        "write({'ceiling': CEILING}); write({'gpu': {'number': 1}}); write({'note': 'n'});write({'done': 1})",
        60,
        seen,
    )
    assert found == BenchResult((CEILING,), ({"number": 1},), ("n",))
    assert seen == [CEILING]


def test_what_was_written_before_a_crash_counts() -> None:
    found = bench("write({'ceiling': CEILING}); os.kill(os.getpid(), 11)")
    assert found.ceilings == (CEILING,)
    (note,) = found.notes
    assert "SIGSEGV" in note and "after launch" in note


def test_error_of_the_framework_is_passed_on() -> None:
    (note,) = bench("raise ImportError('libcublas.so.12: no such file')").notes
    assert "libcublas.so.12: no such file" in note and "status 1" in note


def test_silence_ends_it_and_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    found = bench(
        f"""
        import subprocess
        child = subprocess.Popen(["sleep", "600"])
        open({str(pid)!r}, "w").write(str(child.pid))
        write({{'ceiling': CEILING}})
        time.sleep(600)
        """,
        silence_s=1.0,
    )
    assert time.monotonic() - began < 60
    assert found.ceilings == (CEILING,)
    assert found.notes == ("the measurement was stopped: nothing new for 1 s after launch",)
    wait_for(lambda: _has_ended(int(pid.read_text())), "the end of what it started")


def _has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return state.rsplit(")", 1)[1].split()[0] in "ZX"


def test_lines_of_others_are_noted_and_passed_over() -> None:
    bad = json.dumps({"ceiling": {"name": 5}})
    found = bench(f"print('hello'); print({bad!r}); write({{'ceiling': CEILING}}); write({{'done': 1}})")
    assert found.ceilings == (CEILING,)
    assert len(found.notes) == 2 and all("none of ours" in note for note in found.notes)


def test_program_that_is_not_there() -> None:
    found = run_bench(["/nowhere/python"], {}, [].append, 1.0)
    assert found == BenchResult((), (), ("/nowhere/python cannot be run: No such file or directory",))
