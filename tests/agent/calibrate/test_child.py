"""What the parent makes of a child's end. The children are real processes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from roofline_agent.calibrate.child import explain_exit, run_child
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.calibrate.records import Calibration, Ceiling, to_json

PEAK = Ceiling("peak.f32.256", "compute", "", "f32", 256, 2e11, "FLOP/s", 0.03, "FMA", 17)
CALIBRATION = Calibration("node1", "a CPU", 2, 18, (PEAK,))
SAY_PEAK = f"print({json.dumps(json.dumps({'ceiling': PEAK._asdict()}))}, flush=True)"
SAY_RESULT = f"print({json.dumps(json.dumps({'calibration': to_json(CALIBRATION)}))}, flush=True)"


def run(program: str, tmp_path: Path, timeout_s: float = 60.0) -> tuple[Calibration, list[Ceiling]]:
    heard: list[Ceiling] = []
    return run_child([sys.executable, "-c", program], heard.append, tmp_path, timeout_s), heard


def test_progress_and_result_come_through(tmp_path: Path) -> None:
    assert run(f"{SAY_PEAK}; {SAY_RESULT}", tmp_path) == (CALIBRATION, [PEAK])


def test_illegal_instruction_is_named_with_the_last_result(tmp_path: Path) -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    with pytest.raises(CalibrationError, match=r"killed by SIGILL after peak\.f32\.256: the CPU refused"):
        run(f"{SAY_PEAK}; {kill}", tmp_path)


def test_death_in_the_middle_of_a_line_is_told_as_a_death(tmp_path: Path) -> None:
    half = "import os; print('{\"ceil', end='', flush=True); os.kill(os.getpid(), 9)"
    with pytest.raises(
        CalibrationError, match=r"killed by SIGKILL before its first result: perhaps for memory"
    ):
        run(half, tmp_path)


def test_error_of_the_child_is_the_error(tmp_path: Path) -> None:
    program = """import json, sys; print(json.dumps({"error": "no aarch64"})); sys.exit(1)"""
    with pytest.raises(CalibrationError, match=r"^no aarch64$"):
        run(program, tmp_path)


def test_failure_without_a_word_on_stdout_quotes_the_last_line_of_stderr(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="status 1 and no result before its first result: KeyError: 7"):
        run("{}[7]", tmp_path)


def test_success_without_a_result_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="status 0 and no result"):
        run("pass", tmp_path)


def test_unexpected_output_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match="unexpected line: 'hello"):
        run("print('hello')", tmp_path)


def test_child_that_hangs_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"longer than 0\.5 s before its first result"):
        run("import time; time.sleep(600)", tmp_path, timeout_s=0.5)


def test_interrupt_of_the_parent_stops_the_child(tmp_path: Path) -> None:
    # The child says its pid in the place of a host, then stays; the interrupt comes while the parent listens.
    peak = {**PEAK._asdict(), "method": "PID"}
    program = (
        "import json, os, time\n"
        f"print(json.dumps({{'ceiling': {peak!r}}}).replace('PID', str(os.getpid())), flush=True)\n"
        "time.sleep(600)"
    )
    pids = []

    def interrupt(ceiling: Ceiling) -> None:
        pids.append(int(ceiling.method))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_child([sys.executable, "-c", program], interrupt, tmp_path, 60.0)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_unknown_signal_is_given_by_number() -> None:
    assert (
        explain_exit(-63, None, "") == "the measuring process was killed by signal 63 before its first result"
    )
