"""Messages of the wire to plain records and back, field by field, by the names of the fields.

- `X | None` is None where the message lacks the field; of a field that it always has, where it is 0 or empty.
- An enum is a `WireEnum`; a number that is not known here (of a newer program) is its unspecified member.
- A dict is a map, or a list of messages of two fields: the key, then its value.
- Fields that the record does not have are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from .answers.values import WireEnum

R = TypeVar("R", bound=tuple[Any, ...])
M = TypeVar("M")


def from_message(kind: type[R], message: Any, **given: Any) -> R:
    """A record of this kind. given: fields that are not read from the message."""
    hints = _hints(kind)
    return kind(**given, **{name: _field(hints[name], message, name) for name in hints if name not in given})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _field(hint: Any, message: Any, name: str) -> Any:
    value, inner = getattr(message, name), get_args(hint)
    if get_origin(hint) is list:
        return [_item(inner[0], item) for item in value]
    if get_origin(hint) is dict:
        if isinstance(value, Mapping):
            return {key: _item(inner[1], value[key]) for key in sorted(value)}
        key_name, value_name = _pair(message, name)
        return {getattr(item, key_name): getattr(item, value_name) for item in value}
    if type(None) in inner:
        can_lack = message.DESCRIPTOR.fields_by_name[name].has_presence
        there = message.HasField(name) if can_lack else bool(value)
        return _item(inner[0], value) if there else None
    return _item(hint, value)


def _item(hint: Any, value: Any) -> Any:
    if hasattr(hint, "_fields"):
        return from_message(hint, value)
    if issubclass(hint, WireEnum):
        return hint.of_number(value)
    return value


def _pair(message: Any, name: str) -> list[str]:
    """Names of the two fields of a message that stands in a list."""
    return [field.name for field in message.DESCRIPTOR.fields_by_name[name].message_type.fields]


def to_message(message: M, record: Any, without: Collection[str] = ()) -> M:
    """The message, filled with the fields of a record; None is left unset. without: fields to leave out."""
    for name, value in zip(record._fields, record, strict=True):
        if value is not None and name not in without:
            kind: Any = type(value)
            _setter(kind)(message, name, value)
    return message


@cache
def _setter(kind: type) -> Callable[[Any, str, Any], None]:
    """What puts a value of this type into a field of a message. Found once for each type: a report of a
    thousand ranks has 200,000 fields."""
    if issubclass(kind, WireEnum):
        return _set_number
    if hasattr(kind, "_fields"):
        return _fill
    if issubclass(kind, Mapping):
        return _add_entries
    return _add_items if issubclass(kind, (list, tuple)) else setattr


def _set_number(message: Any, name: str, value: WireEnum) -> None:
    setattr(message, name, value.number)


def _fill(message: Any, name: str, record: Any) -> None:
    target = getattr(message, name)
    target.SetInParent()
    to_message(target, record)


def _add_items(message: Any, name: str, items: Sequence[Any]) -> None:
    target = getattr(message, name)
    for item in items:
        if hasattr(item, "_fields"):
            to_message(target.add(), item)
        else:
            target.append(item)


def _add_entries(message: Any, name: str, entries: Mapping[str, Any]) -> None:
    target = getattr(message, name)
    is_map = isinstance(target, Mapping)
    for key, value in entries.items():
        if not is_map:
            target.add(**dict(zip(_pair(message, name), (key, value), strict=True)))
        elif hasattr(value, "_fields"):
            to_message(target[key], value)
        else:
            target[key] = value
