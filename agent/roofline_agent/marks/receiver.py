"""Receives marks, spans, facts and kernel calls from the training processes of this node.

Each goes to the rank of the process that sent it, as `listener` knows that from the kernel: no process can
mark for another user's rank. What the server would not take is left out here, and counted.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import NamedTuple

from roofline_step._packets import FACT, KERNEL, MAX_FACT, VARIABLES, StepForm

from ..ranks import slurm
from ..ranks.discovery import Discovery
from ..ranks.new_names import KERNELS, NewNames
from ..records import Call, Event, EventKind, KernelShape, Mark, MarkKind, Rank, Span, StepRows
from ..uplink.bounds import (
    CALL_BYTES,
    EVENT_BYTES,
    MARK_BYTES,
    SPAN_BYTES,
    BatchRoom,
    printable,
)
from .listener import MarkListener, PeerProcess
from .packets import (
    FEWER,
    MARK_KIND,
    SPANS_KIND,
    STEP_US,
    STEPS_KIND,
    TRACE,
    WRAPPED,
    parse_calls,
    parse_mark,
    parse_shape,
    parse_spans,
    parse_steps,
    parse_variables,
    possible_steps,
)
from .traces import STATE, TraceOrders

MAX_KERNELS, MAX_DESCRIBED = 65536, 16 << 20  # shapes one wrapper may describe, and bytes of them
MAX_HELD = 64 << 20  # bytes of shapes and facts of all connections; each user has an equal share
TOO_MANY_NAMES = "of more names than a user has for a day"
MAX_LAST_STEPS = 4096  # processes whose last step is kept
LOOK_AGAIN_NS = 1_000_000_000  # for the rank that a wrapper has started: it takes a walk through /proc
UNKNOWN = -1  # the pid of a wrapped process that cannot be found
PRINTED = frozenset(("onednn", "mkl"))  # libraries that print what they execute
STEP_ENDS = (MarkKind.END, MarkKind.BORDER)
EXIT = "exit"  # fact of a wrapper: how its command ended, and when: "3 123456789"; under ncu its pid too
MAX_OTHERS = 4096  # processes that send by another way
MAX_FACTS = 256  # of one connection, kept until its rank is known

# Why something was refused; a report shows these.
MALFORMED = "a packet that is no mark"
OUT_OF_RANGE = "a mark with a step, examples or time out of range"
TOO_MANY_CONNECTIONS = "a connection of the user who has most of all that there can be"
SENDER_GONE = "a mark from a process that has gone"
SENDER_ELSEWHERE = "a mark from another PID namespace: start the agent in the same one or on the host"
WRAPPER_ELSEWHERE = "a wrapper from another PID namespace: start the agent in the same one or on the host"
RANK_OF_OTHER_USER = "a mark for a rank of another user"
END_BY_OTHER_USER = "the end of a Slurm job, from another user than root"
PROCESS_OF_OTHER_USER = "what a wrapper says of another user's process"
SEVERAL_RANKS = "what a wrapper says of a command that is several ranks; wrap each rank by itself"


class Received(NamedTuple):
    """What the processes of this node have sent since the last batch."""

    marks: list[Mark]
    spans: list[Span]
    calls: list[Call]
    events: list[Event]
    steps: list[StepRows]


class _Connection:
    """What is known of one connected process."""

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self.rank: Rank | None = None
        self.wrapped_pid = 0
        self.facts: list[str] = []  # received before the rank was known
        self.waiting = 0  # bytes of them
        self.all_facts: dict[str, str] = {}  # by name: sent again if the process turns out to be another rank
        self.shapes: dict[int, KernelShape] = {}
        self.described = 0  # bytes of them
        self.held = 0  # bytes of shapes and facts
        self.look_ns = 0  # when to look for the wrapped rank again
        self.fewer = 1  # as the wrapper was asked
        self.has_marked = False


class MarkReceiver:
    """Turns packets into records of ranks; `take` hands each of them over once."""

    def __init__(
        self, listener: MarkListener, discovery: Discovery, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._listener = listener
        self._discovery = discovery
        self._clock = clock
        self._room = BatchRoom()
        self._shapes: set[KernelShape] = set()  # in this batch
        self._new_kernels = NewNames(KERNELS)
        self._connections: dict[socket.socket, _Connection] = {}
        self._held: Counter[int] = Counter()  # bytes that connections hold, by user
        self._surplus = 0  # connections that the listener had closed, as last seen
        self._others: dict[PeerProcess, _Connection] = {}
        self._received = Received([], [], [], [], [])
        self._steps: dict[tuple[Rank, StepForm], list[bytes]] = {}
        self._covered: dict[Rank, tuple[int, int]] = {}
        self._own_kernels: set[Rank] = set()  # ranks that send their kernels themselves
        self._refused: dict[str, int] = {}
        self.ended: list[slurm.End] = []  # jobs that Slurm has ended, since the last batch
        self.traces = TraceOrders()
        self.fewer = 1  # wrappers are asked to record kernels of so many times fewer steps
        self._last_steps: dict[tuple[int, int, str], int] = {}  # that a process has finished

    def accept(self) -> None:
        """Accept new connections, and find out which ranks they are before these can have exited."""
        accepted = self._listener.accept()
        if surplus := self._listener.surplus - self._surplus:
            self._surplus += surplus
            self.refuse(TOO_MANY_CONNECTIONS, surplus)
        if accepted:
            self._room.users = self._listener.users()
        for link, peer in accepted:
            connection = self._connections[link] = _Connection(peer.uid)
            connection.rank = self._discovery.look_at(peer.pid) if peer.pid > 0 else None

    def take_in(self, peer: PeerProcess, packets: Sequence[bytes]) -> None:
        """What a process has sent by another way than the socket."""
        connection = self._others.get(peer)
        if connection is None:
            while len(self._others) >= MAX_OTHERS:
                first = next(iter(self._others))
                self._release(self._others.pop(first))
            connection = self._others[peer] = _Connection(peer.uid)
        for data in packets:
            try:
                self._receive_packet(connection, peer, data)
            except (struct.error, ValueError, TypeError, KeyError, RecursionError):
                self.refuse(MALFORMED)

    def knows(self, pid: int) -> bool:
        """Whether this process is a rank or belongs to one."""
        return self._discovery.look_at(pid) is not None

    def marks_itself(self, pid: int) -> bool:
        """Whether marks of this process, or of what wraps it, come by the socket."""
        rank = self._discovery.look_at(pid)
        return rank is not None and any(
            one.has_marked and one.rank == rank for one in self._connections.values()
        )

    @property
    def connections(self) -> int:
        """How many processes are connected."""
        return len(self._connections)

    @property
    def is_half_full(self) -> bool:
        """Whether a batch of what waits would have little room for more."""
        return self._room.is_half_full

    def receive(self) -> None:
        """Read the packets that wait on the socket."""
        for link, peer, data in self._listener.read():
            if not data:
                self._forget(link)
                continue
            try:
                self._receive_packet(self._connections[link], peer, data)
            except (struct.error, ValueError, TypeError, KeyError, RecursionError):
                self.refuse(MALFORMED)
        self._ask_for_fewer()
        if not self.traces.idle:
            self.traces.send(self._ask_for_trace)
            self.traces.give_up_late()

    def _forget(self, link: socket.socket) -> None:
        """A connection has ended."""
        gone = self._connections.pop(link)
        self._release(gone)
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

    def _ask_for_fewer(self) -> None:
        fewer = self.fewer  # set by another thread
        for link, connection in self._connections.items():
            if connection.fewer != fewer and connection.wrapped_pid:
                # One that reads nothing (an older one, one that is stopped) has room for some hundred.
                with contextlib.suppress(OSError):
                    link.send(FEWER.pack(b"N", fewer), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                connection.fewer = fewer

    def take(self, now_ns: int) -> Received:
        """What was received since the last call; refusals and kernel coverage are summed into events."""
        received, self._received = self._received, Received([], [], [], [], [])
        for (rank, form), parts in self._steps.items():
            numbers, wrong = possible_steps(form, b"".join(parts)) if parts else (b"", 0)
            if numbers:
                received.steps.append(StepRows(rank, form, numbers))
            if wrong:
                self.refuse(OUT_OF_RANGE, wrong)
        events = received.events
        for rank, (begin, end) in self._covered.items():
            events.append(Event(EventKind.KERNELS_COVERED, begin, end, rank))
        for text, count in self._refused.items():
            events.append(Event(EventKind.REFUSED, now_ns, now_ns, None, count, text))
        events += self._room.losses(now_ns)
        self._covered, self._refused, self._steps = {}, {}, {}
        self._room, self._shapes = BatchRoom(self._listener.users()), set()
        return received

    def refuse(self, why: str, count: int = 1) -> None:
        """Something was refused, which an event of the batch tells."""
        self._refused[why] = self._refused.get(why, 0) + count

    def _receive_packet(self, connection: _Connection, peer: PeerProcess, data: bytes) -> None:
        kind = data[:1]
        if kind in (b"M", b"S", b"T"):
            connection.has_marked = connection.has_marked or kind != b"S"
            if connection.wrapped_pid:
                rank = self._wrapped_rank(connection, peer)
            else:
                rank = self._own_rank(connection, peer)
            if rank is not None:
                self._add_records(rank, data)
        elif kind == b"F":
            self._add_fact(connection, peer, data[len(FACT) :][:MAX_FACT].decode(errors="replace"))
        elif kind == b"C":
            self._add_calls(connection, peer, data)
        elif kind == b"K":
            _, number = KERNEL.unpack_from(data)
            connection.described += len(data)
            is_one_more = len(connection.shapes) < MAX_KERNELS and connection.described <= MAX_DESCRIBED
            if is_one_more and self._hold(connection, len(data)):
                connection.shapes[number] = parse_shape(data[KERNEL.size :])
        elif kind == b"W":
            _, pid = WRAPPED.unpack_from(data)
            connection.rank, connection.look_ns = None, 0
            if peer.pid > 0:
                found = self._discovery.processes.child_called(pid, peer.pid)
                connection.wrapped_pid = found or UNKNOWN
            else:
                # The pid in the packet is another process here.
                connection.wrapped_pid = UNKNOWN
                self.refuse(WRAPPER_ELSEWHERE)
        else:
            self.refuse(MALFORMED)

    def _add_records(self, rank: Rank, data: bytes) -> None:
        """Marks, spans and steps behind one another; a malformed one costs itself and what follows."""
        at = 0
        while at < len(data):
            if data[at] == MARK_KIND:
                at += self._add_mark(rank, data, at)
            elif data[at] == STEPS_KIND:
                at += self._add_steps(rank, data, at)
            elif data[at] == SPANS_KIND:
                at += self._add_spans(rank, data, at)
            else:
                raise ValueError("neither a mark nor spans nor steps")

    def _add_steps(self, rank: Rank, data: bytes, at: int) -> int:
        """Add the steps of one form that stand there in `data`; returns the size of their record."""
        parsed = parse_steps(data, at)
        form, count = parsed.form, parsed.count
        spans = count * len(form.names)
        known = [self._room.take_span_name(name, rank.uid) for name in form.names]
        alike = self._steps.get((rank, form))
        if alike is None and self._room.take_form(rank.uid):
            alike = self._steps[rank, form] = []
        if (
            alike is not None
            and all(known)
            and self._room.take_rows(count * form.marks * MARK_BYTES + spans * SPAN_BYTES, rank.uid)
        ):
            alike.append(parsed.numbers)
            self._has_finished(rank, parsed.last)
        else:
            self._room.count_loss(rank, "marks", count * form.marks)
            self._room.count_loss(rank, "spans", spans)
        return parsed.size

    def _add_mark(self, rank: Rank, data: bytes, at: int) -> int:
        """Add the mark that stands there in `data`; returns its size."""
        parsed = parse_mark(data, at)
        if not parsed.in_range:
            self.refuse(OUT_OF_RANGE)
            return parsed.size
        dropped, time_ns = parsed.dropped, parsed.time_ns
        needed = MARK_BYTES + (len(parsed.phase.encode()) if parsed.phase else 0)
        if dropped:
            needed += EVENT_BYTES
        if not self._room.take_rows(needed, rank.uid):
            self._room.count_loss(rank, "marks", 1 + dropped)
            return parsed.size
        if dropped:
            lost = Event(EventKind.LOST, time_ns, time_ns, rank, dropped, "marks")
            self._received.events.append(lost)
        marked = self._rank_named(rank, parsed.role, parsed.index) if parsed.role else rank
        if marked is not None:
            if parsed.kind in STEP_ENDS:
                self._has_finished(marked, parsed.step)
            self._received.marks.append(
                Mark(
                    rank=marked,
                    sender=rank,
                    kind=parsed.kind,
                    step=parsed.step,
                    examples=parsed.examples,
                    time_ns=time_ns,
                    phase=parsed.phase,
                    asynchronous=parsed.asynchronous,
                    like=parsed.like,
                )
            )
        return parsed.size

    def _add_spans(self, rank: Rank, data: bytes, at: int) -> int:
        """Add the spans that stand there in `data`, all or none; returns the size of their record."""
        parsed = parse_spans(data, at)
        count = len(parsed.which)
        names = map(parsed.names.__getitem__, parsed.which)
        columns = repeat(rank), names, parsed.begins, parsed.ends, parsed.bytes, parsed.counts
        spans = list(map(Span, *columns))
        known = [self._room.take_span_name(name, rank.uid) for name in parsed.names]
        if not all(known):
            spans = [span for which, span in zip(parsed.which, spans, strict=True) if known[which]]
        lost = count - len(spans)
        if self._room.take_rows(SPAN_BYTES * len(spans), rank.uid):
            self._received.spans.extend(spans)
        else:
            lost = count
        if lost:
            self._room.count_loss(rank, "spans", lost)
        return parsed.size

    def _add_fact(self, connection: _Connection, peer: PeerProcess, text: str) -> None:
        name, _, value = text.partition("=")
        if name == slurm.ENDED:
            if peer.uid not in (0, os.getuid()):
                self.refuse(END_BY_OTHER_USER)
            elif len(self.ended) < slurm.MOST_JOBS:
                self.ended.append(slurm.parse_end(value))
            return
        # A process does not become a rank by having imported something, so this adopts none.
        if connection.wrapped_pid:
            connection.rank = self._wrapped_rank(connection, peer)
        elif connection.rank is None and peer.pid > 0:
            connection.rank = self._discovery.look_at(peer.pid)
        if name == STATE and connection.wrapped_pid and connection.rank is not None:
            self.traces.reported(connection.rank, printable(value))
        if name == EXIT and connection.wrapped_pid:
            self._add_exit(connection, text[len(EXIT) + 1 :])
        elif name == VARIABLES:
            self._take_variables(connection, peer, text[len(VARIABLES) + 1 :])
        elif len(connection.facts) < MAX_FACTS and self._hold(connection, len(text)):
            connection.facts.append(printable(text))
            connection.waiting += len(text)
            self._keep_fact(connection, name, printable(text))
        else:
            self._room.count_loss(None, "facts")
        if connection.rank is not None:
            self._add_waiting_facts(connection, connection.rank)

    def _keep_fact(self, connection: _Connection, name: str, text: str) -> None:
        before = connection.all_facts.get(name)
        if before is None and len(connection.all_facts) >= MAX_FACTS:
            return
        if self._hold(connection, len(text) - len(before or "")):
            connection.all_facts[name] = text

    def _hold(self, connection: _Connection, size: int) -> bool:
        """Keep so many bytes more of a connection, if its user's share has room for them."""
        if size > 0 and self._held[connection.uid] + size > MAX_HELD // self._room.users:
            return False
        self._held[connection.uid] += size
        connection.held += size
        return True

    def _release(self, connection: _Connection) -> None:
        self._held[connection.uid] -= connection.held
        if not self._held[connection.uid]:
            del self._held[connection.uid]

    def _add_exit(self, connection: _Connection, text: str) -> None:
        """A wrapper reports how its command ended, and when: that of a script says nothing of a program in
        it. Between a wrapper and its command ncu may stand: then the pid of the command follows."""
        status, time_ns, *under_ncu = map(int, text.split())
        pid = under_ncu[0] if under_ncu else connection.wrapped_pid
        rank = connection.rank or self._discovery.ended(pid)
        if rank is not None and rank.pid == pid and abs(status) < 2**31 and 0 < time_ns < 2**62:
            self._received.events.append(Event(EventKind.RANK_EXITED, time_ns, time_ns, rank, status=status))

    def _has_finished(self, rank: Rank, step: int) -> None:
        if rank.pid:  # of another node nobody here sees the end
            self._last_steps[rank.pid, rank.start_ns, rank.key] = step
            while len(self._last_steps) > MAX_LAST_STEPS:
                del self._last_steps[next(iter(self._last_steps))]

    def with_last_step(self, event: Event) -> Event:
        """The end of a rank with the last step that it finished: what it sent may be read after its end."""
        rank = event.rank
        if event.kind is not EventKind.RANK_EXITED or rank is None:
            return event
        return event._replace(step=self._last_steps.get((rank.pid, rank.start_ns, rank.key)))

    def _take_variables(self, connection: _Connection, peer: PeerProcess, text: str) -> None:
        """A process has reported which rank it is: it alone, of itself alone."""
        if connection.wrapped_pid or peer.pid <= 0:
            raise ValueError("variables of another process")
        self._discovery.report(peer.pid, parse_variables(text))
        before, rank = connection.rank, self._discovery.look_at(peer.pid)
        if rank == before:
            return
        connection.rank = rank
        connection.facts = list(connection.all_facts.values())
        for other in self._connections.values():  # that of its wrapper
            if before is not None and rank is not None and other.rank == before:
                other.rank = rank
                other.facts = list(other.all_facts.values())
                self._add_waiting_facts(other, rank)

    def _add_waiting_facts(self, connection: _Connection, rank: Rank) -> None:
        now = self._clock()
        for text in connection.facts:
            if self._room.take_fact(text, rank.uid):
                self._received.events.append(Event(EventKind.FACT, now, now, rank, text=text))
            else:
                self._room.count_loss(rank, "facts")
        self._hold(connection, -connection.waiting)
        connection.facts, connection.waiting = [], 0

    def _add_calls(self, connection: _Connection, peer: PeerProcess, data: bytes) -> None:
        if connection.wrapped_pid:
            rank = self._wrapped_rank(connection, peer)
            if rank is None:
                return
        else:
            rank = self._own_rank(connection, peer)
            if rank is None:
                return
            self._own_kernels.add(rank)
        parsed = parse_calls(data)
        libraries = {connection.shapes[kernel].library for kernel in set(parsed.kernels)}
        # What a rank sends itself is all it does: lines of a library in its output are a part of that. Not so
        # what its framework's profiler recorded, of whose steps it sends nothing.
        if connection.wrapped_pid and rank in self._own_kernels and libraries <= PRINTED:
            return
        count = len(parsed.kernels)
        new = {connection.shapes[kernel] for kernel in set(parsed.kernels)} - self._shapes
        if not self._new_kernels.take(rank.uid, (shape[:6] for shape in new)):
            self._room.count_loss(rank, "kernels", count, TOO_MANY_NAMES)
            return
        described = sum(len(json.dumps(shape)) for shape in new)
        if not self._room.take_rows(EVENT_BYTES + CALL_BYTES * count + described, rank.uid):
            self._room.count_loss(rank, "kernels", count)
            return  # nor is their time claimed
        self._shapes |= new
        shapes = map(connection.shapes.__getitem__, parsed.kernels)
        self._received.calls.extend(map(Call, repeat(rank), shapes, parsed.starts, parsed.durations))
        begin = parsed.begin
        before = self._covered.get(rank)
        if before is not None and before[1] == begin:
            begin = before[0]
        elif before is not None:
            self._received.events.append(Event(EventKind.KERNELS_COVERED, *before, rank))
        self._covered[rank] = (begin, parsed.through)

    def _own_rank(self, connection: _Connection, peer: PeerProcess) -> Rank | None:
        """The rank that a process which marks is; it becomes one if no launcher named it."""
        if connection.rank is None:
            if peer.pid <= 0:
                self.refuse(SENDER_ELSEWHERE)
                return None
            found = self._discovery.look_at(peer.pid) or self._discovery.adopt(peer.pid, peer.uid)
            if found is None:
                self.refuse(SENDER_GONE)
                return None
            connection.rank = found
            self._add_waiting_facts(connection, found)
        return connection.rank

    def _wrapped_rank(self, connection: _Connection, peer: PeerProcess) -> Rank | None:
        """The rank that a wrapper has started; None while there is none, or when it is several.

        A wrapped script may run one program after another, so a rank that has exited is looked for again. It
        is kept as long as no other follows: a profiler sends its kernels after the end.
        """
        pid, now = connection.wrapped_pid, self._clock()
        if pid in (0, UNKNOWN) or now < connection.look_ns:
            return connection.rank
        if connection.rank is not None and self._discovery.is_alive(connection.rank):
            return connection.rank
        owner: int | None
        try:
            owner = self._discovery.processes.owner(pid)
        except OSError:
            owner = None
        if owner not in (None, peer.uid):
            self.refuse(PROCESS_OF_OTHER_USER)
            return None
        connection.look_ns = now + LOOK_AGAIN_NS
        found = self._discovery.ranks_below(pid)
        if len(found) > 1:
            self.refuse(SEVERAL_RANKS)
        elif found:
            # When this one has exited the next is looked for at once.
            connection.rank, connection.look_ns = found[0], 0
            self._add_waiting_facts(connection, found[0])
        return connection.rank

    def _rank_named(self, sender: Rank, role: str, index: int) -> Rank | None:
        """The rank that a coordinator marks for: of its own job, and never another user's process."""
        if index < 0 or not role.isprintable():
            raise ValueError("a name of a rank")
        said = self._discovery.job_of_other(sender) or sender.job
        for rank in self._discovery.ranks.values():
            job = self._discovery.job_of_other(rank) or rank.job
            if (job, rank.role, rank.index) == (said, role, index):
                if rank.uid != sender.uid:
                    self.refuse(RANK_OF_OTHER_USER)
                    return None
                return rank
        remote = Rank(sender.job, role, index, framework=sender.framework)
        if not self._room.take_named(remote, sender.uid):
            self._room.count_loss(sender, "marks for ranks elsewhere")
            return None
        if not self._discovery.new_names.take(sender.uid, [remote[:3]]):
            self._room.count_loss(sender, "marks for ranks elsewhere", why=TOO_MANY_NAMES)
            return None
        return remote
