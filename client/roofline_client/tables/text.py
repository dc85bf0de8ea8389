"""What commands print: on the terminal, or as one text."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console

UNBOUNDED = 1 << 20  # a width, columns, that no line reaches
_PLAIN: dict[str, Any] = {"emoji": False, "highlight": False, "markup": False}


def show(what: Any, colour: bool | None = None) -> None:
    """Print to stdout: colours and the terminal's width only on a terminal, else lines as long as they are.

    Raises BrokenPipeError when nobody reads on.
    """
    console = Console(no_color=colour is False, **_PLAIN)
    sys.stdout.write(_lines(what, console if console.is_terminal else _unbounded()) + "\n")


def rendered(what: Any) -> str:
    """A rich renderable as plain lines without colours."""
    return _lines(what, _unbounded())


def _unbounded() -> Console:
    return Console(width=UNBOUNDED, color_system=None, **_PLAIN)


def _lines(what: Any, console: Console) -> str:
    # Captured, to be written by us: rich itself ends the program when nobody reads on.
    with console.capture() as captured:
        console.print(what)
    return "\n".join(line.rstrip(" ") for line in captured.get().splitlines())
