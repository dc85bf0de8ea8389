"""What commands print: on the terminal, or as one text."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console

# Of what tables draw with, for terminals that cannot show it; anything else becomes "?".
_DRAWN = "…·█−×±≤→▏▎▍▌▋▊▉▁▂▃▄▅▆▇"
_PLAINLY = ["...", "-", "#", "-", "x", "+-", "<=", "->", *"..::+++", *"_.-=+*%"]
ASCII = {ord(drawn): plain for drawn, plain in zip(_DRAWN, _PLAINLY, strict=True)}
UNBOUNDED = 1 << 20  # a width, columns, that no line reaches
_PLAIN: dict[str, Any] = {"emoji": False, "highlight": False, "markup": False}


def show(what: Any, colour: bool | None = None) -> None:
    """Print to stdout: colours and the terminal's width only on a terminal, else lines as long as they are.

    Raises BrokenPipeError when nobody reads on.
    """
    console = terminal(colour)
    sys.stdout.write(writable(_lines(what, console if console.is_terminal else _unbounded())) + "\n")


def terminal(colour: bool | None = None) -> Console:
    """stdout, with its width and colours where it is a terminal that has them."""
    return Console(no_color=True if colour is False else None, **_PLAIN)


def writable(text: str) -> str:
    """The text as stdout can take it: what its encoding lacks is drawn with plain characters."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return text


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
