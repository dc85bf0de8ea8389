"""Two jobs side by side: what differed in their settings, and what that did to their steps."""

from __future__ import annotations

from typing import NamedTuple

from .values import Value


class SettingChange(NamedTuple):
    """A setting, size or tag that is not the same in both jobs."""

    name: str
    first: str  # several values of ranks joined by ", "; "": this job has none
    second: str


class Change(NamedTuple):
    """One number of two jobs."""

    kind: str  # throughput, step, part, intensity, roof_share
    subject: str  # role, or part of the account; "": the job
    first: Value
    second: Value
    change: Value  # throughput, step, intensity: second over first; else second less first
    low: float | None  # of the change: 95 % interval by its steps; None: not known
    high: float | None
    within_noise: bool  # the interval holds no change, or is not known though the number varies by step


class Comparison(NamedTuple):
    first: str  # jobs
    second: str
    headline: str
    settings: list[SettingChange]
    changes: list[Change]
    notes: list[str]
