"""What links cost, of ceilings made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from roofline_server.model.what_if import LinkCost
from roofline_server.report.what_if import synchronous


class _Ceiling:
    def __init__(self, kind: str, peer: str, value: float) -> None:
        self.kind, self.peer, self.value = kind, peer, value


def test_latency_and_bandwidth_are_those_of_the_same_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node a has measured itself, too: within it a message is ten times as fast."""
    to_b, to_itself = _Ceiling("network", "b", 1e9), _Ceiling("network", "a", 5e9)
    every = [to_b, to_itself, _Ceiling("latency", "b", 1e-4), _Ceiling("latency", "a", 1e-5)]
    monkeypatch.setattr(synchronous, "hosts", lambda view: ["a"])
    monkeypatch.setattr(synchronous, "ceilings", lambda view, host: every)
    monkeypatch.setattr(synchronous, "of_network", lambda view, host, known: [to_b])
    view: Any = None
    assert synchronous._benched(view) == LinkCost(5e-5, 1e9)
    monkeypatch.setattr(synchronous, "of_network", lambda view, host, known: [_Ceiling("network", "c", 1e9)])
    assert synchronous._benched(view) is None, "of that one no latency is known"
