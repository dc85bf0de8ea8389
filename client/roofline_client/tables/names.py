"""Names and sentences from the wire, made safe to show: they are text and never steer anything."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

# Control characters, direction marks, line separators, halves of surrogate pairs.
_DIGITS = re.compile("([0-9]+)")
_UNSAFE = ("Cc", "Cf", "Cs", "Zl", "Zp")

_BEGIN_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def clean(text: str) -> str:
    """The text with a "?" for every character that a terminal or a picture would act on."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("?" if unicodedata.category(char) in _UNSAFE else char for char in text)


def inert(text: str) -> str:
    """The text as a cell of a CSV file that no program acts on: control characters become "?", and what a
    spreadsheet would run as a formula gets an apostrophe before it (OWASP, CSV Injection)."""
    cell = "\n".join(map(clean, text.split("\n")))
    return f"'{cell}" if cell.startswith(_BEGIN_A_FORMULA) and not is_number(cell) else cell


def is_number(text: str) -> bool:
    """Whether the text is one, as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def short_hosts(hosts: Sequence[str]) -> dict[str, str]:
    """Host -> its name up to the first dot; whole names where that would not tell hosts apart."""
    short = {host: host.partition(".")[0] for host in hosts}
    clear = len(set(short.values())) == len(short) and not any(name.isdigit() for name in short.values())
    return short if clear else {host: host for host in hosts}


def tagged(tags: Mapping[str, str]) -> str:
    """A job's tags in one line."""
    return ", ".join(f"{name}={value}" for name, value in tags.items())


def natural(name: str) -> tuple[str | int, ...]:
    """A key that sorts worker:2 before worker:10: text and numbers by turns."""
    return tuple(int(piece) if at % 2 else piece for at, piece in enumerate(_DIGITS.split(name)))


def several(names: str | Iterable[object]) -> list[str]:
    """A list of names; one alone may come without its list, "" is none."""
    if isinstance(names, str):
        return [names] if names else []
    return [str(name) for name in names]
