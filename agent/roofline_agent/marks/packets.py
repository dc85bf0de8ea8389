"""Parses and checks the packets of training processes and wrappers. No I/O.

Marks, spans, steps, facts, descriptions of kernels and executed kernels have the formats of
`roofline_step/packets.py`. The wrapper (`run/agent_link.py`) also sends which process it wraps; to it alone
the agent sends something.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from functools import lru_cache
from operator import le
from typing import NamedTuple

from roofline.limits import MAX_BYTES, MAX_OF_SPAN, MAX_SPAN_NAME, MAX_TIME_NS, SPAN_NAME
from roofline.texts import printable
from roofline_step.packets import CALLS, MARK, SPAN_VALUES, SPANS, STEPS, StepForm
from roofline_step.variables import NAMES, OURS

from ..ranks.identity import REPORTABLE
from ..records import KernelShape, MarkKind
from ..uplink.bounds import is_time

MARK_KIND, SPANS_KIND, STEPS_KIND = b"MST"
_NUMBER = struct.Struct("<q")
WRAPPED = struct.Struct("<sxxxi")  # b"W", pid of the wrapped command
TRACE = struct.Struct("<sxxxI")  # b"P", to a wrapper: have so many of the next steps traced
STEP_US = struct.Struct(
    "<sxxxI"
)  # b"D", to a wrapper, before that: how long a step usually lasts; 0: not known
SEEN = struct.Struct("<sxxx")  # b"R", to a wrapper: the rank that its command is, or has started, is known
FEWER = struct.Struct("<sxxxI")  # b"N", to a wrapper: record kernels of so many times fewer steps
COUNTS = ("flops", "bytes", "dram_bytes", "l1_bytes", "l2_bytes")
FLAGS = ("on_gpu", "counted")  # true, false or not known


class ParsedMark(NamedTuple):
    """One mark as it was received."""

    size: int  # bytes of its record
    kind: int
    dropped: int  # before it
    role: str  # of the rank whose mark it is; empty: the sender itself
    index: int  # type: ignore[assignment]  # the field's word, though tuples have a method of that name
    step: int
    examples: int | None
    time_ns: int
    phase: str
    asynchronous: bool
    in_range: bool  # step, examples and time can be true
    like: int  # steps of a process with the same number did the same work; 0: not known


class ParsedSpans(NamedTuple):
    """A record of spans as it was received, by column."""

    size: int
    names: tuple[str, ...]
    which: Sequence[int]  # of the names
    begins: Sequence[int]
    ends: Sequence[int]
    bytes: Sequence[int | None]
    counts: Sequence[int]


class ParsedSteps(NamedTuple):
    """Steps that differ in numbers only, as they were received."""

    size: int  # bytes of their record
    form: StepForm
    last: int  # number of the last one
    count: int  # type: ignore[assignment]  # of steps
    numbers: bytes  # of each step, in the order of the record


class ParsedCalls(NamedTuple):
    """Executed kernels; no others ran between `begin` and `through`."""

    begin: int
    through: int
    kernels: tuple[int, ...]  # numbers of their descriptions
    starts: tuple[int, ...]
    durations: tuple[int, ...]


def parse_mark(data: bytes, at: int = 0) -> ParsedMark:
    """The mark that is there in `data`. Raises ValueError or struct.error when it is malformed."""
    _, kind, flags, role_size, phase_size, like, *rest = MARK.unpack_from(data, at)
    dropped, index, step, examples, time_ns = rest
    role = phase = ""
    if role_size or phase_size:
        text = data[at + MARK.size :]
        role = text[:role_size].decode()
        phase = printable(text[role_size : role_size + phase_size].decode())
    if not MarkKind.BEGIN <= kind <= MarkKind.PHASE_END:
        raise ValueError(kind)
    size = int(MARK.size + role_size + phase_size)
    in_range = is_time(time_ns, step) and examples <= MAX_BYTES
    known = None if examples < 0 else examples  # ABSENT, as any other number below zero
    asynchronous = bool(flags & 1)
    return ParsedMark(
        size, kind, dropped, role, index, step, known, time_ns, phase, asynchronous, in_range, like
    )


def parse_spans(data: bytes, at: int = 0) -> ParsedSpans:
    """The spans that stand there in `data`. Raises ValueError or struct.error when one is malformed."""
    _, size, count = SPANS.unpack_from(data, at)
    begin = at + SPANS.size
    names = _span_names(data[begin : begin + size])
    values = struct.unpack_from(f"<{SPAN_VALUES * count}q", data, begin + size)
    # Checked by column, without a loop in Python: a training sends hundreds of these a second.
    which, begins, ends, moved, counts = (values[at::SPAN_VALUES] for at in range(SPAN_VALUES))
    if count:
        in_time = min(begins) > -MAX_TIME_NS and max(ends) < MAX_TIME_NS and all(map(le, begins, ends))
        if not (in_time and min(which) >= 0 and max(which) < len(names)):
            raise ValueError("an impossible span")
        if min(counts) < 0 or max(counts) >= MAX_OF_SPAN or max(moved) > MAX_BYTES:
            raise ValueError("a span with too large values")
    known = [None if number < 0 else number for number in moved]
    end = int(SPANS.size + size + 8 * SPAN_VALUES * count)
    return ParsedSpans(end, names, which, begins, ends, known, counts)


@lru_cache(maxsize=1024)  # steps resemble each other
def _span_names(text: bytes) -> tuple[str, ...]:
    """The names in a record of spans. Raises ValueError when one of them is malformed."""
    names = tuple(text.decode().split("\0"))
    if not all(SPAN_NAME.fullmatch(name) and len(name) <= MAX_SPAN_NAME for name in names):
        raise ValueError("an invalid span name")
    return names


def parse_steps(data: bytes, at: int = 0) -> ParsedSteps:
    """The steps of one form that stand there in `data`. Raises ValueError or struct.error when they are
    malformed; whether their numbers can be is not looked at."""
    _, marks, like, spans, counted, size, count = STEPS.unpack_from(data, at)
    begin = at + STEPS.size + size
    names = _span_names(data[begin - size : begin]) if size else ()
    if not (1 <= marks <= 2 and len(names) == spans >= counted and count):
        raise ValueError("steps that cannot be")
    form = StepForm(marks, names, counted, like)
    end = begin + 8 * width_of(form) * count
    (last,) = _NUMBER.unpack_from(data, end - 8 * width_of(form))
    if end > len(data):
        raise ValueError("steps that are cut off")
    return ParsedSteps(end - at, form, last, count, data[begin:end])


def width_of(form: StepForm) -> int:
    """How many numbers a step of this form has."""
    return 2 + form.marks + 2 * len(form.names) + form.counted


def possible_steps(form: StepForm, numbers: bytes) -> tuple[bytes, int]:
    """The steps that can be, of these, and how many cannot."""
    if _can_be(form, numbers):
        return numbers, 0
    size = 8 * width_of(form)
    if len(numbers) == size:
        return b"", 1
    each = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    found = [step for step in each if _can_be(form, step)]
    return b"".join(found), len(each) - len(found)


def _can_be(form: StepForm, numbers: bytes) -> bool:
    """Looked at by column, without a loop over the numbers in Python: there may be thousands."""
    width, edges = width_of(form), 2 * len(form.names)
    values = struct.unpack(f"<{len(numbers) // 8}q", numbers)
    steps, examples, *columns = (values[first::width] for first in range(width))
    times, counts = columns[: form.marks + edges], columns[form.marks + edges :]
    pairs = times[form.marks :]
    return (
        all(is_time(min(column), max(column)) for column in (steps, *times))
        and max(examples) <= MAX_BYTES
        and all(all(map(le, *pairs[first : first + 2])) for first in range(0, edges, 2))
        and all(min(column) >= 0 and max(column) < MAX_OF_SPAN for column in counts)
    )


def parse_calls(data: bytes) -> ParsedCalls:
    """Executed kernels. Raises ValueError or struct.error."""
    _, count, begin, through = CALLS.unpack_from(data)
    columns = struct.unpack_from(f"<{3 * count}q", data, CALLS.size)
    kernels, starts, durations = columns[:count], columns[count : 2 * count], columns[2 * count :]
    if not is_time(begin, through, *starts) or any(not 0 <= d < MAX_TIME_NS // 2 for d in durations):
        raise ValueError("kernels out of time")
    return ParsedCalls(begin, through, kernels, starts, durations)


def parse_variables(text: str) -> dict[str, str]:
    """The variables by which a process says which rank it is. Raises ValueError for anything else."""
    found = json.loads(text)
    if not isinstance(found, dict) or not found.keys() <= REPORTABLE:
        raise ValueError("not the variables of a rank")
    for value in found.values():
        if not isinstance(value, str) or not value.isprintable():
            raise ValueError("a variable that is no text")
    return found


def parse_started_with(text: str) -> dict[str, str]:
    """The variables with which a process was started that name its job and rank. Raises ValueError for
    anything else."""
    found = json.loads(text)
    if not isinstance(found, dict) or not all(name in NAMES or name.startswith(OURS) for name in found):
        raise ValueError("not the variables of a rank")
    if any(not isinstance(value, str) or "\0" in value for value in found.values()):
        raise ValueError("a variable that is no text")
    return found


def parse_shape(data: bytes) -> KernelShape:
    """A kernel's description from a wrapper. Raises ValueError or TypeError for anything else."""
    shape = KernelShape(*json.loads(data))
    for name, value in shape._asdict().items():
        if name in FLAGS and (value is None or isinstance(value, bool)):
            continue
        allowed = (int, type(None)) if name in COUNTS else (str,)
        if not isinstance(value, allowed) or isinstance(value, bool):
            raise ValueError(f"{name} of a kernel is {type(value).__name__}")
        if isinstance(value, str):
            value.encode()  # raises for half a surrogate pair, which is valid JSON and no text
        elif value is not None and not 0 <= value < 2**63:
            raise ValueError(f"{name} of a kernel is out of range")
    return shape
