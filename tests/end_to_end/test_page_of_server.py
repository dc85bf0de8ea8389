"""`roofline-server --page`: the page comes and goes with the server, and lets in who has a token."""

from __future__ import annotations

import signal
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest

from tests.fakes import has_ipv6

from .conftest import COMMANDS, Site, wait_until
from .guarded import Person, ask, free_place
from .guarded import guarded as guarded

pytestmark = pytest.mark.slow
MEMBER = "a visitor of the live page"


def log_in(place: str, token: str, **more: str) -> Any:
    scheme = "https" if more else "http"
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"{scheme}://{place}"}
    return ask(place, "/login", "POST", urlencode({"token": token}), **form, **more)


def pages() -> list[psutil.Process]:
    found = (one for one in psutil.process_iter(["cmdline"]) if "page" in (one.info["cmdline"] or [])[3:4])
    return list(found)


def test_the_page_ends_with_a_server_that_is_killed_and_begins_again_when_it_is_killed(site: Site) -> None:
    place = free_place()
    server = site.server("--page", place)
    wait_until(lambda: ask(place, "/api/v1/jobs"), 30, "the page answers")
    assert ask(place, "/api/v1/jobs")[0] == 200, "this server asks for no tokens"
    (page,) = (one for one in pages() if place in one.cmdline())
    page.kill()
    wait_until(lambda: ask(place, "/"), 30, "the page is back")
    server.send_signal(signal.SIGKILL)
    wait_until(lambda: ask(place, "/") is None, 10, "the page has ended with its server")


def test_who_has_a_readers_token_sees_jobs_until_it_is_revoked(guarded: tuple[Person, str]) -> None:
    owner, place = guarded
    assert ask(place, "/api/v1/jobs")[0] == 401
    assert ask(place, "/")[1]["Location"] == "/login"
    token = owner.token("--role", "reader", "--name", "browser")
    status, headers, _ = log_in(place, token)
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and token not in cookie
    assert cookie.startswith(f"roofline_session_{place.rpartition(':')[2]}=")
    session = {"Cookie": cookie.partition(";")[0]}
    assert ask(place, "/api/v1/jobs", **session)[0] == 200
    (member,) = (
        line.split()[0]
        for line in owner.said("roofline-server", "token", "list").splitlines()
        if MEMBER in line
    )
    owner.said("roofline-server", "token", "revoke", member)
    wait_until(lambda: ask(place, "/api/v1/jobs", **session)[0] != 200, 20, "the token is refused")
    ask(place, "/logout", "POST", "x", Origin=f"http://{place}", **session)
    assert ask(place, "/api/v1/jobs", **session)[0] == 401


def test_who_is_not_logged_in_gets_no_page_in_place_of_a_file(guarded: tuple[Person, str]) -> None:
    _, place = guarded
    for path in ("/download/timeline.json.gz?job=42", "/download/report.csv?job=42"):
        status, _, text = ask(place, path)
        assert (status, "log in first" in text) == (401, True)


def test_other_tokens_are_refused_and_said_why(guarded: tuple[Person, str]) -> None:
    owner, place = guarded
    for token, why in (
        ("no token", "no join token"),
        (owner.token("--role", "agent"), ""),
        (owner.token("--role", "reader")[:-4] + "abcd", ""),
    ):
        status, headers, text = log_in(place, token)
        assert status == 403 and why in text and "Set-Cookie" not in headers and f'"{token}"' not in text
    log = Path(owner.home).parent.joinpath("server.log").read_text()
    assert "roofline1." not in log, "tokens stand in no log"


def test_a_page_that_is_started_before_its_server_lets_in_who_has_a_token(site: Site, tmp_path: Path) -> None:
    owner = Person(tmp_path / "head", site.address)
    owner.said("roofline-server", "init")
    once, place = owner.token("--role", "reader"), free_place()
    page = [COMMANDS / "roofline-client", "page", "--server", site.address, "--listen", place]
    site.start(page, "page.log", HOME=str(tmp_path / "visitor"))
    wait_until(lambda: ask(place, "/"), 30, "the page answers")
    assert "no roofline-server answers" in ask(place, "/api/v1/jobs")[2]
    site.start([COMMANDS / "roofline-server", "--no-page"], "server.log", **owner.environ)
    wait_until(lambda: ask(place, "/")[0] == 303, 30, "the page asks for tokens")
    status, headers, _ = log_in(place, once)
    assert status == 303
    session = {"Cookie": headers["Set-Cookie"].partition(";")[0]}
    assert ask(place, "/api/v1/jobs", **session)[0] == 200


def test_a_page_that_others_reach_speaks_tls(site: Site, tmp_path: Path) -> None:
    owner = Person(tmp_path / "head", site.address)
    owner.said("roofline-server", "init")
    place = free_place()
    everywhere = place.replace("127.0.0.1", "0.0.0.0")
    site.start([COMMANDS / "roofline-server", "--page", everywhere], "server.log", **owner.environ)
    wait_until(lambda: ask(place, "/login", tls="yes"), 30, "the page answers")
    status, headers, _ = log_in(place, owner.token("--role", "reader"), tls="yes")
    assert status == 303 and "Secure" in headers["Set-Cookie"]
    host, _, port = place.rpartition(":")
    assert not has_ipv6() or ssl.get_server_certificate(("::1", int(port)))
    before = ssl.get_server_certificate((host, int(port)))
    owner.said("roofline-server", "init", "--renew")
    wait_until(lambda: ssl.get_server_certificate((host, int(port))) != before, 30, "the new one is shown")
    session = {"Cookie": headers["Set-Cookie"].partition(";")[0]}
    assert ask(place, "/api/v1/jobs", tls="yes", **session)[0] == 200, "who was let in stays so"


def test_a_page_that_others_reach_without_tokens_is_refused(site: Site) -> None:
    done = site.start(
        [COMMANDS / "roofline-server", "--page", "0.0.0.0:7645", "--listen", site.address], "log"
    )
    assert done.wait(60) == 3
    assert "--page 0.0.0.0:7645 can be reached by others" in site.log("log")
