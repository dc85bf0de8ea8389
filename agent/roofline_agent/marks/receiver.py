"""Takes step marks and kernel records from the training processes of this node.

They come over the socket of `listener`, which knows who sent them: nobody marks for another user's rank.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable

from roofline_step._sender import FACT, MAX_FACT

from ..ranks.discovery import Discovery
from ..records import Call, Event, EventKind, KernelShape, Mark, Rank, Span
from ..uplink.bounds import CALL_BYTES, EVENT_BYTES, MARK_BYTES, SPAN_BYTES, Room, printable
from .listener import Listener, Peer
from .packets import KERNEL, WRAPPED, parse_calls, parse_mark, parse_shape, parse_spans

MAX_KERNELS, MAX_DESCRIBED = 65536, 16 << 20  # shapes one wrapper may describe, and bytes of them
LOOK_AGAIN_NS = 1_000_000_000  # for the rank that a wrapper has started: it takes a walk through /proc
UNKNOWN = -1  # the pid of a wrapped process that cannot be told
MAX_FACTS = 256  # that wait until it is known whose they are


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
        said = parse_mark(data)
        if not said.in_range:
            self._refuse("a mark with a step, examples or time out of range")
            return said.size
        size, dropped, time_ns = MARK_BYTES + len(said.phase.encode()), said.dropped, said.time_ns
        if not self._room.rows(size + (EVENT_BYTES if dropped else 0)):
            self._room.lose(rank, "marks", 1 + dropped)
            return said.size
        if dropped:
            self._events.append(Event(EventKind.LOST, time_ns, time_ns, rank, dropped, "marks"))
        whose = self._named(rank, said.role, said.index) if said.role else rank
        if whose is not None:
            whole = (said.kind, said.step, said.examples, time_ns, said.phase, bool(said.flags & 1))
            self._marks.append(Mark(whose, rank, *whole))
        return said.size

    def _stretches(self, rank: Rank, data: bytes) -> int:
        """Take the spans that stand first, all or none; returns the size of their record."""
        said = parse_spans(data)
        known = [self._room.span_name(name) for name in said.names]
        found = [
            Span(rank, said.names[name], begin, end, handled, count)
            for name, begin, end, handled, count in said.spans
            if known[name]
        ]
        self._keep(rank, found, len(said.spans))
        return said.size

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
        said = parse_calls(data)
        begin, count = said.begin, len(said.kernels)
        shapes = [sender.shapes[kernel] for kernel in said.kernels]
        new = set(shapes) - self._shapes
        if not self._room.rows(EVENT_BYTES + CALL_BYTES * count + sum(map(_size, new))):
            self._room.lose(rank, "kernels", count)
            return  # nor is their time claimed
        self._shapes |= new
        for shape, start, duration in zip(shapes, said.starts, said.durations, strict=True):
            self._calls.append(Call(rank, shape, start, duration))
        before = self._covered.get(rank)
        if before is not None and before[1] == begin:
            begin = before[0]
        elif before is not None:
            self._events.append(Event(EventKind.KERNELS_COVERED, *before, rank))
        self._covered[rank] = (begin, said.through)

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
            return self._discovery.processes.owner(pid)
        except OSError:
            return None


def _size(shape: KernelShape) -> int:
    """Bytes of a description on the wire, at most."""
    return len(json.dumps(shape))
