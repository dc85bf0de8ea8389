"""The packets of marks, spans and facts that a process sends to the agent, and the functions that pack them.

A packet is one record, or several marks, spans and steps behind one another. All numbers are little-endian.

Mark: b"M", kind u8, flags u8 (bit 0: asynchronous), role length u8, phase length u8, a byte of padding,
like u16 (steps of a process with the same number did the same work; 0: not known), marks dropped since the
last packet u32, index i32 (-1: the sender itself), step i64, examples i64 (-2^63: unknown), time i64
(CLOCK_MONOTONIC, ns), then role and phase in UTF-8.
Spans (of the sender): b"S", 3 bytes of padding, bytes of names u32, rows u32, the names in UTF-8 with a NUL
between them, then per row name, begin, end, bytes, count as i64.
Steps (of the sender) that differ in numbers only: b"T", marks of each u8 (1: a border, 2: begin and end),
like u16 as above, spans of each u16, and of how many of these, the last, the count follows u16 (the others
are of one thing), bytes of names u32, steps u32, the spans' names in UTF-8 with a NUL between them, then per
step as i64 its number, examples, the time of each mark, begin and end of each span, the counts.
Fact: b"F", 3 bytes of padding, then "name=value" in UTF-8.
Kernel: b"K", 3 bytes of padding, the number it gets u32, then its description as a JSON list (fields of the
agent's KernelShape).
Calls: b"C", 3 bytes of padding, number of calls u32, begin and end i64 of a time in which no other kernels
ran, then kernel numbers, begins, durations as i64.
"""

from __future__ import annotations

import json
import struct
from itertools import chain
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

MARK = struct.Struct("<sBBBBxHIiqqq")
SPANS = struct.Struct("<s3xII")
SPAN_VALUES = 5
MAX_SPANS = 1024  # in one packet
STEPS = struct.Struct("<sBHHHII")
FACT = b"F\0\0\0"
VARIABLES = "rank.variables"  # the fact with variables, as JSON, by which a process says which rank it is
STARTED_WITH = "rank.started_with"  # likewise, those that it was started with and that /proc does not show
MAX_FACT = 4096  # bytes of one fact
MAX_PHASE = 64  # bytes of a phase's name
ABSENT = -(2**63)
KERNEL = struct.Struct("<s3xI")
CALLS = struct.Struct("<s3xIqq")
CALLS_IN_PACKET = 2000

Span = Tuple[str, int, int, Optional[int], int]  # name, begin and end (monotonic ns), bytes, count
# kind, step, examples, time (monotonic ns), of which rank, asynchronous, and perhaps `like`
Mark = Union[
    Tuple[int, int, Optional[int], int, Optional[Tuple[str, int]], bool],
    Tuple[int, int, Optional[int], int, Optional[Tuple[str, int]], bool, int],
]
MAX_LIKE = 2**16 - 1


class StepForm(NamedTuple):
    """What steps have in common that differ in numbers only."""

    marks: int  # of each: 1, a border, or 2, begin and end
    names: Tuple[str, ...]  # of its spans
    counted: int  # so many of the spans, the last, have a count; the others are of one thing
    like: int


# What the records of spans with the same names have in common: steps resemble each other.
_heads: Dict[Tuple[str, ...], Tuple[bytes, List[int], struct.Struct]] = {}
MAX_HEADS = 256


def pack_mark(
    kind: int,
    step: int,
    examples: Optional[int],
    time_ns: int,
    of: Optional[Tuple[str, int]] = None,
    asynchronous: bool = False,
    phase: str = "",
    dropped: int = 0,
    like: int = 0,
) -> bytes:
    """The record of one mark. Raises any exception for values that do not fit."""
    role, index = (of[0].encode(), of[1]) if of is not None else (b"", -1)
    # Cut between characters, not inside one.
    name = phase.encode()[:MAX_PHASE].decode(errors="ignore").encode() if phase else b""
    count = ABSENT if examples is None else examples
    flags = 1 if asynchronous else 0
    head = (b"M", kind, flags, len(role), len(name), like, dropped & 0xFFFFFFFF, index, step, count, time_ns)
    return MARK.pack(*head) + role + name


def pack_spans(spans: Sequence[Span]) -> bytes:
    """The record of these spans. Raises any exception for values that do not fit."""
    names = tuple([span[0] for span in spans])
    known = _heads.get(names)
    if known is None:
        numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
        text = "\0".join(numbers).encode()
        rows = struct.Struct("<%dq" % (SPAN_VALUES * len(names)))
        known = SPANS.pack(b"S", len(text), len(names)) + text, [numbers[name] for name in names], rows
        if len(_heads) < MAX_HEADS:
            _heads[names] = known
    head, which, rows = known
    values: List[int] = []
    for number, (_, begin, end, size, count) in zip(which, spans):  # noqa: B905 - Python 3.8
        values += (number, begin, end, ABSENT if size is None else size, count)
    return head + rows.pack(*values)


def pack_steps(form: StepForm, rows: Sequence[Tuple[int, ...]]) -> bytes:
    """The record of steps of one form. Raises any exception for values that do not fit."""
    names = "\0".join(form.names).encode()
    head = STEPS.pack(b"T", form.marks, form.like, len(form.names), form.counted, len(names), len(rows))
    values = list(chain.from_iterable(rows))
    return head + names + struct.pack("<%dq" % len(values), *values)


def pack_kernel(number: int, description: Sequence[object]) -> bytes:
    """The packet that describes a kernel. Raises any exception for values that do not fit."""
    return KERNEL.pack(b"K", number) + json.dumps(description).encode()


def pack_calls(calls: Sequence[Tuple[int, int, int]], begin_ns: int, through_ns: int) -> bytes:
    """The packet of executed kernels: (number, begin, duration) each. Raises struct.error."""
    columns = [call[at] for at in range(3) for call in calls]
    head = CALLS.pack(b"C", len(calls), begin_ns, through_ns)
    return head + struct.pack("<%dq" % len(columns), *columns)


def pack_fact(name: str, value: str) -> bytes:
    """The packet of one fact, cut to MAX_FACT bytes."""
    return FACT + ("%s=%s" % (name, value)).encode(errors="replace")[:MAX_FACT]
