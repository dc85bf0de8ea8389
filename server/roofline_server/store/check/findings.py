"""What a check found in a data directory."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One file, or some rows, that are not as they should be.

    kind: damaged, missing, unknown (the catalog does not know the file), apart (it is in quarantine), foreign
    (files that do not belong together). No problems are: left-over (the next start removes it), and lost (a
    damaged file that a repair has set apart: reports say what is missing).
    """

    kind: str
    what: str  # a path relative to the data directory, or what of the inbox
    why: str
    job: str | None = None  # None: not known
    rows: int | None = None  # None: not known

    @property
    def is_problem(self) -> bool:
        return self.kind not in ("left-over", "lost")


class Checked(NamedTuple):
    """How much was read, and what was found."""

    findings: list[Finding]
    segments: int = 0
    rows: int = 0
    bytes: int = 0
    batches: int = 0  # of the inbox

    @property
    def problems(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_problem]


class Repaired(NamedTuple):
    """What a repair did, and what it could not do, a sentence each."""

    done: list[str]
    left: list[str]
