"""Manual pages of a program and of each of its commands, as `--help` has them: PROGRAM VERSION FOLDER."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

AS_IT_IS = "\b\n"  # how click marks a paragraph whose lines stay as they are
GLYPHS = str.maketrans({"\\": "\\e", "-": "\\-", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"})


def main(program: str, version: str, folder: str) -> None:
    for name, text in pages(program, version):
        (Path(folder) / f"{name}.1.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def pages(program: str, version: str) -> Iterator[tuple[str, str]]:
    """Each page's name, "roofline-client-bench-net", and its text for man."""
    root = typer.main.get_command(import_module(program.replace("-", "_") + ".cli").app)
    yield from _pages(root, typer.Context(root, info_name=program), version)


def _pages(command: Any, context: Any, version: str) -> Iterator[tuple[str, str]]:
    name = context.command_path.replace(" ", "-")
    yield name, "\n".join(_page(command, context, name, version)) + "\n"
    for word, below in sorted(getattr(command, "commands", {}).items()):
        yield from _pages(below, typer.Context(below, info_name=word, parent=context), version)


def _page(command: Any, context: Any, name: str, version: str) -> Iterator[str]:
    words = (command.help or name).strip()
    yield f'.TH {name.upper()} 1 "" "roofline {version}" "roofline"'
    yield from (".SH NAME", f"{name} \\- {_escaped(words.splitlines()[0].split('. ')[0].rstrip('.'))}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield from (".SH SYNOPSIS", _escaped(usage), ".SH DESCRIPTION")
    for text in (words, command.epilog or ""):
        yield from _paragraphs(text)

    arguments, options = [], []
    for param in command.get_params(context):
        if record := param.get_help_record(context):
            (arguments if param.param_type_name == "argument" else options).append(record)
    below = getattr(command, "commands", {}).items()
    commands = [(word, one.get_short_help_str(200)) for word, one in sorted(below) if not one.hidden]
    for title, entries in (("ARGUMENTS", arguments), ("OPTIONS", options), ("COMMANDS", commands)):
        yield from _entries(title, entries)


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith(AS_IT_IS):
            yield from (".PP", ".nf", _escaped(paragraph.removeprefix(AS_IT_IS)), ".fi")
        elif paragraph:
            yield from (".PP", _escaped(" ".join(paragraph.split())))


def _entries(title: str, entries: list[tuple[str, str]]) -> Iterator[str]:
    if entries:
        yield f".SH {title}"
    for name, text in entries:
        yield from (".TP", f"\\fB{_escaped(name)}\\fR", _escaped(" ".join(text.split())))


def _escaped(text: str) -> str:
    """Text that man shows as it is: a hyphen that can be copied, no line that is read as a request."""
    text = text.translate(GLYPHS)
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.split("\n"))


if __name__ == "__main__":
    main(*sys.argv[1:])
