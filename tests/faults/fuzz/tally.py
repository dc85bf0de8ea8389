"""What was fuzzed so far, in a file: a line for each target and version of the product, over all runs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .coverage import PRODUCT
from .kept import KEPT
from .running import Counts

TALLY = KEPT / "tally.jsonl"


class Row(NamedTuple):
    """Of one target with one version of the product. Sums, but for the last four: largest; and places."""

    target: str
    code: str
    inputs: int = 0
    parts: int = 0
    read: int = 0
    taken: int = 0
    crashes: int = 0
    hangs: int = 0
    seconds: float = 0.0
    lines: int = 0
    slowest_s: float = 0.0
    grown_bytes: int = 0
    failures: tuple[str, ...] = ()

    def plus(self, other: Row) -> Row:
        """Both together, of one target."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in SUMS}
        largest = {name: max(getattr(self, name), getattr(other, name)) for name in LARGEST}
        failures = tuple(dict.fromkeys(self.failures + other.failures))
        return self._replace(**sums, **largest, failures=failures)


SUMS = ("inputs", "parts", "read", "taken", "crashes", "hangs", "seconds")
LARGEST = ("lines", "slowest_s", "grown_bytes")


def row_of(target: str, code: str, counts: Counts) -> Row:
    """One run."""
    values = {name: getattr(counts, name) for name in (*SUMS, *LARGEST)}
    return Row(target, code, **values, failures=tuple(one.place for one in counts.failures))


def code_version() -> str:
    """The same for the same source of the product."""
    found = hashlib.sha256()
    for folder in PRODUCT:
        for path in sorted(Path(folder).rglob("*.py")):
            found.update(f"{path.relative_to(folder)} ".encode() + path.read_bytes())
    return found.hexdigest()[:12]


def rows_in(path: Path) -> list[Row]:
    """All that was counted there."""
    if not path.exists():
        return []
    return [_row(json.loads(line)) for line in path.read_text().splitlines()]


def _row(values: dict[str, Any]) -> Row:
    return Row(**{**values, "failures": tuple(values["failures"])})


def add(path: Path, new: Row) -> None:
    """Count a run there."""
    rows = {(row.target, row.code): row for row in rows_in(path)}
    key = new.target, new.code
    rows[key] = rows[key].plus(new) if key in rows else new
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text("".join(f"{json.dumps(row._asdict())}\n" for row in rows.values()))
    part.replace(path)


def total(rows: Iterable[Row], target: str = "") -> Row:
    """All of a target, or all."""
    found = Row(target, "")
    for row in rows:
        if target in ("", row.target):
            found = found.plus(row)
    return found


def fuzz_table(rows: Sequence[Row]) -> list[str]:
    """Markdown: a line for each target, all versions together; how many of what was read the last had."""
    last = rows[-1].code
    lines = [
        "| target | parts | read | taken | read by the last version | minutes | lines reached | crashes "
        "| hangs | slowest | memory, at most |",
        f"|{' --- |' * 11}",
    ]
    for name in (*dict.fromkeys(row.target for row in rows), ""):
        one = total(rows, name)
        newest = total((row for row in rows if row.code == last), name)
        lines.append(
            f"| {name or '**all**'} | {one.parts:,} | {one.read:,} | {one.taken:,} | {newest.read:,} "
            f"| {one.seconds / 60:.1f} | {f'{one.lines:,}' if name else ''} | {one.crashes} | {one.hangs} "
            f"| {one.slowest_s * 1e3:.0f} ms | +{one.grown_bytes / 1e6:.0f} MB |"
        )
    return lines
