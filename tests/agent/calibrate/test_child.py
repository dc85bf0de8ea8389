"""What the parent makes of a child's end. The children are real processes."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from roofline_agent.calibrate import child as child_module
from roofline_agent.calibrate.calibration import Ceiling, SweepPoint
from roofline_agent.calibrate.child import PartResult, explain_exit, run_child
from roofline_agent.calibrate.errors import CalibrationError
from roofline_agent.child_process import Exit

PEAK = Ceiling("peak.f32.256", "compute", "", "f32", 256, 2e11, "FLOP/s", 0.03, "FMA", 17)
POINT = SweepPoint("read", False, 2, 16384, 5e11)


def write(**message: object) -> str:
    return f"print({json.dumps(json.dumps(message))}, flush=True)"


WRITE_PEAK, WRITE_END = write(ceiling=PEAK._asdict()), write(end=True)


def run(program: str, tmp_path: Path, timeout_s: float = 60.0) -> tuple[PartResult, list[Ceiling]]:
    seen: list[Ceiling] = []
    return run_child([sys.executable, "-c", program], seen.append, tmp_path, timeout_s), seen


def error(program: str, tmp_path: Path, timeout_s: float = 60.0) -> str:
    return run(program, tmp_path, timeout_s)[0].error


def test_all_that_is_written_comes_through(tmp_path: Path) -> None:
    program = "; ".join((WRITE_PEAK, write(note="no L3"), write(sweep=[POINT._asdict()]), WRITE_END))
    assert run(program, tmp_path) == (PartResult((PEAK,), ("no L3",), (POINT,)), [PEAK])


def test_what_was_written_before_a_death_is_kept(tmp_path: Path) -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    part, seen = run(f"{WRITE_PEAK}; {write(note='no L3')}; {kill}", tmp_path)
    assert (part.ceilings, part.notes, seen) == ((PEAK,), ("no L3",), [PEAK])
    assert part.error.startswith("the measuring process was killed by SIGILL after peak.f32.256")


def test_illegal_instruction_is_named_with_the_last_result(tmp_path: Path) -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    text = error(f"{WRITE_PEAK}; {kill}", tmp_path)
    assert re.search(r"killed by SIGILL after peak\.f32\.256: the CPU refused", text)


def test_death_in_the_middle_of_a_line_is_told_as_a_death(tmp_path: Path) -> None:
    half = "import os; print('{\"ceil', end='', flush=True); os.kill(os.getpid(), 9)"
    assert "killed by SIGKILL before its first result: perhaps for memory" in error(half, tmp_path)


def test_error_of_the_child_is_the_error(tmp_path: Path) -> None:
    program = """import json, sys; print(json.dumps({"error": "no aarch64"})); sys.exit(1)"""
    assert error(program, tmp_path) == "no aarch64"


def test_failure_without_a_word_on_stdout_quotes_the_last_line_of_stderr(tmp_path: Path) -> None:
    text = error("{}[7]", tmp_path)
    assert text.endswith("status 1 and no result before its first result: KeyError: 7")


def test_success_without_an_end_is_an_error(tmp_path: Path) -> None:
    assert "status 0 and no result after peak.f32.256" in error(WRITE_PEAK, tmp_path)


@pytest.mark.parametrize("line", ["hello", "[]", '{"ceiling": {}}', '{"sweep": [7]}', '{"note"'])
def test_unexpected_output_is_quoted(tmp_path: Path, line: str) -> None:
    with pytest.raises(CalibrationError, match=re.escape(f"unexpected line: {line!r}")):
        run(f"print({line!r})", tmp_path)


def test_child_that_hangs_is_stopped(tmp_path: Path) -> None:
    text = error("import time; time.sleep(600)", tmp_path, timeout_s=0.5)
    assert "longer than 0.5 s before its first result" in text


def test_interrupt_of_the_parent_stops_the_child(tmp_path: Path) -> None:
    # The child writes its pid in place of a method, then stays; the interrupt comes while the parent reads.
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
        explain_exit(Exit(-63, ""), [])
        == "the measuring process was killed by signal 63 before its first result"
    )


@pytest.mark.parametrize("preferred", [True, False])
def test_child_comes_before_others_only_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, preferred: bool
) -> None:
    raised: list[int] = []
    monkeypatch.setattr(child_module, "prefer", raised.append)
    run_child([sys.executable, "-c", WRITE_END], lambda ceiling: None, tmp_path, 60.0, preferred)
    assert len(raised) == preferred
