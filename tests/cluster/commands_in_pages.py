"""The commands that pages of docs/cluster show."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "cluster"


def page(name: str) -> str:
    return (PAGES / name).read_text()


def lines(name: str) -> list[str]:
    """Those to be typed, as a shell joins them."""
    found = "\n".join(line[4:] for line in page(name).splitlines() if line.startswith("    "))
    return found.replace("\\\n", " ").splitlines()
