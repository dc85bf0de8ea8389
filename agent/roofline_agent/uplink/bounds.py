"""What one batch may hold: values that the server takes, and no more of them than fit. No I/O.

The server refuses a batch as a whole, the samples of all ranks included, so what it would not take has to be
left out before. A batch may have 8 MiB there (roofline.limits): 4 MiB of rows, which are 65,536 marks of
64 bytes, 87,381 spans of 48 or 131,072 kernel calls of 32, with the kernels' descriptions and the ranks that
coordinators speak for; 1 MiB of facts; 3 MiB stay for samples, ranks and other events.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sized

from roofline.limits import MAX_FORMS, MAX_SPAN_NAMES, MAX_TIME_NS

from ..records import Event, EventKind, Rank

MAX_COUNT = 2**31
MAX_NAMED = 1024  # ranks elsewhere that coordinators speak for
MAX_BATCH_FACTS = 4096
ROWS_BYTES, FACTS_BYTES = 4 << 20, 1 << 20
MARK_BYTES, SPAN_BYTES, CALL_BYTES, EVENT_BYTES = 64, 48, 32, 64


def is_time(*moments: int) -> bool:
    """Whether these can be node times in ns."""
    return all(-MAX_TIME_NS < moment < MAX_TIME_NS for moment in moments)


class BatchRoom:
    """What a batch can still take, and what it could not. `take_...` is True where it fits, and takes it.

    Of all each user has an equal share, so that a flood of one user's costs that user alone.
    """

    def __init__(self, users: int = 1) -> None:
        """users: whose processes are connected."""
        self.users = users
        self._rows, self._text, self._facts = ROWS_BYTES, FACTS_BYTES, MAX_BATCH_FACTS
        self._rows_of: Counter[int] = Counter()
        self._text_of: Counter[int] = Counter()
        self._facts_of: Counter[int] = Counter()
        self._names_of: defaultdict[int, set[str]] = defaultdict(set)  # of spans, by user
        self._named_of: defaultdict[int, set[Rank]] = defaultdict(set)
        self._forms_of: Counter[int] = Counter()
        self._lost: dict[tuple[Rank | None, str], int] = {}

    def take_rows(self, size: int, user: int) -> bool:
        """So many bytes of rows."""
        if size > min(self._rows, ROWS_BYTES // self.users - self._rows_of[user]):
            return False
        self._rows -= size
        self._rows_of[user] += size
        return True

    @property
    def is_half_full(self) -> bool:
        """Whether someone has used half of a share of rows, facts or forms."""
        rows, text, facts = ROWS_BYTES, FACTS_BYTES, MAX_BATCH_FACTS
        used = (
            (self._rows_of, rows),
            (self._text_of, text),
            (self._facts_of, facts),
            (self._forms_of, MAX_FORMS),
        )
        return any(2 * self.users * max(of.values(), default=0) >= most for of, most in used)

    def take_fact(self, text: str, user: int) -> bool:
        size = EVENT_BYTES + len(text.encode())
        facts = min(self._facts, MAX_BATCH_FACTS // self.users - self._facts_of[user])
        if facts <= 0 or size > min(self._text, FACTS_BYTES // self.users - self._text_of[user]):
            return False
        self._facts, self._text = self._facts - 1, self._text - size
        self._facts_of[user] += 1
        self._text_of[user] += size
        return True

    def take_span_name(self, name: str, user: int) -> bool:
        """A name that spans may have, of which a batch has few."""
        names = self._names_of[user]
        if name not in names:
            # One that several users have counts for each.
            if len(names) >= MAX_SPAN_NAMES // self.users or _count(self._names_of) >= MAX_SPAN_NAMES:
                return False
            names.add(name)
        return True

    def take_form(self, user: int) -> bool:
        """One more form of steps."""
        if self._forms_of[user] >= MAX_FORMS // self.users or self._forms_of.total() >= MAX_FORMS:
            return False
        self._forms_of[user] += 1
        return True

    def take_named(self, rank: Rank, user: int) -> bool:
        """A rank elsewhere that one of this node speaks for."""
        named = self._named_of[user]
        if rank not in named:
            size = EVENT_BYTES + len("".join((rank.job, rank.role, rank.framework)).encode())
            is_full = len(named) >= MAX_NAMED // self.users or _count(self._named_of) >= MAX_NAMED
            if is_full or not self.take_rows(size, user):
                return False
            named.add(rank)
        return True

    def count_loss(
        self, rank: Rank | None, what: str, count: int = 1, why: str = "more than a batch holds"
    ) -> None:
        key = rank, f"{what} ({why})"
        self._lost[key] = self._lost.get(key, 0) + count

    def losses(self, now_ns: int) -> list[Event]:
        """An event for each rank and kind of thing that did not fit."""
        return [
            Event(EventKind.LOST, now_ns, now_ns, rank, count, what)
            for (rank, what), count in self._lost.items()
        ]


def _count(of_users: Mapping[int, Sized]) -> int:
    return sum(map(len, of_users.values()))
