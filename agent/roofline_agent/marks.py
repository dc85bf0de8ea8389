"""Takes step marks and kernel records from the training processes of this node.

They come over the socket of `listener`, which knows who sent them: nobody marks for another user's rank.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import time
from collections.abc import Callable

from roofline_step._sender import ABSENT, FACT, HEADER, MAX_FACT, SPAN_VALUES, SPANS

from .bounds import (
    CALL_BYTES,
    EVENT_BYTES,
    MARK_BYTES,
    MAX_BYTES,
    MAX_COUNT,
    MAX_TIME_NS,
    SPAN_BYTES,
    Room,
    is_time,
    printable,
)
from .discovery import Discovery
from .listener import Listener, Peer
from .records import Call, Event, EventKind, Mark, MarkKind, Rank, Span
from .verbose.records import KernelShape

MAX_KERNELS, MAX_DESCRIBED = 65536, 16 << 20  # shapes one wrapper may describe, and bytes of them
LOOK_AGAIN_NS = 1_000_000_000  # for the rank that a wrapper has started: it takes a walk through /proc
UNKNOWN = -1  # the pid of a wrapped process that cannot be told
MAX_FACTS = 256  # that wait until it is known whose they are
SPAN_NAME = re.compile(r"[a-z]+(\.[a-z0-9_-]+)+")
COUNTS = ("flops", "bytes", "dram_bytes", "l1_bytes", "l2_bytes")
# Packets of the wrapper (wrapper.py sends them): who is wrapped, a kernel's description, executed kernels.
WRAPPED = struct.Struct("<sxxxi")
KERNEL = struct.Struct("<sxxxI")
CALLS = struct.Struct("<sxxxIqq")


class _Sender:
    """What is known of one connection."""

    def __init__(self) -> None:
        self.rank: Rank | None = None
        self.wrapped_pid = 0
        self.facts: list[str] = []  # said before it was known whose they are
        self.shapes: dict[int, KernelShape] = {}
        self.described = 0  # bytes of them
        self.look_ns = 0  # when to look again for what is wrapped


class Intake:
    """Turns packets into marks, kernel calls and events about ranks; `take_*` hand them over once."""

    def __init__(
        self, listener: Listener, discovery: Discovery, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._listener = listener
        self._discovery = discovery
        self._clock = clock
        self._room = Room()
        self._shapes: set[KernelShape] = set()  # in this batch
        self._senders: dict[socket.socket, _Sender] = {}
        self._marks: list[Mark] = []
        self._calls: list[Call] = []
        self._spans: list[Span] = []
        self._events: list[Event] = []
        self._covered: dict[Rank, tuple[int, int]] = {}
        self._refused: dict[str, int] = {}

    def welcome(self) -> None:
        """Take in new connections, and look who they are before they can be gone again."""
        for connection, peer in self._listener.accept():
            sender = self._senders[connection] = _Sender()
            sender.rank = self._discovery.look_at(peer.pid) if peer.pid > 0 else None

    @property
    def connections(self) -> int:
        """How many processes are connected."""
        return len(self._senders)

    def drain(self) -> None:
        """Read what waits on the socket."""
        for connection, peer, data in self._listener.read():
            sender = self._senders[connection]
            if not data:
                del self._senders[connection]
                continue
            try:
                self._packet(sender, peer, data)
            except (struct.error, ValueError, TypeError, KeyError, RecursionError):
                self._refuse("a packet that is no mark")

    def take_spans(self) -> list[Span]:
        """The stretches of time that were told since the last call."""
        taken, self._spans = self._spans, []
        return taken

    def take(self, now_ns: int) -> tuple[list[Mark], list[Call], list[Event]]:
        """What came since the last call; refusals and kernel coverage are summed into events."""
        events = self._events
        for rank, (begin, end) in self._covered.items():
            events.append(Event(EventKind.KERNELS_COVERED, begin, end, rank))
        for text, count in self._refused.items():
            events.append(Event(EventKind.REFUSED, now_ns, now_ns, None, count, text))
        events += self._room.losses(now_ns)
        taken = (self._marks, self._calls, events)
        self._marks, self._calls, self._events = [], [], []
        self._covered, self._refused = {}, {}
        self._room, self._shapes = Room(), set()
        return taken

    def _refuse(self, why: str, count: int = 1) -> None:
        self._refused[why] = self._refused.get(why, 0) + count

    def _packet(self, sender: _Sender, peer: Peer, data: bytes) -> None:
        kind = data[:1]
        if kind in (b"M", b"S"):
            self._records(sender, peer, data)
        elif kind == b"F":
            self._fact(sender, peer, data[len(FACT) :][:MAX_FACT].decode(errors="replace"))
        elif kind == b"C":
            self._kernel_calls(sender, peer, data)
        elif kind == b"K":
            _, number = KERNEL.unpack_from(data)
            sender.described += len(data)
            if len(sender.shapes) < MAX_KERNELS and sender.described <= MAX_DESCRIBED:
                sender.shapes[number] = parse_shape(data[KERNEL.size :])
        elif kind == b"W":
            self._introduce(sender, peer, WRAPPED.unpack_from(data)[1])
        else:
            self._refuse("a packet that is no mark")

    def _introduce(self, sender: _Sender, peer: Peer, pid: int) -> None:
        sender.rank, sender.look_ns = None, 0
        if peer.pid <= 0:
            # The number it says is another process here.
            sender.wrapped_pid = UNKNOWN
            self._refuse(
                "a wrapper from another PID namespace: start the agent in the same one or on the host"
            )
        else:
            sender.wrapped_pid = self._discovery.processes.child_called(pid, peer.pid) or UNKNOWN

    def _records(self, sender: _Sender, peer: Peer, data: bytes) -> None:
        """Marks and spans behind one another; what is wrong costs itself and what follows."""
        rank = self._speaker(sender, peer)
        while data and rank is not None:
            if data[:1] == b"M":
                size = self._mark(rank, data)
            elif data[:1] == b"S":
                size = self._stretches(rank, data)
            else:
                raise ValueError("neither a mark nor spans")
            data = data[size:]

    def _mark(self, rank: Rank, data: bytes) -> int:
        """Take the mark that stands first; returns its size."""
        _, kind, flags, role_size, phase_size, dropped, index, step, examples, time_ns = HEADER.unpack_from(
            data
        )
        text = data[HEADER.size :]
        role = text[:role_size].decode()
        phase = printable(text[role_size : role_size + phase_size].decode())
        if not MarkKind.BEGIN <= kind <= MarkKind.PHASE_END:
            raise ValueError(kind)
        size = int(HEADER.size + role_size + phase_size)
        if not is_time(time_ns, step) or examples > MAX_BYTES:
            self._refuse("a mark with a step, examples or time out of range")
            return size
        if not self._room.rows(MARK_BYTES + phase_size + (EVENT_BYTES if dropped else 0)):
            self._room.lose(rank, "marks", 1 + dropped)
            return size
        if dropped:
            self._events.append(Event(EventKind.LOST, time_ns, time_ns, rank, dropped, "marks"))
        whose = self._named(rank, role, index) if role else rank
        if whose is not None:
            said = None if examples == ABSENT or examples < 0 else examples
            self._marks.append(Mark(whose, rank, kind, step, said, time_ns, phase, bool(flags & 1)))
        return size

    def _stretches(self, rank: Rank, data: bytes) -> int:
        """Take the spans that stand first, all or none; returns the size of their record."""
        _, size, count = SPANS.unpack_from(data)
        names = data[SPANS.size : SPANS.size + size].decode().split("\0")
        if not all(SPAN_NAME.fullmatch(name) and len(name) <= 64 for name in names):
            raise ValueError("a name of a span")
        values = struct.unpack_from(f"<{SPAN_VALUES * count}q", data, SPANS.size + size)
        known = [self._room.span_name(name) for name in names]
        found = []
        for at in range(0, len(values), SPAN_VALUES):
            name, begin, end, handled, number = values[at : at + SPAN_VALUES]
            if not (0 <= name < len(names) and -MAX_TIME_NS < begin <= end < MAX_TIME_NS):
                raise ValueError("a span that cannot be")
            if not 0 <= number < MAX_COUNT or handled > MAX_BYTES:
                raise ValueError("a span of too much")
            some = None if handled == ABSENT or handled < 0 else handled
            if known[name]:
                found.append(Span(rank, names[name], begin, end, some, number))
        self._keep(rank, found, count)
        return int(SPANS.size + size + 8 * SPAN_VALUES * count)

    def _keep(self, rank: Rank, spans: list[Span], of: int) -> None:
        """Take what there is room for of a record's spans."""
        if self._room.rows(SPAN_BYTES * len(spans)):
            self._spans += spans
        else:
            spans = []
        if of > len(spans):
            self._room.lose(rank, "spans", of - len(spans))

    def _fact(self, sender: _Sender, peer: Peer, text: str) -> None:
        # A process is not made a rank by having imported something.
        if sender.wrapped_pid:
            sender.rank = self._wrapped(sender, peer)
        elif sender.rank is None and peer.pid > 0:
            sender.rank = self._discovery.look_at(peer.pid)
        if len(sender.facts) < MAX_FACTS:
            sender.facts.append(printable(text))
        else:
            self._room.lose(None, "facts")
        if sender.rank is not None:
            self._tell_facts(sender, sender.rank)

    def _tell_facts(self, sender: _Sender, rank: Rank) -> None:
        now = self._clock()
        for text in sender.facts:
            if self._room.fact(text):
                self._events.append(Event(EventKind.FACT, now, now, rank, text=text))
            else:
                self._room.lose(rank, "facts")
        sender.facts = []

    def _speaker(self, sender: _Sender, peer: Peer) -> Rank | None:
        """Whose steps and time a connection tells: a wrapper's is about the rank it wraps."""
        return self._wrapped(sender, peer) if sender.wrapped_pid else self._rank_of(sender, peer)

    def _rank_of(self, sender: _Sender, peer: Peer) -> Rank | None:
        if sender.rank is None:
            if peer.pid <= 0:
                self._refuse(
                    "a mark from another PID namespace: start the agent in the same one or on the host"
                )
                return None
            sender.rank = self._discovery.look_at(peer.pid) or self._discovery.adopt(peer.pid, peer.uid)
            if sender.rank is None:
                self._refuse("a mark from a process that has gone")
            else:
                self._tell_facts(sender, sender.rank)
        return sender.rank

    def _named(self, speaker: Rank, role: str, index: int) -> Rank | None:
        """The rank a coordinator speaks for: of its own job, and never another user's process."""
        if index < 0 or not role.isprintable():
            raise ValueError("a name of a rank")
        for rank in self._discovery.ranks.values():
            if (rank.job, rank.role, rank.index) == (speaker.job, role, index):
                if rank.uid != speaker.uid:
                    self._refuse("a mark for a rank of another user")
                    return None
                return rank
        afar = Rank(speaker.job, role, index, framework=speaker.framework)
        if not self._room.named(afar):
            self._room.lose(speaker, "marks for ranks elsewhere")
            return None
        return afar

    def _kernel_calls(self, sender: _Sender, peer: Peer, data: bytes) -> None:
        rank = self._wrapped(sender, peer)
        if rank is None:
            return
        _, count, begin, through = CALLS.unpack_from(data)
        columns = struct.unpack_from(f"<{3 * count}q", data, CALLS.size)
        kernels, starts, durations = columns[:count], columns[count : 2 * count], columns[2 * count :]
        if not is_time(begin, through, *starts) or any(not 0 <= d < MAX_TIME_NS // 2 for d in durations):
            raise ValueError("kernels out of time")
        shapes = [sender.shapes[kernel] for kernel in kernels]
        new = set(shapes) - self._shapes
        if not self._room.rows(EVENT_BYTES + CALL_BYTES * count + sum(map(_size, new))):
            self._room.lose(rank, "kernels", count)
            return  # nor is their time claimed
        self._shapes |= new
        for shape, start, duration in zip(shapes, starts, durations, strict=True):
            self._calls.append(Call(rank, shape, start, duration))
        before = self._covered.get(rank)
        if before is not None and before[1] == begin:
            begin = before[0]
        elif before is not None:
            self._events.append(Event(EventKind.KERNELS_COVERED, *before, rank))
        self._covered[rank] = (begin, through)

    def _wrapped(self, sender: _Sender, peer: Peer) -> Rank | None:
        # A wrapped script may run one program after another: the rank is asked for anew when it has gone.
        # One that has gone is kept as long as no other follows: a profiler tells its kernels after its end.
        pid, now = sender.wrapped_pid, self._clock()
        if pid in (0, UNKNOWN) or now < sender.look_ns:
            return sender.rank
        if sender.rank is None or not self._discovery.is_alive(sender.rank):
            if self._owner(pid) not in (None, peer.uid):
                self._refuse("what a wrapper says of another user's process")
                return None
            sender.look_ns = now + LOOK_AGAIN_NS
            found = self._discovery.ranks_below(pid)
            if len(found) > 1:
                self._refuse(
                    "what a wrapper says of a command that is several ranks; wrap each rank by itself"
                )
            elif found:
                # Found anew at once when it has gone.
                sender.rank, sender.look_ns = found[0], 0
                self._tell_facts(sender, found[0])
        return sender.rank

    def _owner(self, pid: int) -> int | None:
        try:
            return os.stat(f"{self._discovery.proc}/{pid}").st_uid
        except OSError:
            return None


def _size(shape: KernelShape) -> int:
    """Bytes of a description on the wire, at most."""
    return len(json.dumps(shape))


def parse_shape(data: bytes) -> KernelShape:
    """A kernel's description from a wrapper. Raises ValueError or TypeError for anything else."""
    shape = KernelShape(*json.loads(data))
    for name, value in shape._asdict().items():
        right = (int, type(None)) if name in COUNTS else (str,)
        if not isinstance(value, right) or isinstance(value, bool):
            raise ValueError(f"{name} of a kernel is {type(value).__name__}")
        if isinstance(value, str):
            value.encode()  # half a surrogate pair is valid JSON and no text
    counts = (getattr(shape, name) for name in COUNTS)
    if any(value is not None and not 0 <= value < 2**63 for value in counts):
        raise ValueError("a kernel's counts are out of range")
    return shape
