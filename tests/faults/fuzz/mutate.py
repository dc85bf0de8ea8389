"""Makes odd input of good input. The same for the same random numbers."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

INTS = (0, 1, -1, 2, 255, 2**31 - 1, 2**31, -(2**31), 2**32, 2**50, 2**62, 2**63 - 1, -(2**63), -(2**62))
DOUBLES = (0.0, -0.0, 1.5, -1.0, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    *("", "0", "-1", "nan", "inf", "-inf", "1e309", "1e-400", "99999999999999999999", "0x10", "1,5", "<n/a>"),
    *("\u202e", "\x1b[31m", "\x00", "\ud800", "=1+1", "../../etc", "a" * 70, "a" * 5000, "%s", "{}", "١٢"),
)
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
PIECE = 64  # bytes that are moved at once, at most


def mutated(data: bytes, others: Sequence[bytes], chance: random.Random, most: int = 4) -> bytes:
    """The same with one to `most` changes of its bytes."""
    for _ in range(chance.randint(1, most)):
        data = chance.choice(BYTES)(data, others, chance)
    return data


def mutated_text(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """The same with changes of its lines and numbers, sometimes of its bytes."""
    for _ in range(chance.randint(1, 4)):
        data = chance.choice((_line, _line, _number, _number, _number, chance.choice(BYTES)))(
            data, others, chance
        )
    return data


def _place(data: bytes, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _flip(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    if not data:
        return bytes([chance.randrange(256)])
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _insert(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + chance.randbytes(chance.choice((1, 2, 4, 8, 17))) + data[at:]


def _delete(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    at = _place(data, chance)
    return data[:at] + data[at + chance.choice((1, 2, 4, 8, PIECE)) :]


def _cut(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    return data[: _place(data, chance)]


def _number_in_bytes(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    at = _place(data, chance)
    packed = struct.pack("<q", chance.choice(INTS))
    if chance.random() < 0.2:
        packed = struct.pack("<d", chance.choice(DOUBLES))
    packed = packed[: chance.choice((1, 2, 4, 8, 8))]
    return data[:at] + packed + data[at + len(packed) :]


def _repeat(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    at = _place(data, chance)
    piece = data[at : at + chance.randint(1, PIECE)]
    return data[:at] + piece * chance.choice((1, 2, 7)) + data[at:]


def _splice(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    other = chance.choice(others) if others else data
    return data[: _place(data, chance)] + other[_place(other, chance) :]


BYTES: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flip,
    _flip,
    _insert,
    _delete,
    _cut,
    _number_in_bytes,
    _number_in_bytes,
    _repeat,
    _splice,
)


def _number(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    """Another number, or something else, in the place of one that is found from somewhere on."""
    found = NUMBER.search(data, _place(data, chance))
    if found is None:
        return data
    text = chance.choice((chance.choice(TEXTS), str(chance.choice(INTS)), str(chance.choice(DOUBLES))))
    return data[: found.start()] + text.encode("utf-8", "surrogatepass") + data[found.end() :]


def _line(data: bytes, others: Sequence[bytes], chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    at, to = chance.randrange(len(lines)), chance.randrange(len(lines))
    how = chance.randrange(4)
    if how == 0:
        del lines[at : at + chance.choice((1, 2, 10))]
    elif how == 1:
        lines.insert(to, lines[at])
    elif how == 2:
        lines[at], lines[to] = lines[to], lines[at]
    else:
        other = chance.choice(others).splitlines(keepends=True) if others else lines
        lines.insert(to, chance.choice(other or lines))
    return b"".join(lines)


# -- messages of protobuf ------------------------------------------------------------------------------------


def mutate_message(message: Any, chance: random.Random) -> None:
    """Change one field, somewhere in it."""
    place = message
    while True:
        fields = place.DESCRIPTOR.fields
        field = chance.choice(fields)
        if chance.random() < 0.8:  # rather one that is there
            there = [known for known, _ in place.ListFields()]
            field = chance.choice(there) if there else field
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            _change(place, field, chance)
            return
        if not _is_list(field):
            if chance.random() < 0.05:
                place.ClearField(field.name)
                return
            place = getattr(place, field.name)
            place.SetInParent()
            continue
        items = getattr(place, field.name)
        if not items or chance.random() < 0.15:
            _change_list(items, chance)
            return
        place = chance.choice(items)


def _is_list(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _change_list(items: Any, chance: random.Random) -> None:
    if items and chance.random() < 0.5:
        del items[chance.randrange(len(items))]
    elif items:
        items.add().CopyFrom(chance.choice(items))
    else:
        items.add()


def _change(message: Any, field: Any, chance: random.Random) -> None:
    if field.message_type is not None:  # a map
        message.ClearField(field.name)
        return
    value = _value(field, chance, None if _is_list(field) else getattr(message, field.name))
    if not _is_list(field):
        setattr(message, field.name, value)
        return
    items = getattr(message, field.name)
    if items and chance.random() < 0.3:
        del items[chance.randrange(len(items))]
    elif items and chance.random() < 0.7:
        at = chance.randrange(len(items))
        items[at] = _value(field, chance, items[at])
    else:
        items.append(value)


def _value(field: Any, chance: random.Random, before: Any) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING and field.type == field.TYPE_BYTES:
        return mutated(before or bytes(16), (), chance, most=2)
    if kind == field.CPPTYPE_STRING:
        # What a message can hold is text: no half of a surrogate pair.
        return chance.choice([text for text in TEXTS if text.isascii() or text.isprintable()])
    if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return chance.choice(DOUBLES)
    if kind == field.CPPTYPE_BOOL:
        return chance.random() < 0.5
    bits = 64 if kind in (field.CPPTYPE_INT64, field.CPPTYPE_UINT64) else 32
    signed = kind in (field.CPPTYPE_INT64, field.CPPTYPE_INT32, field.CPPTYPE_ENUM)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    near = (before or 0) + chance.choice((-1, 1, 2)) if isinstance(before, int) else 0
    return min(high, max(low, chance.choice((chance.choice(INTS), near))))
