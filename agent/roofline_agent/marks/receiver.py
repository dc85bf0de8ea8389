"""Receives marks, spans, facts and kernel calls from the training processes of this node.

Each goes to the rank of the process that sent it, as `listener` knows that from the kernel (`senders`). What
the server would not take is left out, and counted (`gathered`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence

from roofline.facts import TRACE_STATE
from roofline.texts import printable
from roofline_step.packets import FACT, KERNEL, MAX_FACT, STARTED_WITH, VARIABLES

from ..ranks import slurm
from ..ranks.discovery import Discovery
from ..records import Event, EventKind, Rank
from ..traces.orders import TraceOrders
from .gathered import Received
from .listener import MarkListener, PeerProcess
from .packets import (
    FEWER,
    SEEN,
    STEP_US,
    TRACE,
    WRAPPED,
    parse_calls,
    parse_shape,
    parse_started_with,
    parse_variables,
)
from .refusals import END_BY_OTHER_USER, MALFORMED, TOO_MANY_CONNECTIONS
from .senders import MarkConnection, Senders

MAX_KERNELS, MAX_DESCRIBED = 65536, 16 << 20  # shapes one wrapper may describe, and bytes of them
PRINTED = frozenset(("onednn", "mkl"))  # libraries that print what they execute
EXIT = "exit"  # fact of a wrapper: how its command ended, and when: "3 123456789"; under ncu its pid too
# Fact of each rank that a launcher has started which a wrapper stands around: how that ended.
LAUNCHER_EXIT = "tag.launcher.exit"
MAX_OTHERS = 4096  # processes that send by another way
MAX_FACTS = 256  # of one connection, kept until its rank is known


class MarkReceiver:
    """Turns packets into records of ranks; `take` hands each of them over once."""

    def __init__(
        self, listener: MarkListener, discovery: Discovery, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._listener = listener
        self._discovery = discovery
        self._senders = Senders(discovery, clock)
        self._gathered = self._senders.gathered
        self.with_last_step = self._gathered.with_last_step
        self._connections: dict[socket.socket, MarkConnection] = {}
        self._others: dict[PeerProcess, MarkConnection] = {}
        self._surplus = 0  # connections that the listener had closed, as last seen
        self._own_kernels: set[Rank] = set()  # ranks that send their kernels themselves
        self.ended: list[slurm.End] = []  # jobs that Slurm has ended, since the last batch
        self.traces = TraceOrders()
        self.fewer = 1  # wrappers are asked to record kernels of so many times fewer steps

    @property
    def connections(self) -> int:
        """How many processes are connected."""
        return len(self._connections)

    @property
    def is_half_full(self) -> bool:
        """Whether a batch of what waits would have little room for more."""
        return self._gathered.is_half_full

    def knows(self, pid: int) -> bool:
        """Whether this process is a rank or belongs to one."""
        return self._discovery.look_at(pid) is not None

    def marks_itself(self, pid: int) -> bool:
        """Whether marks of this process, or of what wraps it, come by the socket."""
        rank = self._discovery.look_at(pid)
        return rank is not None and any(
            one.has_marked and one.rank == rank for one in self._connections.values()
        )

    def accept(self) -> None:
        """Accept new connections, and find out which ranks they are before these can have exited."""
        accepted = self._listener.accept()
        if surplus := self._listener.surplus - self._surplus:
            self._surplus += surplus
            self.refuse(TOO_MANY_CONNECTIONS, count=surplus)
        if accepted:
            self._gathered.room.users = self._listener.users()
        for link, peer in accepted:
            connection = self._connections[link] = MarkConnection(peer.uid)
            connection.rank = self._discovery.look_at(peer.pid) if peer.pid > 0 else None

    def receive(self) -> None:
        """Read the packets that wait on the socket."""
        for link, peer, data in self._listener.read():
            if data:
                self._receive_packet(self._connections[link], peer, data)
            else:
                self._forget(link)
        self._send_seen()
        self._ask_for_fewer()
        if not self.traces.idle:
            self.traces.send(self._ask_for_trace)
            self.traces.give_up_late()

    def take_in(self, peer: PeerProcess, packets: Sequence[bytes]) -> None:
        """What a process has sent by another way than the socket."""
        connection = self._others.get(peer)
        if connection is None:
            while len(self._others) >= MAX_OTHERS:
                self._senders.release(self._others.pop(next(iter(self._others))))
            connection = self._others[peer] = MarkConnection(peer.uid)
        for data in packets:
            self._receive_packet(connection, peer, data)

    def take(self, now_ns: int) -> Received:
        """What was received since the last call, with what was refused and what did not fit as events."""
        return self._gathered.take(now_ns, self._listener.users())

    def refuse(self, why: str, rank: Rank | None = None, count: int = 1) -> None:
        """Something was refused, which an event of the batch tells. rank: whose it was, if that is known."""
        self._gathered.refuse(why, rank, count)

    # -- what the agent asks wrappers for -----------------------------------------------------------

    def _forget(self, link: socket.socket) -> None:
        """A connection has ended."""
        gone = self._connections.pop(link)
        self._senders.release(gone)
        if not self.traces.idle and gone.wrapped_pid and gone.rank is not None:
            others = [one.rank for one in self._connections.values() if one.wrapped_pid]
            if gone.rank not in others:
                self.traces.left(gone.rank)

    def _ask_for_trace(self, pid: int, start_ns: int, steps: int, step_us: int) -> int | None:
        """How many wrappers of the rank that is this process were asked for its trace; None: it is none
        here."""
        known, wrapping = False, []
        for link, one in self._connections.items():
            ranks = [one.rank] if one.rank is not None else []
            if not ranks and one.wrapped_pid > 0:  # it has sent nothing since its rank is known
                ranks = self._discovery.ranks_below(one.wrapped_pid)
                one.look_ns = 0  # what it answers must be known as its rank's
            if len(ranks) == 1 and (ranks[0].pid, ranks[0].start_ns) == (pid, start_ns):
                known = True
                wrapping += [link] if one.wrapped_pid else []
        for link in wrapping:
            with contextlib.suppress(OSError):
                for packet in (STEP_US.pack(b"D", step_us), TRACE.pack(b"P", steps)):
                    link.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        return len(wrapping) if known else None

    def _send_seen(self) -> None:
        for link, connection in self._connections.items():
            known = connection.seen or connection.rank is not None
            if connection.wrapped_pid and known and not connection.seen_sent:
                with contextlib.suppress(OSError):
                    link.send(SEEN.pack(b"R"), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                connection.seen_sent = True

    def _ask_for_fewer(self) -> None:
        fewer = self.fewer  # set by another thread
        for link, connection in self._connections.items():
            if connection.fewer != fewer and connection.wrapped_pid:
                # One that reads nothing (an older one, one that is stopped) has room for some hundred.
                with contextlib.suppress(OSError):
                    link.send(FEWER.pack(b"N", fewer), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                connection.fewer = fewer

    # -- packets ------------------------------------------------------------------------------------

    def _receive_packet(self, connection: MarkConnection, peer: PeerProcess, data: bytes) -> None:
        """A packet that cannot be read costs itself alone."""
        try:
            self._parse_packet(connection, peer, data)
        except (struct.error, ValueError, TypeError, KeyError, RecursionError):
            self._gathered.refuse(MALFORMED, connection.rank)

    def _parse_packet(self, connection: MarkConnection, peer: PeerProcess, data: bytes) -> None:
        kind = data[:1]
        if kind in (b"M", b"S", b"T"):
            marks, is_first = kind != b"S", not connection.has_marked
            connection.has_marked = connection.has_marked or marks
            look_up = self._senders.rank_that_marks if marks else self._senders.rank_of
            rank = look_up(connection, peer)
            if rank is not None and marks and is_first:
                self._tell_wrappers(rank)
            if rank is not None:
                self._gathered.add_records(rank, data)
        elif kind == b"F":
            self._add_fact(connection, peer, data[len(FACT) :][:MAX_FACT].decode(errors="replace"))
        elif kind == b"C":
            self._add_calls(connection, peer, data)
        elif kind == b"K":
            _, number = KERNEL.unpack_from(data)
            connection.described += len(data)
            is_one_more = len(connection.shapes) < MAX_KERNELS and connection.described <= MAX_DESCRIBED
            if is_one_more and self._senders.hold(connection, len(data)):
                connection.shapes[number] = parse_shape(data[KERNEL.size :])
        elif kind == b"W":
            _, pid = WRAPPED.unpack_from(data)
            self._senders.wraps(connection, peer, pid)
        else:
            self._gathered.refuse(MALFORMED, connection.rank)

    def _tell_wrappers(self, rank: Rank) -> None:
        """A rank begins to mark; a wrapper itself may look for it only after its end."""
        wrappers = [one for one in self._connections.values() if one.wrapped_pid > 0]
        above = set(self._discovery.processes.ancestry(rank.pid)) if wrappers else ()
        for one in wrappers:
            if one.wrapped_pid in above:
                one.has_started([rank])

    def _add_calls(self, connection: MarkConnection, peer: PeerProcess, data: bytes) -> None:
        rank = self._senders.rank_of(connection, peer)
        if rank is None:
            return
        if not connection.wrapped_pid:
            self._own_kernels.add(rank)
        parsed = parse_calls(data)
        libraries = {connection.shapes[kernel].library for kernel in set(parsed.kernels)}
        # What a rank sends itself is all it does: lines of a library in its output are a part of that. Not so
        # what its framework's profiler recorded, of whose steps it sends nothing.
        if connection.wrapped_pid and rank in self._own_kernels and libraries <= PRINTED:
            return
        self._gathered.add_calls(rank, parsed, connection.shapes)

    # -- facts --------------------------------------------------------------------------------------

    def _add_fact(self, connection: MarkConnection, peer: PeerProcess, text: str) -> None:
        name, _, value = text.partition("=")
        if name == slurm.ENDED:
            self._add_end_of_job(peer, value)
            return
        if name == STARTED_WITH:
            if not connection.wrapped_pid and peer.pid > 0:
                self._discovery.started_with(peer.pid, parse_started_with(text[len(name) + 1 :]))
                connection.rank = self._discovery.look_at(peer.pid)
                if connection.rank is not None:
                    self._senders.hand_over_facts(connection, connection.rank)
            return
        # A process does not become a rank by having imported something, so this adopts none.
        if connection.wrapped_pid:
            connection.rank = self._senders.wrapped_rank(connection, peer)
        elif connection.rank is None and peer.pid > 0:
            connection.rank = self._discovery.look_at(peer.pid)
        if name == TRACE_STATE and connection.wrapped_pid and connection.rank is not None:
            self.traces.reported(connection.rank, printable(value))
        if name == EXIT and connection.wrapped_pid:
            self._add_exit(connection, text[len(EXIT) + 1 :])
        elif name == VARIABLES:
            self._take_variables(connection, peer, text[len(VARIABLES) + 1 :])
        elif len(connection.facts) < MAX_FACTS and self._senders.hold(connection, len(text)):
            connection.facts.append(printable(text))
            connection.waiting += len(text)
            self._keep_fact(connection, name, printable(text))
        else:
            self._gathered.room.count_loss(None, "facts")
        if connection.rank is not None:
            self._senders.hand_over_facts(connection, connection.rank)

    def _keep_fact(self, connection: MarkConnection, name: str, text: str) -> None:
        before = connection.all_facts.get(name)
        if before is None and len(connection.all_facts) >= MAX_FACTS:
            return
        if self._senders.hold(connection, len(text) - len(before or "")):
            connection.all_facts[name] = text

    def _add_end_of_job(self, peer: PeerProcess, text: str) -> None:
        """Slurm's epilog, which runs as root, reports how a job ended."""
        if peer.uid not in (0, os.getuid()):
            self._gathered.refuse(END_BY_OTHER_USER, None)
        elif len(self.ended) < slurm.MOST_JOBS:
            self.ended.append(slurm.parse_end(text))

    def _add_exit(self, connection: MarkConnection, text: str) -> None:
        """A wrapper reports how its command ended, and when: a launcher's end is that of all its ranks, a
        script's says nothing of a program in it. Where ncu is between a wrapper and its command, the pid
        of the command follows."""
        status, time_ns, *under_ncu = map(int, text.split())
        pid = under_ncu[0] if under_ncu else connection.wrapped_pid
        rank = connection.rank or self._discovery.ended(pid)
        if not (abs(status) < 2**31 and 0 < time_ns < 2**62):
            return
        if rank is not None and rank.pid == pid:
            self._gathered.add_event(Event(EventKind.RANK_EXITED, time_ns, time_ns, rank, status=status))
        for one in connection.started.values():
            text = f"{LAUNCHER_EXIT}={status}"
            self._gathered.add_event(Event(EventKind.FACT, time_ns, time_ns, one, text=text))

    def _take_variables(self, connection: MarkConnection, peer: PeerProcess, text: str) -> None:
        """A process has reported which rank it is: it alone, of itself alone."""
        if connection.wrapped_pid or peer.pid <= 0:
            raise ValueError("variables of another process")
        self._discovery.report(peer.pid, parse_variables(text))
        before, rank = connection.rank, self._discovery.look_at(peer.pid)
        if rank == before:
            return
        connection.rank = rank
        connection.facts = list(connection.all_facts.values())
        if before is None or rank is None or before.pid != peer.pid:
            return  # it was taken for a part of another process
        for other in self._connections.values():
            if other.wrapped_pid and other.rank == before:  # its wrapper
                other.rank = rank
                other.facts = list(other.all_facts.values())
                self._senders.hand_over_facts(other, rank)
