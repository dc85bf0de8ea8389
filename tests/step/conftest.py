"""A sender, and an agent that receives what it sends."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import roofline_step
from roofline_step._sender import Sender

from tests.fakes import FakeAgent


class NothingKnown:
    """Stands for the account of the thread where that is not what a test is about."""

    on = False

    def over(self, step: int, now: int) -> None:
        return None

    def starts(self, step: int, now: int) -> None:
        return None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.sock"


@pytest.fixture
def agent(path: Path) -> Iterator[FakeAgent]:
    with FakeAgent(path) as agent:
        yield agent


@pytest.fixture
def sender(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sender]:
    """A fresh sender in the place of the module's own, which looks for an agent every time."""
    made = Sender([str(path)])
    monkeypatch.setattr(sys.modules["roofline_step._sender"], "RETRY_NS", 0)
    monkeypatch.setattr(roofline_step, "_agent", made)
    monkeypatch.setattr(roofline_step, "_send", made.send)
    monkeypatch.setattr(roofline_step, "_training_marks", False)
    monkeypatch.setattr(roofline_step, "thread_account", NothingKnown())
    yield made
    made.close()
