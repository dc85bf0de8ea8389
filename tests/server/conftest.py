from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from roofline_server.store.store import Store

from .builders import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "data")
    yield opened
    opened.close()
