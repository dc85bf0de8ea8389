"""Inputs in files: the length of each part (8 bytes, little-endian) before it."""

from __future__ import annotations

import hashlib
from pathlib import Path

KEPT = Path(__file__).parents[2] / "data" / "fuzz"


def packed(parts: list[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def keep(folder: Path, parts: list[bytes]) -> Path:
    """Write an input; its name follows from what it holds."""
    data = packed(parts)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
    path.write_bytes(data)
    return path


def kept(name: str) -> list[Path]:
    """Inputs that once failed a target."""
    return kept_in(KEPT / name)


def kept_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.bin"))
