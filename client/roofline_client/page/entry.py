"""Whether visitors log in at all, which depends on the server: one that asks for no tokens is everybody's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from roofline.joining import speaks_tls

AGAIN_S = 2.0  # so often at most a server is asked that has not answered yet


def asks_for_nothing(server: str) -> bool | None:
    """Whether the server at HOST:PORT answers everybody; None: it does not answer at all."""
    has_tls = speaks_tls(server)
    return None if has_tls is None else not has_tls


class Entry:
    """Whether visitors log in to the page of a server, which need not answer when the page starts."""

    def __init__(
        self, server: str, is_open: bool | None, looks: Callable[[str], bool | None] = asks_for_nothing
    ) -> None:
        """is_open: whether nobody logs in; None: not known yet."""
        self._server, self._is_open, self._looks = server, is_open, looks
        self._next = 0.0

    @property
    def has_login(self) -> bool:
        """As far as it is known."""
        return self._is_open is False

    async def lets_all_in(self) -> bool:
        """Also while the server does not answer: there is nothing to see but that."""
        if self._is_open is None and time.monotonic() >= self._next:
            self._next = time.monotonic() + AGAIN_S
            found = await asyncio.to_thread(self._looks, self._server)
            if self._is_open is None:  # another look may have ended before
                self._is_open = found
        return not self.has_login
