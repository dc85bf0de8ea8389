from __future__ import annotations

import pytest
from roofline_server.correlate.parts import PartTotal
from roofline_server.model.network import Inside
from roofline_server.records import Metric
from roofline_server.report.inside import UNKNOWN, inside
from roofline_server.store.store import Store
from roofline_server.store.view import JobView

from .test_roofs import A, B, job_on, number_of


def told(view: JobView, index: int, peer: str, sent: float, received: float = 0.0) -> list[PartTotal]:
    """What a worker moved to and from a peer."""
    each = (("tcp_sent_bytes", sent), ("tcp_received_bytes", received))
    return [
        PartTotal(number_of(view, index), 1, peer, Metric("tcp", name, 1, "byte", 1, 1, True, ""), 1.0, moved)
        for name, moved in each
    ]


def test_bytes_to_peers_on_the_same_host_stayed_inside(store: Store) -> None:
    view = job_on(store, A, B)  # workers 0 and 1 on hosta, 2 and 3 on hostb
    parts = [
        *told(view, 0, "worker:1", 30, 10),
        *told(view, 0, "worker:2", 60, 90),
        *told(view, 0, "127.0.0.1:9", 10, 0),
        *told(view, 0, "", 100, 100),
        *told(view, 2, "worker:3", 500, 500),
    ]
    view = view._replace(parts=parts)
    found = inside(view, [number_of(view, 0)])
    assert (found.sent, found.received, found.note) == (pytest.approx(0.4), pytest.approx(0.1), "")


def test_of_one_host_nothing_is_left_out(store: Store) -> None:
    view = job_on(store, A)
    view = view._replace(parts=told(view, 0, "worker:1", 30, 10))
    assert inside(view, [number_of(view, 0)]) == Inside()


def test_bytes_not_known_by_peer_are_said_to_be(store: Store) -> None:
    view = job_on(store, A, B)._replace(parts=())
    assert inside(view, [number_of(view, 0)]) == Inside(note=UNKNOWN)
