"""Streams batches to the server and forgets them when they are durable.

The stream comes and goes; the spool does not. After each connection everything that was not acknowledged is
sent, in the order that order.py gives; the server keeps only one copy of what arrives twice. Servers that do
not know lineages name the highest sequence they have of this agent, and sending continues after that. What
the messages hold: encoding.py.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from roofline.joining import OUT, Access, clock_behind, open_channel, speaks_tls
from roofline.limits import MAX_BATCH_BYTES
from roofline.texts import printable
from roofline.v1 import ingest_pb2 as pb

from ..errors import Unavailable, Unreachable
from ..netbench.bench import NetBench
from ..traces.orders import TraceOrder
from .commands import Commands
from .encoding import Greeting, encode_hello, extent_of, is_batch, lineage_of, renumbered
from .grpc_setup import FEWER_WAKEUPS, grpc, wait_longer
from .membership import Membership
from .order import Order, Wanted
from .pending import MAX_SEQUENCE, Pending
from .spool import Spool

log = logging.getLogger(__name__)

WELCOME_TIMEOUT_S = 10
MAX_BEGUN = 16  # lineages of one process; a server that wants more is wrong
MAX_NOTICES, MAX_NOTICE = 16, 1024  # different ones of a server, characters of one
RETRY_S = (0.5, 15.0)
JOIN = "`roofline-agent join HOST:PORT - <<< TOKEN`, with a token of `roofline-server token new`"
METHOD = "/roofline.v1.Ingest/Stream"
CHANNEL_OPTIONS = (
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # Of newer gRPC, which else waits a minute for the answer, whatever the timeout above.
    ("grpc.http2.ping_timeout_ms", 10_000),
    # Loopback and cluster networks are reached directly, whatever http_proxy says.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", 1 << 20),
    *FEWER_WAKEUPS,
)

_Outgoing = queue.SimpleQueue[bytes | None]  # messages; None ends the stream


class Exporter(threading.Thread):
    """The stream to one server, in a thread of its own."""

    def __init__(
        self,
        server: str,
        spool: Spool,
        greeting: Callable[[], Greeting],
        set_interval: Callable[[int, str, int], None] = lambda interval_ns, reason, fewer: None,
        clock: Callable[[], int] = time.monotonic_ns,
        net_bench: NetBench | None = None,
        access: Access | None = None,
        keep: Callable[[Access], None] = lambda access: None,
        trace: Callable[[TraceOrder], None] | None = None,
        hold: Callable[[int], None] = lambda hold_ns: None,
        load: Callable[[], Access | None] = lambda: None,
    ) -> None:
        """set_interval: takes a sampling interval, 0 for the agent's own, why, and of how many times fewer
        steps kernels should be recorded. clock: node time, in which the batches speak. net_bench: None where
        there is no node to measure. access: of a server that was joined. keep: called with another one, of a
        newer certificate. trace: has steps of a rank recorded; None where there are no ranks. hold: takes how
        long the server asks to gather a batch, ns; 0: it does not ask. load: what is kept of `access` now."""
        super().__init__(name="exporter", daemon=True)
        self._clock = clock
        self._server = server
        self._membership = Membership(grpc, server, access, keep, load)
        self._spool = spool
        self._greeting = greeting
        self._commands = Commands(greeting, set_interval, net_bench, trace)
        self._hold = hold
        self._held_ms = 0  # as the server of this stream has asked
        self._halt = threading.Event()
        self._lock = threading.Lock()
        self._outgoing: _Outgoing | None = None  # while the server is known to listen
        self._order = Order(0)
        self._exact = False  # this server acknowledges each batch
        self._announced_backlog = False  # the server was sent a backlog, and not yet that it is over
        self._acked = 0
        self.connected = False
        self._call: Any = None
        self._notices: list[str] = []
        self._new_notices: list[str] = []
        self._begun = 0  # lineages, because of other agents

    def take_notices(self, all_of_them: bool = False) -> list[str]:
        """Notices of the server that users should see, as facts: "name=text"; what is new, or all."""
        new, self._new_notices = self._new_notices, []
        return list(self._notices) if all_of_them else new

    @property
    def acked(self) -> int:
        """The highest sequence that the server is known to have."""
        return self._acked

    def run(self) -> None:
        wait_longer()
        delay_s, reported = RETRY_S[0], False
        while not self._halt.is_set():
            began = time.monotonic()
            try:
                self._session()
                why = "the server ended the stream"
            except grpc.RpcError as error:
                why = self._explain(error) if self.connected or not reported else ""
            except Unreachable as error:
                why = str(error)
            except Exception as error:
                log.exception("the stream failed")
                why = str(error)
            was_up, self.connected = self.connected, False
            if self._halt.is_set():
                return
            if was_up or not reported:
                log.warning("server %s: %s; batches wait in the spool, trying again", self._server, why)
                reported = True
            if was_up or time.monotonic() - began > RETRY_S[1]:
                delay_s = RETRY_S[0]
            else:
                delay_s = min(delay_s * 2, RETRY_S[1])
            self._halt.wait(delay_s * random.uniform(0.7, 1.3))

    def _session(self) -> None:
        """One stream from its begin to its end. Raises grpc.RpcError."""
        outgoing: _Outgoing = queue.SimpleQueue()
        self._membership.look_again()
        with open_channel(grpc, self._server, self._membership.access, CHANNEL_OPTIONS) as opened:
            stream = opened.stream_stream(
                METHOD,
                request_serializer=None,  # the spool holds serialized messages
                response_deserializer=pb.ServerMessage.FromString,
            )
            outgoing.put(encode_hello(self._greeting()).SerializeToString())
            call = self._call = stream(iter(outgoing.get, None))
            timer = threading.Timer(WELCOME_TIMEOUT_S, call.cancel)
            timer.start()
            try:
                if self._halt.is_set():  # stop() may have come before there was a call to cancel
                    return
                for message in call:
                    timer.cancel()
                    self._handle(message, outgoing)
            finally:
                timer.cancel()
                with self._lock:
                    self._outgoing = None
                outgoing.put(None)
                call.cancel()
                self._take_hold(0)  # whoever asked for it cannot take it back any more
                self._commands.forget()

    def _handle(self, message: Any, outgoing: _Outgoing) -> None:
        kind = message.WhichOneof("kind")
        if kind == "welcome":
            self._begin(message.welcome, outgoing)
            self._take_hold(message.welcome.hold_ms)
            self.connected = True
            log.info("connected to server %s", self._server)
            self.push()
        elif kind == "ack":
            self._take_ack(message.ack)
            self._take_hold(message.ack.hold_ms)
            self.push()
        elif kind == "ping":
            received_ns = self._clock()
            pong = pb.Pong(
                id=message.ping.id,
                server_ns=message.ping.server_ns,
                received_ns=received_ns,
                sent_ns=self._clock(),
            )
            outgoing.put(pb.AgentMessage(pong=pong).SerializeToString())
            self._membership.renew_if_due()
        elif kind == "rejection":
            refused = message.rejection
            if not (refused.taken and self._send_anew(refused.sequence)):
                log.error("the server refused batch %d: %s", refused.sequence, refused.reason)
                self._spool.drop_refused(refused.sequence)
            with self._lock:
                self._order.arrived([refused.sequence], time.monotonic())
            self.push()
        elif kind == "notice":
            self._take_notice(message.notice)
        elif kind == "command":
            self._execute(message.command, outgoing)

    def _begin(self, welcome: Any, outgoing: _Outgoing) -> None:
        """Begin to send. Raises Unreachable."""
        after = self._begin_after(welcome)
        self._exact = bool(welcome.exact_acks and welcome.lineage)
        with self._lock:
            self._acked = max(self._acked, after)
            newest = self._spool.next_sequence() - 1
            self._order = Order(after, newest, self._spool.in_order_through) if self._exact else Order(after)
            self._outgoing = outgoing
            self._announced_backlog = self._exact and self._announce_backlog(after, newest, outgoing)

    def _announce_backlog(self, after: int, newest: int, outgoing: _Outgoing) -> bool:
        """Tell the server what it lacks; False: nothing."""
        if (oldest := self._readable(after, newest)) is None:
            return False
        waiting = [oldest, self._readable(newest - 1, newest) or oldest]
        extents = [extent_of(one.data) for one in waiting]
        missing = pb.Backlog(begin_ns=extents[0][0], end_ns=extents[-1][1])
        outgoing.put(pb.AgentMessage(backlog=missing).SerializeToString())
        return True

    def _readable(self, after: int, through: int) -> Pending | None:
        """The first batch that waits above `after` and can be read; those before it are given up."""
        while found := self._spool.pending(after, 1, through):
            if self._can_be_sent(found[0]):
                return found[0]
            after = found[0].sequence
        return None

    def _can_be_sent(self, pending: Pending) -> bool:
        """Whether a batch is what was put into the spool, and no larger than the server takes; else it is
        given up, for the server would end the stream, again and again."""
        if len(pending.data) > MAX_BATCH_BYTES:
            log.error("batch %d is larger than the server takes and is lost", pending.sequence)
            self._spool.drop_refused(pending.sequence)
            return False
        if is_batch(pending.data, pending.sequence):
            return True
        log.error("batch %d in the spool is damaged and is lost", pending.sequence)
        self._spool.drop_damaged(pending.sequence)
        return False

    def _take_ack(self, ack: Any) -> None:
        with self._lock:
            # What was not sent cannot be there, whatever a server says.
            kept = self._order.arrived(
                ack.kept if self._exact else self._order.on_their_way(ack.sequence), time.monotonic()
            )
            if not kept:
                return
            self._acked = max(self._acked, *kept)
            if self._exact:
                self._spool.ack_single(kept)
            else:
                self._spool.ack(max(kept))

    def _take_hold(self, hold_ms: int) -> None:
        if hold_ms != self._held_ms:
            self._held_ms = hold_ms
            self._hold(1_000_000 * hold_ms)

    def _begin_after(self, welcome: Any) -> int:
        """The sequence that sending continues behind. Raises Unreachable where that makes no sense."""
        if welcome.lineage:
            return self._spool.acked
        if welcome.acked > MAX_SEQUENCE:
            raise Unreachable(
                f"says it has batch {welcome.acked} of this agent, which cannot be: somebody else sent that "
                "under this agent's identity; update the server, or stop this agent and remove spool.db from "
                "its state directory"
            )
        acked = int(welcome.acked)
        self._spool.skip_to(acked)
        self._spool.ack(acked)
        return acked

    def _send_anew(self, sequence: int) -> bool:
        """Give a batch a new number, as another process has used its own; False: it has none to change."""
        data = self._spool.get(sequence)
        if data is None or not (lineage := lineage_of(data)):
            return False
        if lineage == self._spool.lineage:
            if self._begun >= MAX_BEGUN:
                return False
            self._begun += 1
            self._spool.begin_lineage()
            log.warning("another agent numbers its batches as this one does: this one begins a new series")
            self.greet_again()
        with self._spool.numbering:
            number = self._spool.next_sequence()
            self._spool.append(number, renumbered(data, number, self._spool.lineage))
        self._spool.remove(sequence)
        return True

    def _take_notice(self, notice: Any) -> None:
        text = f"{notice.name}={notice.text}"[:MAX_NOTICE]
        if text not in self._notices and len(self._notices) < MAX_NOTICES:
            self._notices.append(text)
            self._new_notices.append(text)
            log.warning("the server reports: %s", printable(notice.text[:MAX_NOTICE]))

    def _execute(self, command: Any, outgoing: _Outgoing) -> None:
        def answer(result: Any) -> None:
            outgoing.put(pb.AgentMessage(result=result).SerializeToString())

        self._commands.execute(command, answer)

    def push(self) -> None:
        """Send what waits, as far as the window allows. Called when there is something new."""
        with self._lock:
            if self._outgoing is None:
                return
            try:
                self._send_waiting(self._outgoing)
            except Unavailable as error:
                log.warning("%s: what waits is sent later", error)

    def _send_waiting(self, outgoing: _Outgoing) -> None:
        self._send(self._order.new(), outgoing)
        wanted = self._order.old()
        if self._send(wanted, outgoing) < wanted.limit:
            self._order.no_more_old()
            self._send(self._order.new(), outgoing)  # what waited for the backlog
        if self._announced_backlog and self._order.backlog_is_over:
            self._announced_backlog = False
            outgoing.put(pb.AgentMessage(backlog=pb.Backlog()).SerializeToString())

    def _send(self, wanted: Wanted, outgoing: _Outgoing) -> int:
        """How many batches of these there were."""
        found = self._spool.pending(*wanted) if wanted.limit > 0 else []
        for pending in found:
            self._order.sends(pending.sequence, time.monotonic())  # first: its ack may come at once
            if self._can_be_sent(pending):
                outgoing.put(pending.data)
            else:
                self._order.arrived([pending.sequence], time.monotonic())
        return len(found)

    def greet_again(self) -> None:
        """Send Hello again: ceilings or sources have changed."""
        with self._lock:
            if self._outgoing is not None:
                self._outgoing.put(encode_hello(self._greeting()).SerializeToString())

    def drain(self, timeout_s: float) -> bool:
        """Wait until everything in the spool is durable at the server; False when it took too long."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and self.is_alive() and self.connected:
            if self._spool.bytes_waiting == 0:
                return True
            time.sleep(0.01)
        return self._spool.bytes_waiting == 0

    def stop(self) -> None:
        self._halt.set()
        if self._call is not None:
            self._call.cancel()
        self.join(timeout=3)

    def _explain(self, error: grpc.RpcError) -> str:
        code = error.code() if hasattr(error, "code") else None
        if code == grpc.StatusCode.UNAVAILABLE:
            if self.connected or not speaks_tls(self._server):
                return "does not answer"
            if self._membership.access is None:
                return f"accepts only agents that have joined it: {JOIN}"
            if why := clock_behind(self._server, self._membership.access):
                return f"cannot be trusted: {why}"
            return f"no longer accepts this node's credentials by joining it: {OUT}; join again: {JOIN}"
        if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            return f"refuses: {error.details()}"
        if code == grpc.StatusCode.CANCELLED:
            return f"sent no welcome within {WELCOME_TIMEOUT_S} s"
        return f"{error.details() if hasattr(error, 'details') else error}"
