"""Where the page is served, before it is."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
import time
from pathlib import Path

import pytest
from roofline_client.page.serve import Place, settings
from roofline_client.page.shield import refusal
from starlette.datastructures import Headers

from ..command_line import one_line, run
from .page_process import started


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:7646"),
        ("127.0.0.2", "http://127.0.0.2:7646"),
        ("::1", "http://[::1]:7646"),
        ("[::1]", "http://[::1]:7646"),
        ("localhost", "http://localhost:7646"),
    ],
)
def test_browsers_are_served_at_the_address_that_is_printed(host: str, address: str) -> None:
    place = Place(host, 7646)
    assert place.address == address
    hosts = settings("127.0.0.1:1", place, "").hosts
    assert hosts is not None
    asked = Headers({"host": address.partition("://")[2]})
    assert refusal(asked, "GET", frozenset(hosts)) is None
    assert refusal(Headers({"host": "evil.example:7646"}), "GET", frozenset(hosts)) is not None


def test_page_for_others_is_closed_before_its_server_answers() -> None:
    """It may turn out to ask for no tokens."""
    assert settings("127.0.0.1:1", Place("0.0.0.0", 7646), "").is_open is False
    assert settings("127.0.0.1:1", Place("127.0.0.1", 7646), "").is_open is None


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.0.0.1:²", "127.0.0.1:65536", "7646"])
def test_address_that_nobody_can_open_is_a_usage_error(listen: str) -> None:
    done = run("page", "--listen", listen, "--server", "127.0.0.1:1")
    assert done.returncode == 2 and "must be HOST:PORT" in done.stderr


def test_files_that_are_no_certificate_and_its_key_are_one_line(tmp_path: Path) -> None:
    one, other = tmp_path / "one.pem", tmp_path / "other.pem"
    missing = tmp_path / "missing.pem"
    one.write_text("no certificate")
    other.write_text("no key")
    for certificate, key, why in (
        (missing, other, f"cannot read {missing}: No such file"),
        (one, missing, f"cannot read {missing}: No such file"),
        (one, tmp_path, f"cannot read {tmp_path}: Is a directory"),
        (one, other, f"{one} and {other} are no certificate in PEM and its key"),
    ):
        options = ("--certificate", str(certificate), "--key", str(key))
        done = run("page", "--listen", "127.0.0.1:1", "--server", "127.0.0.1:1", *options)
        assert done.returncode == 1 and why in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_port_that_is_taken_is_one_line_and_no_address_is_printed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run("page", "--listen", listen, "--server", "127.0.0.1:1")
    assert done.returncode == 1
    one_line(done, 1, f"cannot listen at {listen}")


@pytest.mark.parametrize("interrupts", [1, 2])
def test_end_by_interrupts_writes_nothing_more(interrupts: int, tmp_path: Path) -> None:
    page = started("127.0.0.1:1", tmp_path)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)) as connection:
        connection.request("GET", "/events/jobs")
        assert connection.getresponse().readline()
        for _ in range(interrupts):
            page.process.send_signal(signal.SIGINT)
            time.sleep(0.01)
        _, errors = page.process.communicate(timeout=20)
    assert page.process.returncode == 130
    assert [line for line in errors.splitlines() if "the page is at" not in line] == []
