"""Messages of the wire to plain records and back, field by field, by the names of the fields.

- `X | None` is None where the message lacks the field; of a field that it always has, where it is 0 or empty.
- An enum is a `WireEnum`; a number that is not known here (of a newer program) is its unspecified member.
- A dict is a map, or a list of messages of two fields: the key, then its value.
- Fields that the record does not have are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from .answers.values import WireEnum

R = TypeVar("R", bound=tuple[Any, ...])
M = TypeVar("M")


def from_message(kind: type[R], message: Any, **given: Any) -> R:
    """A record of this kind. given: fields that are not read from the message."""
    wire: Any = type(message)
    readers = _readers(kind, wire)
    if not given:
        return kind(*[read(message) for read in readers.values()])
    return kind(**given, **{name: read(message) for name, read in readers.items() if name not in given})


@cache
def _readers(kind: type, wire: Any) -> dict[str, Callable[[Any], Any]]:
    """What reads each field of a record from a message. Found once for each pair of types: a report of a
    thousand ranks has 200,000 fields."""
    fields = wire.DESCRIPTOR.fields_by_name
    return {name: _reader(hint, name, fields.get(name)) for name, hint in get_type_hints(kind).items()}


def _reader(hint: Any, name: str, field: Any) -> Callable[[Any], Any]:
    get, inner = attrgetter(name), get_args(hint)
    if get_origin(hint) is list:
        return _compose(_list_of(inner[0]), get)
    if get_origin(hint) is dict:
        return _compose(_dict_of(inner[1], field), get)
    if type(None) not in inner:
        return _compose(_converter(hint), get)
    there: Callable[[Any], Any] = (lambda message: message.HasField(name)) if field.has_presence else get
    read = _compose(_converter(inner[0]), get)
    return lambda message: read(message) if there(message) else None


def _compose(convert: Callable[[Any], Any] | None, get: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return get if convert is None else lambda message: convert(get(message))


def _list_of(hint: Any) -> Callable[[Any], Any]:
    convert = _converter(hint)
    return list if convert is None else lambda items: [convert(item) for item in items]


def _dict_of(hint: Any, field: Any) -> Callable[[Any], Any]:
    convert = _converter(hint) or (lambda value: value)
    if field.message_type.GetOptions().map_entry:
        return lambda entries: {key: convert(entries[key]) for key in sorted(entries)}
    pair = attrgetter(*_pair(field))
    return lambda items: dict(map(pair, items))


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """What makes a value of this type; None: it is one as it comes."""
    if hasattr(hint, "_fields"):
        return lambda message: from_message(hint, message)
    return hint.of_number if issubclass(hint, WireEnum) else None


def _pair(field: Any) -> list[str]:
    """Names of the two fields of a message that is in a list."""
    return [inner.name for inner in field.message_type.fields]


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
    target, field = getattr(message, name), message.DESCRIPTOR.fields_by_name[name]
    is_map = isinstance(target, Mapping)
    for key, value in entries.items():
        if not is_map:
            target.add(**dict(zip(_pair(field), (key, value), strict=True)))
        elif hasattr(value, "_fields"):
            to_message(target[key], value)
        else:
            target[key] = value
