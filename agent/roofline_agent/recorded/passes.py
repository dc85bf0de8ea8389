"""Passes of rocprofv3 as one table: runs of the same program, in each of which other counters were collected.

They are joined only where it is certain what belongs together: one process in each file, and the same
dispatches in the same order, by number, kernel, sizes and GPU. Times are those of the first pass.
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import IO, NamedTuple

from .errors import RecordedError
from .tables.rocprof_headers import counted_in, counter_name, kind_of, kinds_in
from .tables.rows import Header, cells_of, header_of
from .text import Text, open_binary

_NAME, _VALUE = "counter_name", "counter_value"
_IDENTITY = ("dispatch_id", "agent_id", "kernel_name", "grid_size", "workgroup_size")
NOT_JOINED = "counters of several passes are not joined: {}"
_AMBIGUOUS = (
    "files with the same counters are among them, of several processes or runs, and which of them belong "
    "together is not known: import the passes of one process at a time, each process under its own --rank"
)
_PROCESSES = "{} has several processes"
_OTHER_KERNELS = "{} has other dispatches than {} (number {}, of {}, where that has one of {})"
_FEWER = "{} has fewer kernels than the others"


class JoinedPasses(NamedTuple):
    """files: the first is the one that is read, as `table`, whose beginning is `head`; (): none are joined.
    why_not: where there are some; "": there are none."""

    files: Sequence[str] = ()
    table: IO[bytes] | None = None
    head: str = ""
    why_not: str = ""

    def to_read(self, files: Sequence[str]) -> list[str]:
        """Of these files those that are still to be read."""
        return [one for one in dict.fromkeys(files) if one not in self.files[1:]] if self.files else [*files]

    def heads(self, heads: Mapping[str, str]) -> dict[str, str]:
        """Of the files that are to be read."""
        own = {self.files[0]: self.head} if self.files else {}
        return {file: own.get(file, head) for file, head in heads.items() if file not in self.files[1:]}

    def table_of(self, file: str) -> IO[bytes] | None:
        """What is read in place of this file; None: itself."""
        return self.table if file in self.files[:1] else None

    @property
    def note(self) -> str:
        return f"kernels have the counters of all passes, those of {', '.join(self.files[1:])} too"


class NotJoined(Exception):
    """Why; never leaves this module."""


class _CountedDispatch(NamedTuple):
    identity: tuple[str, ...]
    process: str
    header: Sequence[str]
    cells: Sequence[str]  # of its first row
    at: Mapping[str, int]
    counters: list[tuple[str, str]]  # name and value of each row


def join(heads: Mapping[str, str]) -> JoinedPasses:
    """Of files, by their beginnings, those that are passes."""
    counted = {
        path: names
        for path, head in heads.items()
        if kinds_in([head]) - {""} == {"counters"} and (names := counted_in(head))
    }
    several = len(set(counted.values()))
    if several < 2:
        return JoinedPasses()
    if several < len(counted):
        return JoinedPasses(why_not=NOT_JOINED.format(_AMBIGUOUS))
    files, table = list(counted), tempfile.TemporaryFile()  # noqa: SIM115  # it is closed by who reads it
    try:
        _write(files, table)
        table.seek(0)
        head = Text(files[0], table, has_digest=False).head
        table.seek(0)
    except (NotJoined, RecordedError, OSError) as error:
        table.close()
        return JoinedPasses(why_not=NOT_JOINED.format(error))
    return JoinedPasses(files, table, head)


def _write(files: Sequence[str], table: IO[bytes]) -> None:
    """A row for each counter of each dispatch, as in the files. Raises NotJoined."""
    out = io.TextIOWrapper(table, "utf-8", newline="", write_through=True)
    rows = csv.writer(out, lineterminator="\n")
    is_first = True
    for found in zip_longest(*map(_dispatches, files)):
        passes = _checked(files, found)
        first = passes[0]
        if is_first:
            rows.writerow(first.header)
            is_first = False
        for name, value in _of_all(passes):
            cells = list(first.cells)
            cells[first.at[_NAME]], cells[first.at[_VALUE]] = name, value
            rows.writerow(cells)
    out.detach()


def _of_all(passes: Sequence[_CountedDispatch]) -> Iterator[tuple[str, str]]:
    """Counters that several passes have are those of the first: rows of one name are added up."""
    seen: set[str] = set()
    for one in passes:
        yield from (counter for counter in one.counters if counter[0] not in seen)
        seen.update(name for name, _ in one.counters)


def _checked(files: Sequence[str], passes: Sequence[_CountedDispatch | None]) -> Sequence[_CountedDispatch]:
    """Raises NotJoined where they are not one dispatch."""
    found = [one for one in passes if one is not None]
    if len(found) < len(passes):
        raise NotJoined(_FEWER.format(files[passes.index(None)]))
    first = found[0].identity
    for file, one in zip(files, found, strict=True):
        if one.identity != first:
            number, kernel = one.identity[0], one.identity[2]
            raise NotJoined(_OTHER_KERNELS.format(file, files[0], number, kernel, first[2]))
    return found


def _dispatches(file: str) -> Iterator[_CountedDispatch]:
    """Raises NotJoined, RecordedError."""
    process: str | None = None
    for one in _grouped(file):
        if process not in (None, one.process):
            raise NotJoined(_PROCESSES.format(file))
        process = one.process
        yield one


def _grouped(file: str) -> Iterator[_CountedDispatch]:
    """Rows that follow each other and are of one dispatch."""
    now: _CountedDispatch | None = None
    for header, names, cells in _rows(file):
        identity = tuple(cells[header.at[one]].strip() for one in _IDENTITY if one in header.at)
        process = cells[header.at["process_id"]].strip() if "process_id" in header.at else ""
        counter = counter_name(cells[header.at[_NAME]].strip()), cells[header.at[_VALUE]].strip()
        if now is not None and (now.identity, now.process) == (identity, process):
            now.counters.append(counter)
            continue
        if now is not None:
            yield now
        now = _CountedDispatch(identity, process, names, cells, header.at, [counter])
    if now is not None:
        yield now


def _rows(file: str) -> Iterator[tuple[Header, Sequence[str], Sequence[str]]]:
    """The header, its cells as they are, and the cells of a row."""
    header: Header | None = None
    names: Sequence[str] = []
    with open_binary(file) as stream:
        text = Text(file, stream, has_digest=False)
        for line in text.lines():
            cells = cells_of(line)
            if cells is None or "," not in line:
                continue
            if header is None:
                found = header_of(cells)
                header, names = (found, cells) if kind_of(found) == "counters" else (None, [])
            elif len(cells) != len(names):
                raise NotJoined(f"{file} has lines with another number of columns than its header")
            else:
                yield header, names, cells
        if text.cut_short:
            raise NotJoined(f"{file}: {text.cut_short}")
