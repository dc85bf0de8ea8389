from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .lines import Line


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    line = Line(tmp_path, monkeypatch)
    yield line
    line.close()
