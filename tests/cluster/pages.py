"""The pages of docs/cluster as scripts: what they tell their reader to type, word by word and in order."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import quote
from typing import NamedTuple

_PARTS = re.compile(r"^## (?P<title>[^\n]*)$|^```sh\n(?P<block>.*?)^```$", re.MULTILINE | re.DOTALL)


class Section(NamedTuple):
    """title: without its number; "" before the first. script: all blocks marked `sh`."""

    title: str
    script: str


def sections(page: Path) -> list[Section]:
    """In the order of the page, those without a block too."""
    found = [Section("", "")]
    for part in _PARTS.finditer(page.read_text()):
        if part["title"]:
            found.append(Section(re.sub(r"^\d+\. ", "", part["title"]), ""))
        else:
            found[-1] = found[-1]._replace(script=found[-1].script + part["block"])
    return found


def script_of(page: Path, before: dict[str, str]) -> str:
    """One script for bash, which ends at the first line that fails. before: title of a section -> lines that
    stand for what the reader has there, or "" to leave that section out."""
    parts = ["set -e"]
    for section in sections(page):
        own = before.get(section.title, ":")
        if section.script and own:
            title = f"echo {quote('== ' + section.title)}"
            parts += [title, own, "set -x", section.script, "{ set +x; } 2>/dev/null"]
    return "\n".join(parts)
