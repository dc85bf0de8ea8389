"""Sessions of the page, and which requests are served."""

from __future__ import annotations

import pytest
from roofline.joining import Access
from roofline_client.page.shield import A_SECOND, BURST, LOOPBACK, MOST_KNOWN, RateLimit, refusal
from roofline_client.page.visitors import (
    LASTS_S,
    LONGEST_S,
    MOST,
    MOST_TRYING,
    TRIES,
    TRIES_S,
    Visitors,
    cookie_of,
)
from starlette.datastructures import Headers


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_asks_with_what_its_visitor_brought() -> None:
    visitors = Visitors()
    first, second = visitors.open(Access("pem", "one")), visitors.open(Access("pem", "two"))
    assert first != second and visitors.knows(first) and visitors.knows(second)
    assert visitors.access(second) == Access("pem", "two")
    visitors.close(first)
    assert not visitors.knows(first) and not visitors.knows("") and visitors.knows(second)


def test_a_session_ends_when_it_is_not_used() -> None:
    clock = Clock()
    visitors = Visitors(clock)
    name = visitors.open(None)
    clock.now = LASTS_S - 1
    assert visitors.knows(name)
    clock.now += LASTS_S - 1
    assert visitors.knows(name)
    clock.now += LASTS_S
    assert not visitors.knows(name) and not visitors.knows(name)


def test_sessions_that_have_ended_are_dropped_though_nobody_asks_for_them() -> None:
    clock = Clock()
    visitors = Visitors(clock)
    visitors.open(Access("pem", "one"))
    clock.now = LASTS_S
    assert not visitors.knows("another") and not visitors._sessions
    visitors.open(Access("pem", "two"))
    clock.now += LASTS_S
    newest = visitors.open(None)
    assert list(visitors._sessions) == [newest]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:7645", "roofline_session_7645"),
        ("[::1]:7646", "roofline_session_7646"),
        ("[::1]", "roofline_session"),
        ("head", "roofline_session"),
        ("", "roofline_session"),
        ("head:a=b; c", "roofline_session"),
    ],
)
def test_pages_at_two_ports_of_a_host_have_cookies_of_their_own(host: str, name: str) -> None:
    assert cookie_of(host) == name


def test_sessions_are_bounded_and_the_oldest_goes() -> None:
    visitors = Visitors()
    names = [visitors.open(None) for _ in range(MOST + 1)]
    assert not visitors.knows(names[0]) and visitors.knows(names[1]) and visitors.knows(names[-1])


def test_tokens_cannot_be_guessed_quickly() -> None:
    clock = Clock()
    visitors = Visitors(clock)
    assert all(visitors.may_try("10.0.0.1") for _ in range(TRIES))
    assert not visitors.may_try("10.0.0.1") and visitors.may_try("10.0.0.2"), "others are not locked out"
    clock.now = TRIES_S
    assert visitors.may_try("10.0.0.1")
    for number in range(MOST_TRYING):
        assert visitors.may_try(str(number))
    assert len(visitors._tries) <= MOST_TRYING


def test_a_session_ends_with_its_access_however_much_it_is_used() -> None:
    clock = Clock()
    visitors = Visitors(clock)
    name = visitors.open(None)
    while clock.now < LONGEST_S - 3600:
        clock.now += 3600
        assert visitors.knows(name)
    clock.now = LONGEST_S
    assert not visitors.knows(name)


def test_an_open_stream_ends_with_its_session_and_does_not_prolong_it() -> None:
    clock = Clock()
    visitors = Visitors(clock)
    name = visitors.open(None)
    clock.now = LASTS_S - 1
    assert visitors.lasts(name) and not visitors.lasts("another")
    clock.now = LASTS_S
    assert not visitors.lasts(name)


def test_who_asks_too_often_waits_and_others_do_not() -> None:
    clock = Clock()
    rate = RateLimit(clock)
    assert all(rate.allows("a") for _ in range(int(BURST)))
    assert not rate.allows("a") and rate.allows("b")
    clock.now += 1
    assert sum(rate.allows("a") for _ in range(100)) == A_SECOND
    for number in range(2 * MOST_KNOWN):
        assert rate.allows(str(number))
    assert len(rate._left) <= MOST_KNOWN


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"host": "localhost:1", "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, 403),
        ("GET", {"host": "localhost:1", "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, None),
        ("POST", {"host": "localhost:1", "origin": "http://localhost:1", "content-length": "x"}, 413),
        ("GET", {"host": "127.0.0.1:7645"}, None),
        ("GET", {"host": "localhost:7645"}, None),
        ("GET", {"host": "[::1]:7645"}, None),
        ("GET", {"host": "evil.example:7645"}, 421),  # a name that was made to point here
        ("GET", {}, 421),
        ("POST", {"host": "localhost:1", "origin": "http://localhost:1", "content-length": "9"}, None),
        ("POST", {"host": "localhost:1", "origin": "http://evil.example", "content-length": "9"}, 403),
        ("POST", {"host": "localhost:1", "content-length": "9"}, 403),
        ("POST", {"host": "localhost:1", "origin": "http://localhost:1", "content-length": "99999"}, 413),
        ("POST", {"host": "localhost:1", "origin": "http://localhost:1"}, 413),
    ],
)
def test_which_requests_are_refused(method: str, headers: dict[str, str], status: int | None) -> None:
    found = refusal(Headers(headers), method, frozenset(LOOPBACK))
    assert (found.status_code if found else None) == status
