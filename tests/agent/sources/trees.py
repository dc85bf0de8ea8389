"""Made-up /proc and /sys: files by path below a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from roofline_agent.records import Rank, Sample, Source, SourceSettings


class Clock:
    """Node time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ns = 10**15

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


CLOCK = Clock()  # of all sources that a test makes by `settings`


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def settings(root: Path = Path("/")) -> SourceSettings:
    return SourceSettings(proc=str(root / "proc"), sys=str(root / "sys"), clock=CLOCK)


def by_name(source: Source, row: Sample) -> dict[str, int | float | None]:
    return {m.name: value for m, value in zip(source.counter_set.metrics, row.values, strict=True)}


def rows(source: Source, ranks: Sequence[Rank] = ()) -> dict[str, dict[str, int | float | None]]:
    """Values by instance; the same instance twice is an error."""
    found = source.sample(ranks)
    named = {row.instance: by_name(source, row) for row in found}
    assert len(named) == len(found)
    return named
