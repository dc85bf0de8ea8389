"""Where `roofline-server` serves the live page and HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading

import pytest
from roofline_server import listening, page
from roofline_server.errors import ConfigError, Unavailable

from tests.fakes import free_port


@pytest.fixture(autouse=True)
def _free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "DEFAULT_PAGE", f"127.0.0.1:{free_port()}")


def test_the_page_is_on_by_default_and_at_loopback() -> None:
    assert listening.page_place("", guarded=False) == listening.DEFAULT_PAGE
    assert page.DEFAULT_PAGE.startswith("127.0.0.1:")


def test_it_can_be_turned_off() -> None:
    assert listening.page_place("off", guarded=True) == ""


def test_without_what_it_needs_the_server_goes_on_and_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(page, "NEEDS", ("no_such_package",))
    with caplog.at_level(logging.INFO):
        assert listening.page_place("", guarded=False) == ""
    assert "no live page" in caplog.text and "pip install 'roofline-profiler[page]'" in caplog.text
    with pytest.raises(ConfigError, match="pip install"):
        listening.page_place("127.0.0.1:1", guarded=False)


def test_where_its_port_is_taken_the_server_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    host, _, port = listening.DEFAULT_PAGE.rpartition(":")
    with socket.socket() as other, caplog.at_level(logging.INFO):
        other.bind((host, int(port)))
        other.listen()
        assert listening.page_place("", guarded=False) == ""
    assert "no live page" in caplog.text and "--page HOST:PORT" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_where_the_port_that_was_asked_for_is_taken_the_server_says_so(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(listening, "FREE_S", 0.2)
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as other:
        try:
            other.bind((host.strip("[]"), 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        other.listen()
        place = f"{host}:{other.getsockname()[1]}"
        with pytest.raises(Unavailable, match=r"in use; --page HOST:PORT chooses another"):
            listening.page_place(place, guarded=False)
    assert listening.page_place(place, guarded=False) == place


def test_a_port_that_becomes_free_in_a_moment_is_waited_for() -> None:
    """As that of a server that was killed, whose page ends a little later."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        ended = threading.Timer(0.3, other.close)
        ended.start()
        page.check_free(f"127.0.0.1:{other.getsockname()[1]}", 20)
        ended.join()


def test_a_port_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--page 127\.0\.0\.1:0 must name a port"):
        listening.page_place("127.0.0.1:0", guarded=False)


def test_a_port_of_the_server_itself_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    own = f"0.0.0.0:{listening.DEFAULT_PAGE.rpartition(':')[2]}"
    with pytest.raises(ConfigError, match="is where the server itself listens"):
        listening.page_place(listening.DEFAULT_PAGE, False, ("", own))
    with caplog.at_level(logging.INFO):
        assert listening.page_place("", False, (own, "")) == ""
    assert "no live page" in caplog.text
    assert listening.page_place("", False, ("127.0.0.1:1", "")) == listening.DEFAULT_PAGE


def test_http_leaves_the_port_for_joining_alone() -> None:
    assert listening.http_place("", True) == ("127.0.0.1:7643", False, True)
    assert listening.http_place("", True, listening.join_address("0.0.0.0:7642")) == (
        "127.0.0.1:7644",
        False,
        True,
    )
    assert listening.http_place("", True, listening.join_address("0.0.0.0:8000")) == (
        "127.0.0.1:7643",
        False,
        True,
    )


@pytest.mark.parametrize(
    ("http", "listen", "clash"),
    [
        ("0.0.0.0:7643", "0.0.0.0:7642", True),
        ("127.0.0.1:7643", "0.0.0.0:7642", True),
        ("10.0.0.1:7643", "10.0.0.1:7642", True),
        ("10.0.0.1:7643", "10.0.0.2:7642", False),
        ("0.0.0.0:7644", "0.0.0.0:7642", False),
    ],
)
def test_http_at_the_port_for_joining_is_refused_with_the_reason(http: str, listen: str, clash: bool) -> None:
    assert listening.http_place(http, True) == (http, True, http.startswith("127"))
    if clash:
        with pytest.raises(ConfigError, match=r"is where agents and clients join.* as 7644"):
            listening.http_place(http, True, listening.join_address(listen))
    else:
        assert listening.http_place(http, True, listening.join_address(listen)) is not None


def test_an_address_that_others_reach_needs_tokens() -> None:
    with pytest.raises(ConfigError, match="can be reached by others") as refused:
        listening.page_place("0.0.0.0:7645", guarded=False)
    assert "add --insecure" not in str(refused.value), "it would be refused in the same words"


@pytest.mark.parametrize(
    ("ending", "level"), [("os.kill(os.getpid(), 15)", "INFO"), ("os._exit(6)", "WARNING")]
)
def test_page_that_systemd_ends_with_its_server_is_no_warning(
    ending: str, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def keep() -> None:
        kept = asyncio.create_task(page.keep_page([sys.executable, "-c", f"import os; {ending}"], 60.0))
        while "ended with" not in caplog.text:
            await asyncio.sleep(0.02)
        kept.cancel()

    with caplog.at_level(logging.INFO):
        asyncio.run(asyncio.wait_for(keep(), 30))
    assert [record.levelname for record in caplog.records] == [level]
