"""What every answer of the page has, and which requests get none: a layer around the app."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing comes from elsewhere; plotly writes styles into its pictures, and saves them as data.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # under no-referrer browsers send `Origin: null` with our own forms
    "Cross-Origin-Opener-Policy": "same-origin-allow-popups",  # Perfetto's page answers its opener
    "Cross-Origin-Resource-Policy": "same-origin",
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MOST_BODY = 16 << 10  # bytes
# Requests of one address: so many at once, and so many a second. Behind `ssh -L` all browsers have one.
BURST, A_SECOND = 400.0, 50.0
MOST_KNOWN = 4096  # addresses


class RateLimit:
    """Who asks too often is refused for a while."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._left: dict[str, tuple[float, float]] = {}  # address -> requests left, when

    def allows(self, address: str) -> bool:
        """Whether one more request may be served; counts it."""
        now = self._now()
        left, when = self._left.pop(address, (BURST, now))
        left = min(BURST, left + A_SECOND * (now - when))
        if len(self._left) >= MOST_KNOWN:
            del self._left[next(iter(self._left))]  # not seen for the longest time
        self._left[address] = (max(0.0, left - 1), now)
        return left >= 1


class Shield:
    """hosts: names by which the page is reached, as a browser writes them; another page's name that was made
    to point here (DNS rebinding) gets nothing. None: any, behind TLS."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] | None = LOOPBACK) -> None:
        self._app, self._hosts = app, None if hosts is None else frozenset(hosts)
        self._rate = RateLimit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        is_begun = False  # and not at its end

        async def guarded(message: Message) -> None:
            nonlocal is_begun
            is_begun = bool(message.get("more_body", message["type"] == "http.response.start"))
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        answer = refusal(Headers(scope=scope), str(scope["method"]), self._hosts)
        if not self._rate.allows((scope.get("client") or ("",))[0]):
            answer = PlainTextResponse("too many requests: wait a second\n", 429, {"Retry-After": "1"})
        await (answer or self._app)(scope, receive, guarded)
        if is_begun:  # events, which just stop when the page ends: uvicorn would call that an error
            await send({"type": "http.response.body", "body": b""})


def refusal(headers: Headers, method: str, hosts: frozenset[str] | None) -> PlainTextResponse | None:
    """Why a request is not served; None: it is."""
    host = headers.get("host", "")
    if hosts is not None and host.rpartition(":")[0] not in hosts and host not in hosts:
        return PlainTextResponse("this page has another name\n", 421)
    if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
        return PlainTextResponse("asked by another page\n", 403)
    if method == "POST":
        origin = headers.get("origin", "")
        if origin.partition("://")[2] != host:
            return PlainTextResponse("a form of another page\n", 403)
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > MOST_BODY:
            return PlainTextResponse("too long\n", 413)
    return None
