"""With what the page asks, and how much at once."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from roofline.joining import Access, Servers, client_file, save_servers
from roofline_client import Client, Refused, channel
from roofline_client.page import asking
from roofline_client.page.asking import Asking, Busy
from roofline_client.page.live import Found, Turns

SERVER = "127.0.0.1:1"
OWN = Access("authority", "own")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Access | None]:
    """Accesses with which channels were opened; this user has joined the server."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    save_servers(client_file({"XDG_CONFIG_HOME": str(tmp_path)}), Servers(SERVER, {SERVER: OWN}))
    found: list[Access | None] = []
    real = channel.open_channel

    def open_channel(grpc: Any, server: str, access: Access | None, options: Any) -> Any:
        found.append(access)
        return real(grpc, server, None, options)

    monkeypatch.setattr(channel, "open_channel", open_channel)
    return found


def ask(page: Asking, access: Access | None) -> None:
    async def once() -> None:
        await page.ask(access, lambda client: None)

    asyncio.run(once())
    page.close()


def test_a_page_for_everybody_never_uses_what_its_user_has(opened: list[Access | None]) -> None:
    ask(Asking(SERVER), None)
    assert opened == [None]


def test_a_page_of_its_user_asks_with_what_he_has_and_a_visitors_with_the_visitors(
    opened: list[Access | None],
) -> None:
    ask(Asking(SERVER, OWN), None)
    visitor = Access("authority", "visitor")
    ask(Asking(SERVER, OWN), visitor)
    assert opened == [OWN, visitor]


def test_a_question_that_fails_says_why_and_when_it_was_answered_last(
    opened: list[Access | None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = [Refused("no"), Found('{"jobs": []}', True, 0.1), Refused("no"), KeyError("role")]

    def question(client: Client) -> Found:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    page = Asking(SERVER)
    again = page.again(None, question, None, 0)

    async def scenario() -> list[Any]:
        return [json.loads((await again()).shown) for _ in range(4)]

    monkeypatch.setattr("time.time", lambda: 1234.5)
    shown = asyncio.run(scenario())
    page.close()
    assert shown == [
        {"error": "no"},
        {"jobs": []},
        {"error": "no", "answered_ms": 1234500},
        {"error": "the page itself failed (KeyError), and its log says where", "answered_ms": 1234500},
    ]
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_of_too_many_questions_the_last_are_refused(
    opened: list[Access | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_WAITING", 2)
    page, go_on = Asking(SERVER), threading.Event()

    async def work() -> None:
        waiting = [asyncio.create_task(page.ask(None, lambda client: go_on.wait(20))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match="try again"):
            await page.ask(None, lambda client: None)
        go_on.set()
        await asyncio.gather(*waiting)
        assert await page.ask(None, lambda client: "again") == "again"

    asyncio.run(work())
    page.close()


def test_a_question_that_somebody_left_keeps_its_turn_until_it_is_answered(
    opened: list[Access | None],
) -> None:
    page, turns, order = Asking(SERVER), Turns(), []
    begun, go_on = threading.Event(), threading.Event()

    def slow(client: Any) -> None:
        begun.set()
        go_on.wait(20)
        order.append("left")

    async def work() -> None:
        left = asyncio.create_task(page.ask(None, slow, turns))
        await asyncio.to_thread(begun.wait, 20)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        picks = [asyncio.create_task(page.ask(None, lambda client: order.append("never"), turns))]
        await asyncio.sleep(0)
        picks[0].cancel()  # another pick came meanwhile
        picks.append(asyncio.create_task(page.ask(None, lambda client: order.append("newest"), turns)))
        await asyncio.sleep(0.05)
        assert order == []
        go_on.set()
        await asyncio.wait_for(picks[1], 20)

    asyncio.run(work())
    page.close()
    assert order == ["left", "newest"]
