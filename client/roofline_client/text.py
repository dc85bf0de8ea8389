"""What commands print, as one text."""

from __future__ import annotations

from typing import Any

from rich.console import Console

WIDTH = 1 << 20  # columns; no line reaches it


def rendered(what: Any) -> str:
    """A rich renderable as plain lines without colours."""
    console = Console(width=WIDTH, color_system=None, emoji=False, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(what)
    return "\n".join(line.rstrip(" ") for line in captured.get().splitlines())
