"""Whether visitors of the page log in."""

from __future__ import annotations

import asyncio
import socket
import threading

from roofline.joining import speaks_tls
from roofline_client.page import entry
from roofline_client.page.entry import Entry

from ..fake_server import answer, serving


def test_server_is_looked_for_until_it_answers() -> None:
    seen = [None, None, False]
    page = Entry("head:1", None, lambda _: seen.pop(0))

    async def ask() -> bool:
        page._next = 0.0
        return await page.lets_all_in()

    assert [asyncio.run(ask()), page.has_login] == [True, False], "it may become either"
    assert [asyncio.run(ask()), asyncio.run(ask()), page.has_login] == [True, False, True]
    assert not asyncio.run(ask()), "it is not asked again"


def test_server_that_does_not_answer_is_not_asked_by_every_request() -> None:
    looks = []

    def look(server: str) -> None:
        looks.append(server)

    page = Entry("head:1", None, look)

    async def ask() -> None:
        for _ in range(20):
            assert await page.lets_all_in()

    asyncio.run(ask())
    assert looks == ["head:1"]


def test_server_that_is_down_is_no_server_without_tls() -> None:
    with serving(answer(None), answer(None)) as asked:
        assert speaks_tls(asked.address) is False and entry.asks_for_nothing(asked.address) is True
    assert speaks_tls(asked.address) is None and entry.asks_for_nothing(asked.address) is None


def test_forwarded_port_whose_server_is_down_is_no_server_without_tls() -> None:
    with socket.socket() as forwarded:
        forwarded.bind(("127.0.0.1", 0))
        forwarded.listen()
        closing = threading.Thread(target=lambda: forwarded.accept()[0].close())
        closing.start()
        assert speaks_tls(f"127.0.0.1:{forwarded.getsockname()[1]}") is None
        closing.join()
