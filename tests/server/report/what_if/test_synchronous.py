"""What links cost, of ceilings made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from roofline_server.model.what_if import LinkCost
from roofline_server.report.what_if import synchronous
from roofline_server.report.what_if.what_if import WhatIfQuery, what_if
from roofline_server.sentences import what_if as texts

from ..odd_jobs import Odd, stored


class _Ceiling:
    operation = name = ""

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
    assert synchronous._benched(view, 2) == LinkCost(5e-5, 1e9)
    monkeypatch.setattr(synchronous, "of_network", lambda view, host, known: [_Ceiling("network", "c", 1e9)])
    assert synchronous._benched(view, 2) is None, "of that one no latency is known"


def test_a_lone_rank_would_exchange_over_the_link_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [_Ceiling("network", "a", 5e9), _Ceiling("network", "b", 1e9)]
    every += [_Ceiling("latency", "b", 1e-4), _Ceiling("latency", "a", 1e-5)]
    monkeypatch.setattr(synchronous, "hosts", lambda view: ["a"])
    monkeypatch.setattr(synchronous, "ceilings", lambda view, host: every)
    monkeypatch.setattr(synchronous, "of_network", lambda view, host, known: every[:1])
    monkeypatch.setattr(synchronous, "counts", lambda ceiling: True)
    view: Any = None
    assert synchronous._benched(view, 1) == LinkCost(5e-5, 1e9)


def test_of_a_lone_rank_nobody_knows_what_others_cost(tmp_path: Path) -> None:
    view = stored(tmp_path, [Odd("ddp", range(60))], False).view("job")
    assert view is not None
    found = what_if(view, WhatIfQuery(ranks=4))
    assert found.step.then.value is None and found.step.then.reason == texts.ALONE_WITHOUT_LINK
