"""Takes in what a reader finds, and keeps it small: kernels are summed by name, long lists go to disk."""

from __future__ import annotations

import marshal
import struct
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from .recording import Counter, Kernel, Launch, Phase, RecordedCeiling, StepLine, Throughput

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
            self._write()

    def _write(self) -> None:
        # A private file of this process, millions of records long: nothing is faster than marshal.
        data = marshal.dumps(self._some)
        self._file.write(_LENGTH.pack(len(data)) + data)
        self._some.clear()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        if self._some:
            self._write()
        self._file.seek(0)
        while head := self._file.read(_LENGTH.size):
            for record in marshal.loads(self._file.read(*_LENGTH.unpack(head))):
                yield self._kind(*record)
        self._file.seek(0, 2)

    def close(self) -> None:
        self._file.close()


class FileWarning(NamedTuple):
    """Something that users must know about a file; line 0: it concerns no single line."""

    text: str
    line: int
    times: int


class _LaunchSums:
    """The launches of one kernel so far."""

    def __init__(self, first: Launch) -> None:
        self.first = first
        self.launches = 0
        self.known: dict[str, int] = {}  # quantity -> launches that have it
        self.sums: dict[str, float] = {}

    def add(self, launch: Launch) -> None:
        self.launches += launch.count
        self._add("time", launch.time_s, launch.count)
        self._add("flops", launch.flops, launch.count)
        for level, moved in launch.bytes.items():
            self._add(f"bytes.{level}", moved, launch.count)

    def _add(self, name: str, value: float | None, count: int) -> None:
        if value is not None:
            self.known[name] = self.known.get(name, 0) + count
            self.sums[name] = self.sums.get(name, 0.0) + value

    def total(self, name: str) -> float | None:
        return self.sums[name] if self.known.get(name) == self.launches else None

    def partial(self) -> list[str]:
        return [name for name, known in self.known.items() if known < self.launches]

    def kernel(self, name: str) -> Kernel:
        levels = [q.removeprefix("bytes.") for q in self.sums if q.startswith("bytes.")]
        moved = {level: self.total(f"bytes.{level}") for level in levels}
        return Kernel(
            name,
            self.launches,
            self.total("time"),
            self.total("flops"),
            {level: value for level, value in moved.items() if value is not None},
            self.first.precision,
            self.first.note,
        )


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
        self._sums: dict[str, _LaunchSums] = {}
        self.summed: list[Kernel] = []  # by the reader or the tool itself
        self._phases: dict[str, Phase] = {}
        self._warnings: dict[str, FileWarning] = {}

    def launch(self, launch: Launch) -> None:
        """A kernel was executed."""
        name = launch.name
        if name not in self._sums and len(self._sums) >= MAX_KERNELS:
            self.warn(f"more than {MAX_KERNELS} different kernels; the rest are summed up as {OTHERS}")
            name = OTHERS
        self._sums.setdefault(name, _LaunchSums(launch)).add(launch)
        if self.launches is not None:
            self.launches.append(launch)

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

    def warn(self, text: str, line: int = 0) -> None:
        """Warn of something about the file; the same text is kept once, with its first line and how often."""
        old = self._warnings.get(text)
        if old is not None:
            self._warnings[text] = old._replace(times=old.times + 1)
        elif len(self._warnings) < MAX_WARNINGS:
            self._warnings[text] = FileWarning(text, line, 1)

    @property
    def kernels(self) -> list[Kernel]:
        """Longest first; those without a time last."""
        made = [*self.summed, *(one.kernel(name) for name, one in self._sums.items())]
        return sorted(made, key=lambda k: -1.0 if k.time_s is None else k.time_s, reverse=True)

    @property
    def phases(self) -> list[Phase]:
        return sorted(self._phases.values(), key=lambda phase: phase.time_s, reverse=True)

    @property
    def warnings(self) -> list[FileWarning]:
        found: list[FileWarning] = []
        for name, sums in self._sums.items():
            quantities = sums.partial()
            if quantities and len(found) < MAX_WARNINGS:
                text = f"not every launch of {name} has {', '.join(quantities)}: its sum is left out"
                found.append(FileWarning(text, 0, 1))
        return [*self._warnings.values(), *found]

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all was found."""
        something = self._sums or self.summed or self._phases or self.ceilings or self.run or self.throughput
        return not (something or len(self.counters) or len(self.steps))

    def close(self) -> None:
        for log in (self.counters, self.steps, self.launches):
            if log is not None:
                log.close()
        for part in self.parts:
            part.close()
