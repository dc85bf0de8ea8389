"""The client's only channel of gRPC: calls within bounds of time, and refusals as errors of this package."""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
from roofline.answers.granted import SECONDS, SHARE
from roofline.joining import (
    OUT,
    Access,
    CannotJoin,
    client_file,
    clock_behind,
    enrol,
    open_channel,
    parse_token,
    renewed,
    replace_access,
    speaks_tls,
)
from roofline.texts import utc

from .address import DEFAULT_SERVER, known_servers
from .errors import ClientError, NotFound, Refused, Unreachable
from .tables.names import clean
from .waiting import OtherThread

MAX_ANSWER_BYTES = 64 << 20
# The health service that every gRPC server may have, and the answer of one that cannot work now. As bytes: a
# program that uses this package may have the messages' classes from elsewhere, and no two can be loaded.
HEALTH, NOT_SERVING = "/grpc.health.v1.Health/Check", b"\x08\x02"
HEALTH_S = 2.0
# How gRPC says that it gave up connecting, after 20 s.
_NO_ANSWER = ("handshaker shutdown", "Endpoint closing")

NO_ACCESS = Access("", "")  # of who must not use what this user has

log = logging.getLogger(__name__)  # a program that sets up no logging has it on stderr
_warned: set[str] = set()  # servers of which it was said that the certificate was not renewed


class Channel:
    """One server, as this user may reach it."""

    def __init__(self, server: str, timeout: float, access: Access | None = None) -> None:
        """server: HOST:PORT; "": the one joined last, else the one on this machine. timeout: of a question,
        and of each message of a stream, in s. access: what to reach it with; NO_ACCESS: with nothing; None:
        what this user has from joining it. Raises ClientError."""
        servers = known_servers()
        self.server = server or servers.newest or DEFAULT_SERVER
        self._timeout = timeout
        self.granted_share: float | None = None  # of the server's core, by its last answer; None: not known
        self._spent = threading.local()
        if access is None:
            access = _in_time(self.server, servers.known.get(self.server))
        self._access = None if access == NO_ACCESS else access
        options = (("grpc.max_receive_message_length", MAX_ANSWER_BYTES), ("grpc.enable_http_proxy", 0))
        self.grpc_channel = open_channel(grpc, self.server, self._access, options)
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self.grpc_channel.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientError(f"this client of {self.server} is closed: connect again to ask more")

    def stream(self, method: Any, request: Any) -> Iterator[Any]:
        """The messages that answer a question, as they come. Raises NotFound, Unreachable, Refused."""
        self._check_open()
        # No deadline over all: an answer may take as long as its reader does. Each message has `timeout`.
        with OtherThread() as other:
            call = other.run(lambda: method(request))
            try:
                while (message := other.run(lambda: next(call, None), self._timeout)) is not None:
                    yield message
            except queue.Empty:
                raise self._too_late() from None
            except grpc.RpcError as error:
                raise self._error(error) from None
            finally:
                call.cancel()

    def ask(self, method: Any, request: Any) -> Any:
        """The message that answers a question. Raises NotFound, Unreachable, Refused."""
        self._check_open()

        def asked() -> tuple[Any, dict[str, str]]:
            answer, call = method.with_call(request, timeout=self._timeout)
            return answer, dict(call.trailing_metadata() or ())

        with OtherThread() as other:
            try:
                answer, said = other.run(asked)
            except grpc.RpcError as error:
                raise self._error(error) from None
        self.granted_share = _number(said.get(SHARE))
        self._spent.seconds = self.spent_s + (_number(said.get(SECONDS)) or 0.0)
        return answer

    @property
    def spent_s(self) -> float:
        """CPU time of the server, for all answers to questions of this thread, as far as it says."""
        return getattr(self._spent, "seconds", 0.0)

    def _error(self, error: Any) -> ClientError:
        code, details = error.code(), clean(" ".join((error.details() or "").split()))
        if code == grpc.StatusCode.NOT_FOUND:
            where = "machines" if "has no host" in details else "jobs"
            hint = "" if "no rank" in details else f" (see `roofline-client {where}`)"
            return NotFound(f"{details}{hint}")
        if code == grpc.StatusCode.UNAUTHENTICATED:
            return Refused(f"the server at {self.server} refuses: {details}")
        if code == grpc.StatusCode.UNAVAILABLE:
            return self._unavailable(details)
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:
            return self._too_late()
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return Refused(f"what answers at {self.server} is no roofline-server of this version")
        return Refused(f"the server at {self.server} refuses: {details}")

    def _unavailable(self, details: str) -> ClientError:
        if not speaks_tls(self.server):
            advice = "start `roofline-server` there, or give --server HOST:PORT (or ROOFLINE_SERVER)"
            why = f" ({_cause(details)})" if details else ""
            return Unreachable(f"no roofline-server answers at {self.server}{why}; {advice}")
        if self._access is None:
            return Refused(
                f"the server at {self.server} accepts only users who have joined it: "
                f"`roofline-client join {self.server} - <<< TOKEN`, with a token of "
                "`roofline-server token new --role reader` there"
            )
        if why := clock_behind(self.server, self._access):
            return Refused(f"the server at {self.server} cannot be trusted: {why}")
        return Refused(
            f"the server at {self.server} no longer accepts this user's credentials: {OUT}; "
            f"join again: `roofline-client join {self.server} - <<< TOKEN`"
        )

    def _too_late(self) -> ClientError:
        if self._is_not_ready():
            return Unreachable(
                f"no answer from {self.server} within {self._timeout:g} s: it says that it is not ready, as "
                "it stops or its disk is behind; `roofline-server status` on its machine says why"
            )
        advice = "it may be busy: ask again, or for fewer steps"
        return Unreachable(f"no answer from {self.server} within {self._timeout:g} s; {advice}")

    def _is_not_ready(self) -> bool:
        """Whether the server reports that it is not ready."""
        with OtherThread() as other:
            try:
                check, patience_s = self.grpc_channel.unary_unary(HEALTH), min(HEALTH_S, self._timeout)
                return bool(other.run(lambda: check(b"", timeout=patience_s)) == NOT_SERVING)
            except grpc.RpcError:
                return False


def _number(text: str | None) -> float | None:
    """None where the server says nothing, as one of an earlier release."""
    return None if text is None else float(text)


def _in_time(server: str, access: Access | None) -> Access | None:
    """What the server is reached with, renewed where the certificate is due; where no newer one can be had
    the old one may do yet."""
    if access is None or not access.is_due(time.time()):
        return access
    ends = access.ends
    try:
        access = renewed(grpc, server, access)
        replace_access(client_file(os.environ), server, access)
    except CannotJoin as error:
        if time.time() < ends and server not in _warned:  # later a question says what to do
            _warned.add(server)
            log.warning(
                "roofline-client: the certificate with which %s lets this user in ends on %s and was not "
                "renewed (%s); the next command tries again, and after that day only joining again helps: "
                "`roofline-client join %s - <<< TOKEN`",
                server,
                utc(int(ends * 1e9)),
                clean(str(error)),
                server,
            )
    return access


def enrolled(server: str, token: str, name: str, lasts_s: int = 0) -> tuple[Access, str]:
    """Join the server at HOST:PORT: what to reach it with (for lasts_s seconds; 0: for good), and the role.
    Raises CannotJoin."""
    return enrol(grpc, server, parse_token(token), name, ("reader", "admin"), lasts_s)


def _cause(details: str) -> str:
    """What gRPC's long account of a failed connection ends with: "Connection refused", without its number."""
    if any(words in details for words in _NO_ANSWER):
        return "no answer in 20 s: a firewall, or an MTU that is too large, may drop packets"
    return re.sub(r" \(\d+\)$", "", details.rpartition(": ")[2].rstrip("]"))
