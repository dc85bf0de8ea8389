from __future__ import annotations

import pytest
from roofline_server.model.servers import ServerTimes, slow_servers, uneven_servers
from roofline_server.sentences.waits import uneven_bytes

STEP_S = 0.1


def server(name: str, samples: int = 100, **known: float) -> ServerTimes:
    nothing = dict.fromkeys(("behind", "sending", "received", "cpu_wait", "stopped"))
    return ServerTimes(name, "node", samples=samples, **{**nothing, **known})


def test_server_that_does_not_take_what_it_is_sent_is_named() -> None:
    (found,) = slow_servers([server("ps:0", behind=0.1), server("ps:1", behind=0.6)], STEP_S)
    assert (found.rank, found.kind) == ("ps:1", "server")
    assert found.share == pytest.approx(0.5)
    assert "60%" in found.evidence[0]


def test_server_that_is_slow_to_reach_is_named() -> None:
    servers = [server("ps:0", sending=0.1, received=1e6), server("ps:1", sending=0.6, received=1e6)]
    (found,) = slow_servers(servers, STEP_S)
    assert found.rank == "ps:1"
    assert found.share == pytest.approx(0.5)


def test_server_that_is_sent_more_is_not_slow_but_uneven() -> None:
    servers = [server("ps:0", sending=0.1, received=1e6), server("ps:1", sending=0.4, received=4e6)]
    assert slow_servers(servers, STEP_S) == []
    assert uneven_servers(servers) == [uneven_bytes("ps:1", 0.8)]
    assert uneven_servers(servers[:1]) == []


def test_servers_alike_are_not_named() -> None:
    assert slow_servers([server("ps:0", behind=0.5), server("ps:1", behind=0.55)], STEP_S) == []
    assert slow_servers([server("ps:0", behind=0.9)], STEP_S) == []
    assert slow_servers([server("ps:0", behind=0.01), server("ps:1", behind=0.15)], STEP_S) == []


def test_few_samples_name_no_server() -> None:
    found = [server("ps:0", behind=0.15, samples=20), server("ps:1", behind=0.4, samples=20)]
    assert slow_servers(found, STEP_S) == []


def test_stopped_server_is_named() -> None:
    (found,) = slow_servers([server("ps:0", stopped=0.5)], STEP_S)
    assert found.kind == "server"
    assert "stopped" in found.evidence[0]


def test_nothing_known_of_servers_names_none() -> None:
    assert slow_servers([server("ps:0"), server("ps:1")], STEP_S) == []
