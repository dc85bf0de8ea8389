"""Messages with a value of its own in every field, and the leaves of messages and records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

WORDS = (FieldDescriptor.CPPTYPE_STRING,)
WHOLE = (
    FieldDescriptor.CPPTYPE_INT32,
    FieldDescriptor.CPPTYPE_INT64,
    FieldDescriptor.CPPTYPE_UINT32,
    FieldDescriptor.CPPTYPE_UINT64,
)


def fill(message: Any, numbers: Iterator[int]) -> Any:
    """Set every field of a message, and of those inside, each to a value of its own."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is None:
            made = [_made(field, numbers), _made(field, numbers)]
            if field.is_repeated:
                getattr(message, field.name).extend(made)
            else:
                setattr(message, field.name, made[0])
        elif field.message_type.GetOptions().map_entry:
            for _ in range(2):
                _fill_entry(getattr(message, field.name), field, f"key{next(numbers)}", numbers)
        elif field.is_repeated:
            for _ in range(2):
                fill(getattr(message, field.name).add(), numbers)
        else:
            fill(getattr(message, field.name), numbers)
    return message


def _fill_entry(held: Any, field: FieldDescriptor, key: str, numbers: Iterator[int]) -> None:
    value = field.message_type.fields_by_name["value"]
    if value.message_type is None:
        held[key] = _made(value, numbers)
    else:
        fill(held[key], numbers)


def _made(field: FieldDescriptor, numbers: Iterator[int]) -> Any:
    number = next(numbers)
    if field.enum_type is not None:
        return 1 + number % (len(field.enum_type.values) - 1)
    if field.cpp_type in WORDS:
        return f"text{number}"
    if field.cpp_type in WHOLE:
        return number
    return True if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else number + 0.5


def sent(message: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of every leaf of a message."""
    for field, held in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            for key in held:
                yield field.name, key
                if hasattr(held[key], "DESCRIPTOR"):
                    yield from sent(held[key])
                else:
                    yield field.name, held[key]
        elif field.message_type is not None:
            for one in held if field.is_repeated else [held]:
                yield from sent(one)
        else:
            for one in held if field.is_repeated else [held]:
                yield field.name, _word(field, one)


def _word(field: FieldDescriptor, value: Any) -> Any:
    if field.enum_type is None:
        return value
    return field.enum_type.values_by_number[value].name.partition("_")[2].lower()


def arrived(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    """(name, value) of every leaf of a record."""
    if hasattr(thing, "_asdict"):
        for field, value in thing._asdict().items():
            yield from arrived(field, value)
    elif isinstance(thing, list):
        for one in thing:
            yield from arrived(name, one)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield name, key
            yield from arrived(name, value)
    else:
        yield name, thing
