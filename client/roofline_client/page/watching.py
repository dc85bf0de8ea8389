"""What the page shows of a job, put together from answers of the server. Each watch is a stream of messages:
steps come soon, however large the job is, the verdict when the server has found it."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from roofline.answers.report import Report
from roofline.answers.roofline import Roofline
from roofline.answers.step_overview import RecentSteps, StepOverview

from ..api import Client
from ..errors import ClientError, UsageError
from ..results.page import html
from ..step_range import parse_steps
from ..tables import screen
from . import figures, step_figures
from .live import Shown

TRAIL_EVERY_S = 5.0
MOST_TRAIL = 130  # places that are remembered
Place = tuple[float, float, float]  # when (s), intensity, FLOP/s
Part = tuple[figures.Figure, str]  # a picture, and its table as HTML


class Chosen(NamedTuple):
    """What somebody picked of a job. steps: "FIRST:LAST", as of the command line; ranks: places in the order
    of ranks, "FIRST:LAST"; "" of either: nothing was picked."""

    job: str
    steps: str = ""
    ranks: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Chosen:
        """Raises UsageError for ranges that cannot be."""
        found = cls(given.get("job", ""), given.get("steps", ""), given.get("ranks", ""))
        parse_steps(found.steps)
        found.places()
        return found

    def range(self) -> dict[str, int | None]:
        first, last = parse_steps(self.steps)
        return {"first_step": first, "last_step": last}

    def places(self) -> dict[str, int]:
        """Raises UsageError."""
        if not self.ranks:
            return {}
        first, colon, last = self.ranks.partition(":")
        if not (colon and first.isdecimal() and last.isdecimal() and int(last) < 1 << 32):
            raise UsageError(f"ranks {self.ranks!r} must be FIRST:LAST, as 0:15")
        return {"first_rank": int(first), "last_rank": int(last)}


class StepsWatch:
    """Step times and lateness of the whole job."""

    def __init__(self, job: str) -> None:
        self._job = job

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        found = client.step_overview(self._job)
        steps = step_figures.step_times(found), html(step_figures.steps_table(found))
        return _message({"steps": steps, "late": _late(found)}, late_of="/"), found.running


class LateWatch:
    """Lateness of what was picked."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        asked = self._chosen
        found = client.step_overview(asked.job, **asked.range(), **asked.places())
        return _message({"late": _late(found)}, late_of=f"{asked.steps}/{asked.ranks}"), found.running


def _late(found: StepOverview) -> Part:
    return step_figures.lateness(found), html(step_figures.lateness_table(found))


class VerdictWatch:
    """Verdict, account and roofline of the steps that were picked, or of those that are now."""

    def __init__(self, chosen: Chosen, now: Callable[[], float] = time.monotonic) -> None:
        self._chosen, self._now = chosen, now
        self._trails: dict[str, deque[Place]] = {}  # by label
        self._is_seeded = False

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        asked = self._chosen
        report = client.report(asked.job, **asked.range(), first_screen=True)
        parts: dict[str, Part] = {}
        if report.verdict is not None:
            accounts = report.verdict.accounts
            parts["account"] = figures.accounts(accounts), html(figures.accounts_table(accounts))
        roofs = self._roofline(client, report)
        if roofs is not None:
            table = html(figures.roofline_table(roofs))
            parts["roofline"] = figures.roofline(roofs, self._trail(roofs)), table
        words = {"state": report.state, "verdict": html(screen.as_text(report)), "of": asked.steps}
        words["headline"] = report.verdict.headline if report.verdict else ""
        return _message(parts, **words), report.running

    def _roofline(self, client: Client, report: Report) -> Roofline | None:
        """Of the last seconds of a running job, of all steady steps of another; None where there is none."""
        asked = self._chosen
        if asked.steps or not report.running:
            return _points(client, asked.job, **asked.range())
        recent = client.step_overview(asked.job, stretches=1).recent
        if not self._is_seeded:
            self._seed(client, recent)
        return _points(client, asked.job, first_step=_newest(recent))

    def _seed(self, client: Client, recent: Iterable[RecentSteps]) -> None:
        """Where the roles were before anybody looked."""
        self._is_seeded, now = True, self._now()
        for one in sorted(recent, key=lambda one: -one.ago):
            if one.ago:
                found = _points(client, self._chosen.job, first_step=one.first_step, last_step=one.last_step)
                self._remember(found, now - one.ago)

    def _remember(self, found: Roofline | None, when: float) -> None:
        for point in found.points if found is not None else ():
            trail = self._trails.setdefault(point.label, deque(maxlen=MOST_TRAIL))
            intensity, flops = point.intensity.value, point.flops_per_second.value
            if intensity and flops and (not trail or when - trail[-1][0] >= TRAIL_EVERY_S):
                trail.append((when, intensity, flops))

    def _trail(self, found: Roofline) -> dict[str, list[Place]]:
        """Where points were; remembers where they are."""
        now = self._now()
        if self._is_seeded:
            self._remember(found, now)
        return {label: _so_long_ago(trail, now) for label, trail in self._trails.items()}


def _points(client: Client, job: str, **steps: int | None) -> Roofline | None:
    try:
        return client.roofline(job, "classic", "role", **steps)
    except ClientError:
        return None


def _newest(recent: Iterable[RecentSteps]) -> int | None:
    return next((one.first_step for one in recent if not one.ago), None)


def _so_long_ago(trail: Iterable[Place], now: float) -> list[Place]:
    """Of each of TRAIL_S the place then, oldest first."""
    found = []
    for ago in reversed(figures.TRAIL_S):
        near = min(trail, key=lambda place: abs(now - place[0] - ago), default=None)
        if near is not None and abs(now - near[0] - ago) <= 0.3 * ago:
            found.append((ago, near[1], near[2]))
    return found


def _message(parts: Mapping[str, Part], **more: str) -> str:
    pictures = {name: picture for name, (picture, _) in parts.items()}
    tables = {name: table for name, (_, table) in parts.items()}
    return json.dumps({**more, "pictures": pictures, "tables": tables}, allow_nan=False)


def overview_json(found: StepOverview) -> str:
    """As a document of the API."""
    return json.dumps(step_figures.numbers(found), allow_nan=False)
