"""Takes in what a reader finds, and keeps it small: kernels are summed by name, long lists go to disk."""

from __future__ import annotations

import marshal
import struct
import tempfile
import weakref
from collections import Counter as Counts
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

from .cells import Array
from .columns import first_of_each, sums
from .recording import Counter, Kernel, Launch, LaunchColumns, Phase, RecordedCeiling, StepLine, Throughput

MAX_KERNELS = 30_000
MAX_PHASES = 10_000
MAX_WARNINGS = 200
AT_ONCE = 256  # records are written together
MEMORY_BYTES = 8 << 20  # of one list before it goes to disk
OTHERS = "(other kernels)"
_LENGTH = struct.Struct("<I")

T = TypeVar("T", bound=tuple[Any, ...])


class RecordLog(Generic[T]):
    """An append-only list of records of one type that may be larger than memory."""

    def __init__(self, kind: type[T], keeps: bool = True) -> None:
        """keeps: whether the records will be asked for; else they are only counted."""
        self._kind = kind
        self.keeps = keeps
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115
        self._count = 0
        self._some: list[tuple[Any, ...]] = []  # not written yet
        # Whoever drops a collector half way (a reader that fails) leaves no file open.
        weakref.finalize(self, self._file.close)

    def append(self, record: T) -> None:
        self._count += 1
        if not self.keeps:
            return
        self._some.append(tuple(record))
        if len(self._some) >= AT_ONCE:
            self._write_some()

    def extend(self, likes: Sequence[T], which: Array, columns: Mapping[str, Array]) -> None:
        """Records that differ in few numbers: each is like one of `likes`, by its place there, but for the
        fields that are given as columns."""
        self._count += len(which)
        if not self.keeps:
            return
        self._write_some()
        numbers = {name: column.tobytes() for name, column in columns.items()}
        self._write([tuple(one) for one in likes], which.astype("int32").tobytes(), numbers)

    def skip(self, count: int) -> None:
        """So many records that need not be made, as none is kept."""
        self._count += count

    def _write_some(self) -> None:
        if self._some:
            self._write(self._some)
            self._some = []

    def _write(self, *some: Any) -> None:
        # A private file of this process, millions of records long: nothing is faster than marshal.
        data = marshal.dumps(some)
        self._file.write(_LENGTH.pack(len(data)) + data)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        self._write_some()
        self._file.seek(0)
        while head := self._file.read(_LENGTH.size):
            likes, *others = marshal.loads(self._file.read(*_LENGTH.unpack(head)))
            for record in self._alike(likes, *others) if others else likes:
                yield self._kind(*record)
        self._file.seek(0, 2)

    def _alike(
        self, likes: list[tuple[Any, ...]], which: bytes, columns: Mapping[str, bytes]
    ) -> Iterator[tuple[Any, ...]]:
        fields = self._kind._fields  # type: ignore[attr-defined]
        given = [(fields.index(name), memoryview(column).cast("d")) for name, column in columns.items()]
        for at, like in enumerate(memoryview(which).cast("i")):
            record = list(likes[like])
            for field, column in given:
                record[field] = column[at]
            yield tuple(record)

    def close(self) -> None:
        self._file.close()


class FileWarning(NamedTuple):
    """Something that users must know about a file; line 0: it concerns no single line."""

    text: str
    line: int
    times: int


class _Quantity:
    """A quantity of all kernels: its sums, and how many launches have it."""

    def __init__(self) -> None:
        self.known: Counts[str] = Counts()
        self.sums: defaultdict[str, float] = defaultdict(float)

    def add(self, name: str, value: float | None, count: int) -> None:
        if value is not None:
            self.known[name] += count
            self.sums[name] += value

    def add_sums(self, counts: Sequence[tuple[int, str, int]], sums: Sequence[float]) -> None:
        """counts: places of sums, whose they are, and of how many launches."""
        for at, name, count in counts:
            self.known[name] += count
            self.sums[name] += sums[at]


class _LaunchSums:
    """The launches so far, by kernel."""

    def __init__(self) -> None:
        self.firsts: dict[str, Launch] = {}
        self._launches: Counts[str] = Counts()
        self._time, self._flops = _Quantity(), _Quantity()
        self._bytes: defaultdict[str, _Quantity] = defaultdict(_Quantity)

    def add(self, name: str, launch: Launch) -> None:
        count = launch.count
        self._launches[name] += count
        self._time.add(name, launch.time_s, count)
        self._flops.add(name, launch.flops, count)
        for level, moved in launch.bytes.items():
            self._bytes[level].add(name, moved, count)

    def add_columns(self, counts: Sequence[tuple[int, str, int]], launches: LaunchColumns) -> None:
        """counts: places of kernels among the names, what they are summed up under, and how many launches."""
        for _, name, count in counts:
            self._launches[name] += count
        quantities = [(self._time, launches.times_s), (self._flops, launches.flops)]
        quantities += [(self._bytes[level], moved) for level, moved in launches.bytes.items()]
        for quantity, values in quantities:
            if values is not None:
                quantity.add_sums(counts, sums(launches.which, values, len(launches.names)))

    def _whole(self, name: str, of: _Quantity) -> float | None:
        return of.sums[name] if of.known[name] == self._launches[name] else None

    def kernels(self) -> Iterator[Kernel]:
        for name, first in self.firsts.items():
            moved = {
                level: value
                for level, one in self._bytes.items()
                if (value := self._whole(name, one)) is not None
            }
            time_s, flops = self._whole(name, self._time), self._whole(name, self._flops)
            yield Kernel(name, self._launches[name], time_s, flops, moved, first.precision, first.note)

    def partial(self) -> Iterator[tuple[str, list[str]]]:
        """Kernels of which some launches have quantities that others lack, and these."""
        quantities = {"time": self._time, "flops": self._flops}
        quantities |= {f"bytes.{level}": one for level, one in self._bytes.items()}
        for name in self.firsts:
            some = [what for what, one in quantities.items() if 0 < one.known[name] < self._launches[name]]
            if some:
                yield name, some


def _time(kernel: Kernel) -> float:
    """Without the last digits, which depend on the order in which the launches were added up."""
    return -1.0 if kernel.time_s is None else float(f"{kernel.time_s:.9g}")


class Collector:
    """Everything found in one file. Readers call its methods; `document` and `send` read it afterwards."""

    def __init__(self, keep_launches: bool = False, keep_counters: bool = True) -> None:
        """keep_launches: also every single launch, which sending needs and a summary does not; keep_counters:
        the counters' values, of which a summary has only how many there are."""
        self.tool = ""
        self.version = ""
        self.digest = ""  # of the file's content
        self.started_ns: int | None = None  # the recording's time zero as UNIX time, where the file has it
        self.duration_s: float | None = None  # of the whole run, where the file has it
        self.run: Kernel | None = None  # the whole run as one point: perf stat of a program, LIKWID's sums
        self.throughput: Throughput | None = None
        self.ceilings: list[RecordedCeiling] = []
        self.facts: dict[str, float | int | str] = {}  # whatever else describes the recording: ranks, events
        self.counters: RecordLog[Counter] = RecordLog(Counter, keep_counters)
        self.steps: RecordLog[StepLine] = RecordLog(StepLine)
        self.launches: RecordLog[Launch] | None = RecordLog(Launch) if keep_launches else None
        self.parts: list[Collector] = []  # what the same file holds of other ranks
        self._sums = _LaunchSums()
        self.summed: list[Kernel] = []  # by the reader or the tool itself
        self._phases: dict[str, Phase] = {}
        self._warnings: dict[str, list[int]] = {}  # text -> its first line, how often

    def launch(self, launch: Launch) -> None:
        """A kernel was executed."""
        name = launch.name
        if name not in self._sums.firsts:
            name = self._new_name(launch)
        self._sums.add(name, launch)
        if self.launches is not None:
            self.launches.append(launch)

    def launch_columns(self, several: Sequence[LaunchColumns]) -> None:
        """The same as `launch` for each of them, in the order of their places."""
        if self.launches is not None:
            for _, launch in sorted((one for some in several for one in some.launches), key=itemgetter(0)):
                if launch.name not in self._sums.firsts:
                    self._new_name(launch)
                self.launches.append(launch)
        self._note_firsts(several)
        for some in several:
            counts = []
            for at, count in enumerate(sums(some.which, None, len(some.names))):
                name = some.names[at]
                if count and name not in self._sums.firsts:
                    name = self._new_name(some.like._replace(name=name))
                if count:
                    counts.append((at, name, int(count)))
            self._sums.add_columns(counts, some)

    def _note_firsts(self, several: Sequence[LaunchColumns]) -> None:
        """Of kernels that are new: their first launch."""
        known, new = self._sums.firsts, []
        for some in several:
            if not known.keys() >= set(some.names):
                for at in first_of_each(some.which).tolist():
                    name = some.names[some.which[at]]
                    if name not in known:
                        new.append((int(some.places[at]), some.like._replace(name=name)))
        for _, launch in sorted(new, key=itemgetter(0)):
            if len(known) < MAX_KERNELS:
                known.setdefault(launch.name, launch)

    def has_kernel(self, name: str) -> bool:
        """Whether launches of it were there."""
        return name in self._sums.firsts

    def _new_name(self, first: Launch) -> str:
        """What a kernel's launches are summed up under, from its first on."""
        name = first.name
        if len(self._sums.firsts) >= MAX_KERNELS:
            self.warn(f"more than {MAX_KERNELS} different kernels; the rest are summed up as {OTHERS}")
            name = OTHERS
        self._sums.firsts.setdefault(name, first)
        return name

    def kernel(self, kernel: Kernel) -> None:
        """A kernel whose launches the reader, or the tool itself, has summed up."""
        self.summed.append(kernel)

    def phase(self, name: str, time_s: float, count: int = 1, moved: float | None = None) -> None:
        """Time spent in an activity; adds up by name. Bytes are a sum only if all of them have some."""
        if name not in self._phases and len(self._phases) >= MAX_PHASES:
            self.warn(f"more than {MAX_PHASES} different phases; the rest are left out")
            return
        old = self._phases.get(name, Phase(name, 0, 0.0, 0.0))
        both = None if old.bytes is None or moved is None else old.bytes + moved
        self._phases[name] = Phase(name, old.count + count, old.time_s + time_s, both)

    def take_over(self, ranks: Sequence[Collector]) -> None:
        """What a file holds of several ranks, each in its own: the first is this one from now on."""
        if not ranks:
            return
        first, *self.parts = ranks
        for name in ("tool", "started_ns", "duration_s", "throughput", "facts", "steps", "_phases"):
            setattr(self, name, getattr(first, name))

    def warn(self, text: str, line: int = 0, times: int = 1) -> None:
        """Warn of something about the file; the same text is kept once, with its first line and how often."""
        old = self._warnings.get(text)
        if old is not None:
            old[1] += times
        elif len(self._warnings) < MAX_WARNINGS:
            self._warnings[text] = [line, times]

    @property
    def kernels(self) -> list[Kernel]:
        """Longest first; those without a time last."""
        made = [*self.summed, *self._sums.kernels()]
        return sorted(made, key=_time, reverse=True)

    @property
    def phases(self) -> list[Phase]:
        return sorted(self._phases.values(), key=lambda phase: phase.time_s, reverse=True)

    @property
    def warnings(self) -> list[FileWarning]:
        found: list[FileWarning] = []
        for name, quantities in islice(self._sums.partial(), MAX_WARNINGS):
            text = f"not every launch of {name} has {', '.join(quantities)}: its sum is left out"
            found.append(FileWarning(text, 0, 1))
        return [*(FileWarning(text, *where) for text, where in self._warnings.items()), *found]

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was found."""
        something = (
            self._sums.firsts or self.summed or self._phases or self.ceilings or self.run or self.throughput
        )
        return not (something or len(self.counters) or len(self.steps))

    def close(self) -> None:
        for log in (self.counters, self.steps, self.launches):
            if log is not None:
                log.close()
        for part in self.parts:
            part.close()
