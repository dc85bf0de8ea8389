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
from typing import Any, Generic, NamedTuple, TypeVar

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

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115
        self._count = 0
        self._some: list[tuple[Any, ...]] = []  # not written yet
        # Whoever drops a collector half way (a reader that fails) leaves no file open.
        weakref.finalize(self, self._file.close)

    def append(self, record: T) -> None:
        self._some.append(tuple(record))
        self._count += 1
        if len(self._some) >= AT_ONCE:
            self._write_some()

    def extend(self, likes: Sequence[T], which: Sequence[int], columns: Mapping[str, Sequence[Any]]) -> None:
        """Records that differ in few fields: each is like one of `likes`, by its place there, but for the
        fields that are given as columns."""
        self._write_some()
        self._write([tuple(one) for one in likes], which, dict(columns))
        self._count += len(which)

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
        self, likes: list[tuple[Any, ...]], which: Sequence[int], columns: Mapping[str, Sequence[Any]]
    ) -> Iterator[tuple[Any, ...]]:
        fields = self._kind._fields  # type: ignore[attr-defined]
        given = [(fields.index(name), column) for name, column in columns.items()]
        for at, like in enumerate(which):
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

    def add_column(self, names: Sequence[str], values: Sequence[float] | None) -> None:
        if values is not None:
            self.known.update(names)
            for name, value in zip(names, values, strict=True):
                self.sums[name] += value


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

    def add_columns(self, names: Sequence[str], launches: LaunchColumns) -> None:
        self._launches.update(names)
        self._time.add_column(names, launches.times_s)
        self._flops.add_column(names, launches.flops)
        for level, moved in launches.bytes.items():
            self._bytes[level].add_column(names, moved)

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


class Collector:
    """Everything found in one file. Readers call its methods; `document` and `send` read it afterwards."""

    def __init__(self, keep_launches: bool = False) -> None:
        """keep_launches: also every single launch, which sending needs and a summary does not."""
        self.tool = ""
        self.version = ""
        self.digest = ""  # of the file's content
        self.started_ns: int | None = None  # the recording's time zero as UNIX time, where the file has it
        self.duration_s: float | None = None  # of the whole run, where the file has it
        self.run: Kernel | None = None  # the whole run as one point: perf stat of a program, LIKWID's sums
        self.throughput: Throughput | None = None
        self.ceilings: list[RecordedCeiling] = []
        self.facts: dict[str, float | int | str] = {}  # whatever else describes the recording: ranks, events
        self.counters: RecordLog[Counter] = RecordLog(Counter)
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

    def launch_columns(self, launches: LaunchColumns) -> None:
        """The same as `launch` for each of them."""
        names = launches.names
        new = [one for one in dict.fromkeys(names) if one not in self._sums.firsts]
        named = {one: self._new_name(launches.like._replace(name=one)) for one in new}
        if OTHERS in named.values():
            names = [named.get(one, one) for one in names]
        self._sums.add_columns(names, launches)
        if self.launches is not None:
            columns: dict[str, Sequence[Any]] = {"name": launches.names, "problem": launches.problems}
            numbers = {"time_s": launches.times_s, "flops": launches.flops, "start_s": launches.starts_s}
            columns |= {name: column for name, column in numbers.items() if column is not None}
            if moved := launches.bytes:
                columns["bytes"] = [
                    dict(zip(moved, one, strict=True)) for one in zip(*moved.values(), strict=True)
                ]
            self.launches.extend([launches.like], [0] * len(names), columns)

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
        return sorted(made, key=lambda k: -1.0 if k.time_s is None else k.time_s, reverse=True)

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
