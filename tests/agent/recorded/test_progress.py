"""How far an import is, while it reads and sends."""

from __future__ import annotations

from pathlib import Path

import pytest
from roofline_agent.commands import progress
from roofline_agent.commands.progress import ProgressLine
from roofline_agent.recorded.reader import read
from roofline_agent.recorded.text import BLOCK_BYTES, HEAD_BYTES


def test_reading_says_how_far_it_is(tmp_path: Path) -> None:
    file = tmp_path / "perf.csv"
    line = " 1.000000000,5,,cycles,1,100.00,,\n"
    file.write_text(
        "".join(f"{at:12.9f},5,,cycles,1,100.00,,\n" for at in range(1, 3 * BLOCK_BYTES // len(line)))
    )
    said: list[int] = []
    assert not read(str(file), progress=said.append).is_empty
    assert said[0] <= HEAD_BYTES
    assert said == sorted(said) and len(said) >= 3
    assert said[-1] == file.stat().st_size


def test_line_is_drawn_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    line = ProgressLine()
    line.show("half")
    line.clear()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    line = ProgressLine()
    line.show("half")
    line.show("not yet again")
    line.clear()
    line.clear()
    assert capsys.readouterr().err == "\r\x1b[Khalf\r\x1b[K"
