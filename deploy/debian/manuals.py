"""Manual pages of a program and of each of its commands, by help2man: PROGRAM VERSION PATH FOLDER."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import typer


def main(program: str, version: str, path: str, folder: str) -> None:
    module = import_module(program.replace("-", "_") + ".cli")
    root = typer.main.get_command(module.app)
    _write_all(Path(folder), program, version, [path], root)


def _write_all(folder: Path, page: str, version: str, words: list[str], command: Any) -> None:
    _write(folder, page, version, words, (command.help or page).splitlines()[0])
    for name, below in sorted(getattr(command, "commands", {}).items()):
        _write_all(folder, f"{page}-{name}", version, [*words, name], below)


def _write(folder: Path, page: str, version: str, words: list[str], short: str) -> None:
    """help2man calls one file: here a script that calls the command without a terminal's width."""
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / page
        quoted = " ".join(f"'{word}'" for word in words)
        script.write_text(f'#!/bin/sh\nCOLUMNS=100 exec {quoted} "$@"\n')
        script.chmod(0o755)
        options = [
            "--no-info",
            "--no-discard-stderr",
            f"--version-string={version}",
            f"--name={short.rstrip('.')}",
        ]
        made = ["help2man", *options, f"--output={folder / page}.1", str(script)]
        subprocess.run(made, check=True)
    subprocess.run(["gzip", "-9n", f"{folder / page}.1"], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
