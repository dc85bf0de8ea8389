"""The programs of examples/papers, as modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.end_to_end.conftest import REPOSITORY

EXAMPLES = REPOSITORY / "examples"


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports one by its name, from their folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES / "papers"))
    return importlib.import_module
