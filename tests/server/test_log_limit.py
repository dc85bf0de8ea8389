from __future__ import annotations

import logging

from roofline_server.log_limit import LINES, WINDOW_S, LogLimit


def written(limit: LogLimit, line: int, text: str = "batch %d refused") -> str | None:
    record = logging.LogRecord("server", logging.WARNING, "service.py", line, text, (7,), None)
    return record.getMessage() if limit.filter(record) else None


def test_flood_of_one_statement_is_cut_and_counted_and_others_go_on() -> None:
    now = [0.0]
    limit = LogLimit(lambda: now[0])
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
