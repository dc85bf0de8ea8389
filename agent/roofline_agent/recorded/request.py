"""What `roofline-agent import` was asked for, and how it writes what a file may hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from roofline.joining import Access


class ImportRequest(NamedTuple):
    """What the user asked for."""

    files: tuple[str, ...]
    job: str
    role: str
    rank: int | None
    offset_s: float
    host: str | None
    dry_run: bool
    output: str  # "text" or "json"
    server: str
    access: Access | None = None  # of a server that was joined
    launches: bool = False  # every single one in the JSON
