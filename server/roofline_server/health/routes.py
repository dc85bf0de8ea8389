"""What is answered over HTTP, and to whom."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from ..access.audit import Audit
from ..access.guard import BEARER, refusal
from ..access.tokens import Token, Tokens
from ..errors import ServerError
from . import metrics
from .condition import to_json
from .health import Health
from .http import Answer, Request, Response

if TYPE_CHECKING:
    from ..access.certificates import Certificates  # cryptography, which not every server needs

READING = "/roofline.v1.Query/"  # who may call this may see numbers


class ReaderCheck:
    """Asks for a reader's token, or for a reader's certificate in its place."""

    def __init__(self, tokens: Tokens, audit: Audit, certificates: Certificates | None = None) -> None:
        """certificates: of a server to which tokens are good for joining alone."""
        self._tokens, self._audit, self._certificates = tokens, audit, certificates

    async def reader(self, request: Request) -> Token | Response:
        """Who asks, or why it is refused."""
        try:
            token = await asyncio.to_thread(self._holder, request)
        except ServerError as error:
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n")
        why = refusal(token, READING)
        if token is not None and why is None:
            return token
        assert why is not None
        self._audit.refused(request.path, token, why[1], request.peer)
        if token is not None:
            return Response(HTTPStatus.FORBIDDEN, f"{why[1]}\n")
        if self._certificates is not None:
            return Response(HTTPStatus.FORBIDDEN, "it takes a reader's certificate\n")
        text = "it takes a reader's token: Authorization: Bearer TOKEN\n"
        return Response(HTTPStatus.UNAUTHORIZED, text, headers={"WWW-Authenticate": "Bearer"})

    def _holder(self, request: Request) -> Token | None:
        """Raises ServerError."""
        if self._certificates is not None:
            return self._certificates.holder_of(request.certificate) if request.certificate else None
        given = request.headers.get("authorization", "")
        secret = given[len(BEARER) :] if given.startswith(BEARER) else ""
        return self._tokens.holder(secret) if secret else None


def routes(health: Health, check: ReaderCheck | None = None) -> Answer:
    """check: who passes may see numbers; None: everybody may."""

    async def answer(request: Request) -> Response:
        if request.path == "/healthz":  # the event loop answers: that is all it says
            return Response(HTTPStatus.OK, "ok\n")
        if request.path == "/readyz":
            return _ready(health)
        if request.path not in ("/metrics", "/status"):
            paths = "/healthz, /readyz, /metrics, /status"
            return Response(HTTPStatus.NOT_FOUND, f"there is nothing here but {paths}\n")
        visitor = None if check is None else await check.reader(request)
        if isinstance(visitor, Response):
            return visitor
        condition = await health.condition()
        if request.path == "/status":
            return Response(HTTPStatus.OK, to_json(condition), "application/json")
        # Figures are of all jobs: who may not see all of these gets those of the server alone.
        jobs = None if visitor is not None and visitor.limit else health.jobs.asked()
        return Response(HTTPStatus.OK, metrics.text(condition, jobs), metrics.CONTENT_TYPE)

    return answer


def _ready(health: Health) -> Response:
    why = health.reasons()
    if not why:
        return Response(HTTPStatus.OK, "ok\n")
    return Response(HTTPStatus.SERVICE_UNAVAILABLE, "".join(f"{one}\n" for one in why))
