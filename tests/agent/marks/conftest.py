"""A receiver for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .receiving import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
