"""Which rank a connected process is, wraps or marks for. No process can mark for another user's rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from ..ranks.claims import Claimed
from ..ranks.discovery import Discovery
from ..ranks.new_names import TOO_MANY_NAMES
from ..records import KernelShape, Rank
from .gathered import Gathered
from .listener import PeerProcess
from .refusals import (
    PROCESS_OF_OTHER_USER,
    RANK_OF_OTHER_USER,
    SENDER_ELSEWHERE,
    SENDER_GONE,
    SEVERAL_RANKS,
    WRAPPER_ELSEWHERE,
)

LOOK_AGAIN_NS = 1_000_000_000  # for the rank that a wrapper has started: it takes a walk through /proc
MAX_HELD = 64 << 20  # bytes of shapes and facts of all connections; each user has an equal share
TOGETHER_NS = 2_000_000_000  # two processes that mark within so long both train
MOST_MARKED = 256  # processes of which it is kept when they marked, unless more do so all the time
MOST_STARTED = 256  # ranks to which a wrapper's command was the launcher, of which it is kept
UNKNOWN = -1  # the pid of a wrapped process that cannot be found


class MarkConnection:
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
        self.trains = False  # it is known to the discovery as a process that marks
        self.started: dict[int, Rank] = {}  # a wrapper's: by pid, the ranks that its command has started
        self.seen = False  # a wrapper's: its command was a rank as it began
        self.seen_sent = False

    def has_started(self, ranks: Iterable[Rank]) -> None:
        """A wrapper's command has started these ranks, whose launcher it is, unless it is one itself."""
        self.started.update((rank.pid, rank) for rank in ranks if rank.pid != self.wrapped_pid)
        while len(self.started) > MOST_STARTED:
            del self.started[next(iter(self.started))]


class Senders:
    """Looks up the ranks of connections; what they may not say is refused, and counted in `gathered`."""

    def __init__(self, discovery: Discovery, clock: Callable[[], int]) -> None:
        self._discovery = discovery
        self._clock = clock
        self._held: Counter[int] = Counter()  # bytes that connections hold, by user
        self._marked: dict[int, int] = {}  # pid -> when it marked last
        self.gathered = Gathered(self._rank_named)

    def hold(self, connection: MarkConnection, size: int) -> bool:
        """Keep so many bytes more of a connection, if its user's share has room for them."""
        if size > 0 and self._held[connection.uid] + size > MAX_HELD // self.gathered.room.users:
            return False
        self._held[connection.uid] += size
        connection.held += size
        return True

    def release(self, connection: MarkConnection) -> None:
        """A connection has ended, and nothing of it is kept."""
        self._held[connection.uid] -= connection.held
        if not self._held[connection.uid]:
            del self._held[connection.uid]

    def rank_of(self, connection: MarkConnection, peer: PeerProcess) -> Rank | None:
        """The rank that a process is or has wrapped; None where there is none, or no single one."""
        rank = self._rank_now(connection, peer)
        if rank is not None and connection.facts:
            self.hand_over_facts(connection, rank)
        return rank

    def rank_that_marks(self, connection: MarkConnection, peer: PeerProcess) -> Rank | None:
        """The rank of a process that marks steps: two that do so at once are two ranks, though both claim
        one."""
        rank, now = self._rank_now(connection, peer), self._clock()
        if rank is not None and not connection.trains and not connection.wrapped_pid:
            rank = self._first_mark(connection, peer, rank)
            connection.trains = rank is not None
        if rank is not None and (claimed := self._discovery.rivals.get(rank.pid)) is not None:
            holder = self._other_that_trains(rank, claimed, now)
            if holder is None:
                self._discovery.holds(claimed, rank.pid)
            else:
                # Before this mark is kept: else it would be among the steps of the other.
                self._discovery.distinguish(claimed, holder)
                rank = self._rank_now(connection, peer)
        if rank is None:
            return None
        if connection.facts:
            self.hand_over_facts(connection, rank)
        self._marked[rank.pid] = now
        if len(self._marked) > MOST_MARKED:
            rivals = self._discovery.rivals
            self._marked = {p: at for p, at in self._marked.items() if now - at < TOGETHER_NS or p in rivals}
        return rank

    def _other_that_trains(self, rank: Rank, claimed: Claimed, now: int) -> int | None:
        """The pid of another process that trains as the rank which this one claims too; None: of those that
        did each had ended its training when this one was started."""
        rivals = self._discovery.rivals
        others = [(at, pid) for pid, at in self._marked.items() if rivals.get(pid) == claimed]
        at, pid = max((other for other in others if other[1] != rank.pid), default=(0, 0))
        return pid if at and (now - at < TOGETHER_NS or at > rank.start_ns) else None

    def _first_mark(self, connection: MarkConnection, peer: PeerProcess, before: Rank) -> Rank | None:
        """The rank of a process that has just begun to mark: itself, if what it was a part of marks none. It
        may have ended since; None if it is not known any more which rank it was."""
        rank = self._discovery.trains(peer.pid) or self._ended(peer.pid, peer)
        if rank is None and before.pid != peer.pid and not self._discovery.is_training(before):
            self.gathered.refuse(SENDER_GONE, before)
            return None
        rank = rank or before
        if rank != before:
            connection.rank = rank
            connection.facts = list(connection.all_facts.values())
        return rank

    def wraps(self, connection: MarkConnection, peer: PeerProcess, pid: int) -> None:
        """A process has reported that it is a wrapper, which has started `pid`."""
        connection.rank, connection.look_ns = None, 0
        if peer.pid > 0:
            child = self._discovery.processes.child_called(pid, peer.pid)
            connection.wrapped_pid = child or UNKNOWN
            if child:
                # It may have ended when all processes are looked at next.
                rank = self._discovery.look_at(child)
                connection.seen = rank is not None and rank.pid == child
        else:
            # The pid in the packet is another process here.
            connection.wrapped_pid = UNKNOWN
            self.gathered.refuse(WRAPPER_ELSEWHERE, None)

    def hand_over_facts(self, connection: MarkConnection, rank: Rank) -> None:
        """The facts that waited until the rank of their sender was known."""
        self.gathered.add_facts(rank, connection.facts, self._clock())
        self.hold(connection, -connection.waiting)
        connection.facts, connection.waiting = [], 0

    def wrapped_rank(self, connection: MarkConnection, peer: PeerProcess) -> Rank | None:
        """The rank that a wrapper has started; None while there is none, or when it is several.

        A wrapped script may run one program after another, so a rank that has exited is looked for again. It
        is kept as long as no other follows: a profiler sends its kernels after the end.
        """
        pid, now = connection.wrapped_pid, self._clock()
        idle = connection.rank is not None and self._discovery.is_idle(connection.rank)
        if idle:
            connection.rank, connection.facts = None, list(connection.all_facts.values())
        if pid in (0, UNKNOWN) or now < connection.look_ns:
            return self._as_now(connection)
        if connection.rank is not None and self._discovery.is_alive(connection.rank):
            return self._as_now(connection)
        if self._owner(pid) not in (None, peer.uid):
            self.gathered.refuse(PROCESS_OF_OTHER_USER, connection.rank)
            return None
        connection.look_ns = now + LOOK_AGAIN_NS
        ranks = self._discovery.ranks_below(pid)
        connection.has_started(ranks)
        if len(ranks) > 1:
            self.gathered.refuse(SEVERAL_RANKS, ranks[0])
        elif ranks:
            # When this one has exited the next is looked for at once.
            connection.rank, connection.look_ns = ranks[0], 0
            self.hand_over_facts(connection, ranks[0])
        elif connection.rank is None and self._owner(pid) is None:
            connection.rank = self._ended(pid, peer)
        return connection.rank

    def _ended(self, pid: int, peer: PeerProcess) -> Rank | None:
        """The rank that a process was which ended before anything was received of it, or of its wrapper."""
        rank = self._discovery.ended(pid)
        return rank if rank is not None and rank.uid == peer.uid else None

    def _rank_now(self, connection: MarkConnection, peer: PeerProcess) -> Rank | None:
        if connection.wrapped_pid:
            return self.wrapped_rank(connection, peer)
        return self._own_rank(connection, peer)

    def _own_rank(self, connection: MarkConnection, peer: PeerProcess) -> Rank | None:
        """The rank that a process which marks is; it becomes one if no launcher named it."""
        if connection.rank is None:
            if peer.pid <= 0:
                self.gathered.refuse(SENDER_ELSEWHERE, None)
                return None
            if self._owner(peer.pid) is None:
                self._discovery.trains(peer.pid)  # as was known of it when it connected
                found = None
            else:
                found = self._discovery.look_at(peer.pid) or self._discovery.adopt(peer.pid, peer.uid)
            if found is None and self._owner(peer.pid) is None:
                found = self._ended(peer.pid, peer)
            if found is None:
                self.gathered.refuse(SENDER_GONE, None)
                return None
            connection.rank = found
        return self._as_now(connection)

    def _as_now(self, connection: MarkConnection) -> Rank | None:
        """Its rank, which may have turned out to be another since it was looked up."""
        before = connection.rank
        if before is not None and (now := self._discovery.as_now(before)) != before:
            connection.rank = now
            connection.facts = list(connection.all_facts.values())
        return connection.rank

    def _owner(self, pid: int) -> int | None:
        """The user of a process; None when it has gone."""
        try:
            return self._discovery.processes.owner(pid)
        except OSError:
            return None

    def _rank_named(self, sender: Rank, role: str, index: int) -> Rank | None:
        """The rank that a coordinator marks for: of its own job, and never another user's process."""
        if index < 0 or not role.isprintable():
            raise ValueError("a name of a rank")
        claimed = self._discovery.job_of_other(sender) or sender.job
        for rank in self._discovery.ranks.values():
            job = self._discovery.job_of_other(rank) or rank.job
            if (job, rank.role, rank.index) == (claimed, role, index):
                if rank.uid != sender.uid:
                    self.gathered.refuse(RANK_OF_OTHER_USER, sender)
                    return None
                return rank
        remote = Rank(sender.job, role, index, framework=sender.framework)
        if not self.gathered.room.take_named(remote, sender.uid):
            self.gathered.room.count_loss(sender, "marks for ranks elsewhere")
            return None
        if not self._discovery.new_names.take(sender.uid, [remote[:3]]):
            self.gathered.room.count_loss(sender, "marks for ranks elsewhere", why=TOO_MANY_NAMES)
            return None
        return remote
