from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from roofline.log_lines import WINDOW_S, LogLimit, PlainLines

LINES = 10


def written(limit: LogLimit, line: int, text: str = "batch %d refused") -> str | None:
    record = logging.LogRecord("server", logging.WARNING, "service.py", line, text, (7,), None)
    return record.getMessage() if limit.filter(record) else None


def test_flood_of_one_statement_is_cut_and_counted_and_others_go_on() -> None:
    now = [0.0]
    limit = LogLimit(LINES, lambda: now[0])
    lines = [written(limit, 10) for _ in range(1000)]
    assert lines[0] == "batch 7 refused"
    assert [line for line in lines if line] == lines[:LINES]
    assert "left out for a minute" in (lines[LINES - 1] or "")
    assert written(limit, 11) == "batch 7 refused"
    now[0] = WINDOW_S
    assert (
        written(limit, 10) == f"batch 7 refused ({1000 - LINES} lines like this one were left out before it)"
    )
    assert written(limit, 10) == "batch 7 refused"


def test_name_of_a_job_can_neither_begin_a_line_nor_change_the_terminal() -> None:
    name = "x\n2026-11-25 21:42:26,773 roofline-agent ERROR forged\x1b[31m"
    record = logging.LogRecord("agent", logging.INFO, "daemon.py", 1, "found job %s", (name,), None)
    line = PlainLines("roofline-agent").format(record)
    assert line.isprintable()
    assert line.endswith("found job x?2026-11-25 21:42:26,773 roofline-agent ERROR forged?[31m")


def test_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("a\x1b[31m")
    except ValueError as error:
        why = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("agent", logging.ERROR, "daemon.py", 1, "the stream failed", (), why)
    first, *traceback = PlainLines("roofline-agent").format(record).splitlines()
    assert first.endswith("the stream failed")
    assert traceback[0].startswith("Traceback") and traceback[-1] == "ValueError: a?[31m"


@pytest.mark.parametrize(
    ("level", "priority"), [(logging.INFO, ""), (logging.WARNING, "<4>"), (logging.ERROR, "<3>")]
)
def test_line_of_the_journal_has_its_priority(level: int, priority: str) -> None:
    record = logging.LogRecord("agent", level, "daemon.py", 1, "the disk is full", (), None)
    line = PlainLines("roofline-agent").format(record)
    assert PlainLines("roofline-agent", in_journal=True).format(record) == f"{priority}{line}"


def test_only_what_the_journal_takes_has_priorities(tmp_path: Path) -> None:
    """JOURNAL_STREAM is inherited by programs whose stderr is another."""
    program = """
import logging, sys
from roofline.log_lines import before_error, log_to_stderr
log_to_stderr("roofline-server", logging.INFO, 10)
logging.warning("full")
print(f"{before_error()}roofline-server: ended", file=sys.stderr)
"""
    path = tmp_path / "stderr"
    with path.open("wb") as file:
        journal = os.fstat(file.fileno())
        for stream in (f"{journal.st_dev}:{journal.st_ino}", f"{journal.st_dev}:1"):
            environ = {**os.environ, "JOURNAL_STREAM": stream}
            subprocess.run([sys.executable, "-c", program], check=True, env=environ, stderr=file)
    first, ended, *others = path.read_text().splitlines()
    assert first.startswith("<4>") and ended == "<3>roofline-server: ended"
    assert len(others) == 2 and "<" not in "".join(others)


def test_peer_that_leaves_amid_an_answer_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    program = """
import grpc._cython.cygrpc as cygrpc, logging
from roofline.log_lines import log_to_stderr
log_to_stderr("roofline-server", logging.INFO, 10)
try:
    raise cygrpc.ExecuteBatchError("Failed")
except cygrpc.ExecuteBatchError:
    cygrpc._LOGGER.exception("ExecuteBatchError raised in core by servicer method [%s]", "/Export")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    (line,) = capfd.readouterr().err.splitlines()
    assert " INFO a peer left amid an answer: " in line and line.endswith("[/Export]")
