"""Who looks at the page: sessions behind a cookie, each with what it may ask the server with.

A token is never in an address or a log: it comes in the body of one POST, and stays in this process.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from roofline.joining import Access

LASTS_S = 12 * 3600.0  # since it was used last
LONGEST_S = 24 * 3600  # since it was opened, as long as its access lasts
MOST = 1000  # sessions; the one used longest ago goes
TRIES, TRIES_S = 10, 60.0  # tokens that may be tried in so many seconds, from one address
MOST_TRYING = 4096  # addresses that are remembered; the one that tried longest ago goes


def cookie_of(host: str) -> str:
    """The name of the cookie at this address (`Host`). Browsers send cookies of one port to all others of a
    host: pages there would end each other's sessions."""
    port = host.rpartition(":")[2]
    return f"roofline_session_{port}" if port.isascii() and port.isdecimal() else "roofline_session"


class Visitors:
    """Sessions by their secret names."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sessions: dict[str, tuple[float, float, Access | None]] = {}  # name -> begin, last use, access
        self._tries: dict[str, list[float]] = {}  # address -> when

    def open(self, access: Access | None) -> str:
        """A new session's name; access None: the server asks for none, or this user's own does."""
        self._drop_ended()
        while len(self._sessions) >= MOST:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[name] = self._now(), self._now(), access
        return name

    def knows(self, name: str) -> bool:
        """Whether this is a session, which is used now."""
        self._drop_ended()
        if (found := self._sessions.pop(name, None)) is None:
            return False
        begun, _, access = found
        self._sessions[name] = begun, self._now(), access
        return True

    def lasts(self, name: str) -> bool:
        """Whether this is a session; an open stream of events does not use it."""
        found = self._sessions.get(name)
        return found is not None and not self._has_ended(*found[:2])

    def access(self, name: str) -> Access | None:
        """What a known session asks with."""
        return self._sessions[name][2]

    def close(self, name: str) -> None:
        self._sessions.pop(name, None)

    def _drop_ended(self) -> None:
        """With their accesses, though nobody comes with their names again."""
        for name, (begun, used, _) in list(self._sessions.items()):
            if self._has_ended(begun, used):
                del self._sessions[name]

    def _has_ended(self, begun: float, used: float) -> bool:
        now = self._now()
        return now - used >= LASTS_S or now - begun >= LONGEST_S

    def may_try(self, address: str) -> bool:
        """Whether one more token may be tried now from there; counts it."""
        now = self._now()
        tries = [tried for tried in self._tries.pop(address, ()) if now - tried < TRIES_S]
        may = len(tries) < TRIES
        self._tries[address] = [*tries, now] if may else tries
        if len(self._tries) > MOST_TRYING:
            del self._tries[next(iter(self._tries))]
        return may
