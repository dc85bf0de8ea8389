"""Lets a call through to its service if its token, or the certificate in its place, allows that."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import grpc
from roofline.v1 import access_pb2, access_pb2_grpc

from ..errors import ServerError
from ..records import Limit
from .audit import Audit
from .tokens import ROLES, Token, Tokens

if TYPE_CHECKING:
    from .certificates import Certificates  # cryptography, which a server without certificates never needs

log = logging.getLogger(__name__)

ENROL = "/roofline.v1.Access/Enrol"
# Says whether the server can work, and nothing else.
OPEN = frozenset(("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"))
BENCH_NET = "/roofline.v1.Query/BenchNet"
TRACE_JOB = "/roofline.v1.Query/TraceJob"
# The first part of a method's name that fits -> roles that may call it. What is not here nobody may.
ALLOWED: Mapping[str, frozenset[str]] = {
    "/roofline.v1.Ingest/": frozenset(("agent",)),
    BENCH_NET: frozenset(("admin",)),  # it makes two nodes busy
    TRACE_JOB: frozenset(("admin",)),  # it slows steps of a job
    "/roofline.v1.Query/": frozenset(("reader", "admin")),
}
# A token that was revoked ends what its holder has open within so long; of who reads no answers the call is
# broken off.
LOOK_S, FAREWELL_S = 1.5, 0.5
BEARER = "Bearer "
_LIMIT: ContextVar[Limit | None] = ContextVar("limit")  # of this call's token


class Guard(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Stands before all services of a server."""

    def __init__(self, tokens: Tokens, audit: Audit, certificates: Certificates | None = None) -> None:
        """certificates: of a server to which tokens are good for joining alone."""
        self._tokens = tokens
        self._audit = audit
        self._certificates = certificates
        self._open: dict[asyncio.Task[Any], tuple[str, Any]] = {}  # streams -> id of the token, context

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        handler = await continuation(details)
        if handler is None:  # no such method: gRPC says so
            return None
        if details.method in OPEN:
            return handler
        token = self._holder(details)
        if self._certificates is not None and not (token and token.joins):
            return self._certified(handler, details.method, self._certificates)
        why = refusal(token, details.method)
        if why is not None:
            return self._refusing(handler, details.method, token, *why)
        # gRPC gives each call a task of its own, in which it runs the handler too.
        _LIMIT.set(None if token is None else token.limit)
        if handler.response_streaming and token is not None:
            return self._followed(handler, token)
        return handler

    @staticmethod
    def limit() -> Limit | None:
        """Limit of the caller of the method that runs now. Raises LookupError where no guard stood before
        it."""
        return _LIMIT.get()

    def enrolment(self) -> Enrolment:
        """The service by which others join."""
        return Enrolment(self._tokens, self._audit, self._certificates)

    def _holder(self, details: Any) -> Token | None:
        secret = secret_of(details.invocation_metadata)
        try:
            return self._tokens.holder(secret) if secret else None
        except ServerError as error:
            log.error("nobody is let in: %s", error)
            return None

    def _refusing(
        self, handler: Any, method: str, token: Token | None, code: grpc.StatusCode, text: str
    ) -> Any:
        """A handler of the same kind that refuses: only there it is known who calls."""

        async def one(request: Any, context: Any) -> None:
            self._audit.refused(method, token, text, context.peer())
            await context.abort(code, text)

        async def several(request: Any, context: Any) -> AsyncIterator[Any]:
            await one(request, context)
            yield None

        return _handler_like(handler, several if handler.response_streaming else one)

    def _followed(self, handler: Any, token: Token) -> Any:
        """The handler of a call with many answers, which end when the token does."""

        async def several(asked: Any, context: Any) -> AsyncIterator[Any]:
            async for answer in self._follow(_several(handler)(asked, context), token, context):
                yield answer

        return _handler_like(handler, several)

    async def _follow(self, answers: AsyncIterator[Any], token: Token, context: Any) -> AsyncIterator[Any]:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = token.id, context
        try:
            async for answer in answers:
                yield answer
        finally:
            self._open.pop(task, None)

    def _certified(self, handler: Any, method: str, certificates: Certificates) -> Any:
        """A handler of the same kind that looks at the certificate first: gRPC shows it to the call alone."""

        async def admit(context: Any) -> Token:
            token = certificates.holder(context)
            why = None if token and method == ENROL else refusal(token, method)
            if why is not None:
                self._audit.refused(method, token, why[1], context.peer())
                await context.abort(*why)
            assert token is not None
            _LIMIT.set(token.limit)
            return token

        async def one(request: Any, context: Any) -> Any:
            await admit(context)
            return await handler.unary_unary(request, context)

        async def several(asked: Any, context: Any) -> AsyncIterator[Any]:
            token = await admit(context)
            async for answer in self._follow(_several(handler)(asked, context), token, context):
                yield answer

        return _handler_like(handler, several if handler.response_streaming else one)

    async def watch(self) -> None:
        """End the calls with many answers of tokens that are no longer valid. Never returns."""
        while True:
            await asyncio.sleep(LOOK_S)
            if not self._open:
                continue
            try:
                valid = self._tokens.valid_ids()
            except ServerError as error:
                log.error("tokens: %s", error)
                continue
            gone = [(task, *of) for task, of in self._open.items() if of[0] not in valid]
            await asyncio.gather(*(_end(*one) for one in gone))


async def _end(task: asyncio.Task[Any], number: str, context: Any) -> None:
    log.info("token %s is no longer good: its stream is ended", number)
    # A task that is only cancelled leaves the other end waiting. This waits behind answers that nobody reads,
    # and fails where the call ends by itself just now: that must not end the watch over others.
    with contextlib.suppress(Exception):
        await asyncio.wait_for(context.abort(grpc.StatusCode.UNAUTHENTICATED, UNKNOWN), FAREWELL_S)
    task.cancel()


class Enrolment(access_pb2_grpc.AccessServicer):
    """Gives those who come with a join token a token or certificate of their own, or a newer certificate."""

    def __init__(self, tokens: Tokens, audit: Audit, certificates: Certificates | None = None) -> None:
        self._tokens = tokens
        self._audit = audit
        self._certificates = certificates

    async def Enrol(self, request: Any, context: Any) -> Any:
        secret, certificates = secret_of(context.invocation_metadata()), self._certificates
        if certificates is not None and (known := certificates.holder(context)) is not None:
            return await asyncio.to_thread(self._certify, known, certificates, "renewed", context.peer())
        join, roles = self._tokens.join, list(request.roles)
        try:
            mutual, lasts_s = certificates is not None, request.lasts_s
            made = await asyncio.to_thread(join, secret, request.name, roles, mutual, lasts_s)
        except ServerError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if made is None:  # used up between the guard and here
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, UNKNOWN)
            return None
        token, own = made
        if certificates is not None:
            return await asyncio.to_thread(self._certify, token, certificates, "joined", context.peer())
        self._audit.add("joined", token=token.id, role=token.role, name=token.name, peer=context.peer())
        log.info("%s %s has joined (token %s)", token.role, token.name, token.id)
        return access_pb2.EnrolResponse(token=own, role=token.role)

    def _certify(self, token: Token, certificates: Certificates, event: str, peer: str) -> Any:
        made = certificates.issue(token)
        # Of who joins for a while only its certificate may be good for longer.
        most = token.expires if event == "joined" else None
        self._tokens.extend(token.id, made.ends if most is None else min(made.ends, most))
        self._audit.add(event, token=token.id, role=token.role, name=token.name, peer=peer)
        log.info("%s %s has %s (certificate of %s)", token.role, token.name, event, token.id)
        return access_pb2.EnrolResponse(
            role=token.role, certificate=made.certificate, key=made.key, ends=int(made.ends)
        )


UNKNOWN = "this token is not known here, or expired, revoked or used up: ask for a new one and join again"


def refusal(token: Token | None, method: str) -> tuple[grpc.StatusCode, str] | None:
    """Why this may not be called; None: it may."""
    if token is None:
        return grpc.StatusCode.UNAUTHENTICATED, UNKNOWN
    if method == ENROL or token.joins:
        if method == ENROL and token.joins:
            return None
        text = "this token is for joining only" if token.joins else "this token is not for joining"
        return grpc.StatusCode.PERMISSION_DENIED, text
    roles = next((roles for begin, roles in ALLOWED.items() if method.startswith(begin)), frozenset())
    if token.role in roles:
        return None
    if not roles:
        return grpc.StatusCode.PERMISSION_DENIED, "nobody may do this"
    needed = next(role for role in ROLES if role in roles)  # who may least of those who may do it
    text = (
        f"this needs {_of(needed)} token, yours is {_of(token.role)}: `roofline-server token new --role "
        f"{needed}` on the head node"
    )
    return grpc.StatusCode.PERMISSION_DENIED, text


def _of(role: str) -> str:
    """ "an admin's"."""
    return f"{'an' if role[:1] in 'aeiou' else 'a'} {role}'s"


def secret_of(metadata: Any) -> str:
    """What the caller sent as `authorization: Bearer SECRET`; "" where it did not."""
    for key, value in metadata or ():
        if key == "authorization" and isinstance(value, str) and value.startswith(BEARER):
            return value[len(BEARER) :]
    return ""


def _several(handler: Any) -> Any:
    """What gives the many answers of a handler."""
    return handler.stream_stream if handler.request_streaming else handler.unary_stream


def _handler_like(handler: Any, behaviour: Any) -> Any:
    """One of the same kind that does something else."""
    kind = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }[handler.request_streaming, handler.response_streaming]
    return kind(behaviour, handler.request_deserializer, handler.response_serializer)
