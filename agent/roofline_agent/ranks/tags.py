"""Tags: what distinguishes a job from others, given by the user: nodes=4, batch=32, experiment=scaling.

They reach a rank in ROOFLINE_TAGS ("nodes=4,batch=32"; a comma in a value is written \\,) and
ROOFLINE_EXPERIMENT, a tag of its own, and leave its node as facts "tag.NAME=VALUE".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

TAGS, EXPERIMENT = "ROOFLINE_TAGS", "ROOFLINE_EXPERIMENT"
FACT = "tag."  # how the names of facts begin that are tags
NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
MAX_VALUE, MAX_TAGS = 256, 32
_PIECE = re.compile(r"(?:\\[\\,]|[^,])+")
_ESCAPED = re.compile(r"\\([\\,])")


class TagError(ValueError):
    """A text is no tag; the message says why."""


class EnvironTags(NamedTuple):
    """The tags of an environment by name, and what is wrong with the rest."""

    tags: dict[str, str]
    problems: list[str]


def parse(text: str) -> tuple[str, str]:
    """(name, value) of "nodes=4". Raises TagError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise TagError(f"{text[:80]!r} must be NAME=VALUE, as nodes=4")
    return name, validated(name, value)


def validated(name: str, value: str) -> str:
    """The value, if a tag may have it. Raises TagError."""
    if not NAME.fullmatch(name):
        raise TagError(
            f"tag name {name[:80]!r} must begin with a lower-case letter, followed by up to 63 of "
            "a-z 0-9 _ . -"
        )
    if not (0 < len(value) <= MAX_VALUE and value.isprintable()):
        raise TagError(f"tag {name}: its value must be 1 to {MAX_VALUE} printable characters")
    return value


def from_environ(environ: Mapping[str, str]) -> EnvironTags:
    """The tags in an environment; what cannot be one is left out, and `problems` name it."""
    tags: dict[str, str] = {}
    problems: list[str] = []

    def add(where: str, name: str, value: str) -> None:
        if tags.get(name, value) != value:
            problems.append(f"{where}: {_given_twice(name, tags[name], value)}; the last one counts")
        tags[name] = value

    for piece in filter(str.strip, _PIECE.findall(environ.get(TAGS, ""))):
        try:
            add(TAGS, *parse(_ESCAPED.sub(r"\1", piece).lstrip()))
        except TagError as error:
            problems.append(f"{TAGS}: {error}")
    if experiment := environ.get(EXPERIMENT):
        try:
            add(EXPERIMENT, "experiment", validated("experiment", experiment))
        except TagError:
            problems.append(f"{EXPERIMENT}: must be 1 to {MAX_VALUE} printable characters")
    if len(tags) > MAX_TAGS:
        problems.append(f"{len(tags)} tags; only the first {MAX_TAGS} are kept")
    return EnvironTags(dict(list(tags.items())[:MAX_TAGS]), problems)


def from_options(options: Iterable[str], experiment: str | None) -> dict[str, str]:
    """The tags that options of the command line give. Raises TagError."""
    pairs = [parse(option) for option in options]
    if experiment is not None:
        pairs.append(("experiment", validated("experiment", experiment)))
    tags: dict[str, str] = {}
    for name, value in pairs:
        if tags.setdefault(name, value) != value:
            raise TagError(_given_twice(name, tags[name], value))
    if len(tags) > MAX_TAGS:
        raise TagError(f"{len(tags)} tags; at most {MAX_TAGS}")
    return tags


def as_environ(tags: Mapping[str, str]) -> dict[str, str]:
    """The variables that give these tags to a rank, and to what it starts."""
    written = []
    for name, value in tags.items():
        if name != "experiment":
            escaped = value.replace("\\", "\\\\").replace(",", "\\,")
            written.append(f"{name}={escaped}")
    environ = {TAGS: ",".join(written), EXPERIMENT: tags.get("experiment", "")}
    return {name: value for name, value in environ.items() if value}


def _given_twice(name: str, first: str, second: str) -> str:
    return f"tag {name} is given twice, as {first!r} and as {second!r}"
