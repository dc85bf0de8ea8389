"""What packets of training processes and wrappers say, checked. No I/O.

Marks, spans and facts come from roofline_step (formats in `roofline_step/_sender.py`); who is wrapped, the
description of a kernel and executed kernels from the wrapper (link.py).
"""

from __future__ import annotations

import json
import re
import struct
from typing import NamedTuple

from roofline_step._sender import ABSENT, HEADER, SPAN_VALUES, SPANS

from ..records import KernelShape, MarkKind
from ..uplink.bounds import MAX_BYTES, MAX_COUNT, MAX_TIME_NS, is_time, printable

WRAPPED = struct.Struct("<sxxxi")
KERNEL = struct.Struct("<sxxxI")
CALLS = struct.Struct("<sxxxIqq")
SPAN_NAME = re.compile(r"[a-z]+(\.[a-z0-9_-]+)+")
COUNTS = ("flops", "bytes", "dram_bytes", "l1_bytes", "l2_bytes")


class SaidMark(NamedTuple):
    """One mark as it was sent."""

    size: int  # bytes of its record
    kind: int
    flags: int
    dropped: int  # before it
    role: str  # of the rank it is about; empty: the sender's
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    step: int
    examples: int | None
    time_ns: int
    phase: str
    in_range: bool


class SaidSpans(NamedTuple):
    """A record of spans as it was sent: (index of the name, begin, end, bytes or None, count) of each."""

    size: int
    names: list[str]
    spans: list[tuple[int, int, int, int | None, int]]


class SaidCalls(NamedTuple):
    """Executed kernels; none others ran between `begin` and `through`."""

    begin: int
    through: int
    kernels: tuple[int, ...]  # numbers of their descriptions
    starts: tuple[int, ...]
    durations: tuple[int, ...]


def parse_mark(data: bytes) -> SaidMark:
    """The mark that stands first. Raises ValueError or struct.error for what is none."""
    _, kind, flags, role_size, phase_size, dropped, index, step, examples, time_ns = HEADER.unpack_from(data)
    text = data[HEADER.size :]
    role = text[:role_size].decode()
    phase = printable(text[role_size : role_size + phase_size].decode())
    if not MarkKind.BEGIN <= kind <= MarkKind.PHASE_END:
        raise ValueError(kind)
    size = int(HEADER.size + role_size + phase_size)
    in_range = is_time(time_ns, step) and examples <= MAX_BYTES
    said = None if examples == ABSENT or examples < 0 else examples
    return SaidMark(size, kind, flags, dropped, role, index, step, said, time_ns, phase, in_range)


def parse_spans(data: bytes) -> SaidSpans:
    """The spans that stand first. Raises ValueError or struct.error, if one of them is none."""
    _, size, count = SPANS.unpack_from(data)
    names = data[SPANS.size : SPANS.size + size].decode().split("\0")
    if not all(SPAN_NAME.fullmatch(name) and len(name) <= 64 for name in names):
        raise ValueError("a name of a span")
    values = struct.unpack_from(f"<{SPAN_VALUES * count}q", data, SPANS.size + size)
    spans = []
    for at in range(0, len(values), SPAN_VALUES):
        name, begin, end, handled, number = values[at : at + SPAN_VALUES]
        if not (0 <= name < len(names) and -MAX_TIME_NS < begin <= end < MAX_TIME_NS):
            raise ValueError("a span that cannot be")
        if not 0 <= number < MAX_COUNT or handled > MAX_BYTES:
            raise ValueError("a span of too much")
        spans.append((name, begin, end, None if handled == ABSENT or handled < 0 else handled, number))
    return SaidSpans(int(SPANS.size + size + 8 * SPAN_VALUES * count), names, spans)


def parse_calls(data: bytes) -> SaidCalls:
    """Executed kernels. Raises ValueError or struct.error."""
    _, count, begin, through = CALLS.unpack_from(data)
    columns = struct.unpack_from(f"<{3 * count}q", data, CALLS.size)
    kernels, starts, durations = columns[:count], columns[count : 2 * count], columns[2 * count :]
    if not is_time(begin, through, *starts) or any(not 0 <= d < MAX_TIME_NS // 2 for d in durations):
        raise ValueError("kernels out of time")
    return SaidCalls(begin, through, kernels, starts, durations)


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
