"""How long a worker step uses the link of a server, of evidence made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from roofline_server.model.evidence import CounterEvidence
from roofline_server.report.what_if import servers


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 MB/s."""
    monkeypatch.setattr(servers, "ceilings", lambda view, host: [])
    monkeypatch.setattr(servers, "of_network", lambda view, host, every: [SimpleNamespace(value=200e6)])


def moved(megabytes: float) -> CounterEvidence:
    return CounterEvidence(megabytes * 1e6, 2.0, 20, 0.0)


def use(sent: CounterEvidence | None, received: CounterEvidence | None, host: str = "n1") -> float | None:
    server: Any = SimpleNamespace(host=host, sent=sent, received=received)
    view: Any = None
    return servers.link_use(view, server, 10.0, {"n2", "n3"})


@pytest.mark.usefixtures("link")
def test_the_busier_direction_of_a_link_is_a_station() -> None:
    # 2 s of 20 steps: 10 MB a step one way, 5 MB the other.
    assert use(moved(100), moved(200)) == pytest.approx(0.05)
    assert use(None, moved(100)) == pytest.approx(0.025)


@pytest.mark.usefixtures("link")
def test_a_link_is_in_use_no_longer_than_all_the_time() -> None:
    assert use(moved(900), None) == pytest.approx(0.1), "it was measured while others used it, too"


@pytest.mark.usefixtures("link")
def test_a_link_that_is_not_known_is_no_station(monkeypatch: pytest.MonkeyPatch) -> None:
    assert use(None, None) is None
    assert use(moved(100), None, host="n2") is None, "a worker beside it needs no link"
    monkeypatch.setattr(servers, "of_network", lambda view, host, every: [])
    assert use(moved(100), None) is None
