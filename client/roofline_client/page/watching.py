"""What the page shows of a job, put together from answers of the server. Each watch is a stream of messages:
steps come soon, however large the job is, the verdict when the server has found it."""

from __future__ import annotations

import json
import math
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from roofline.answers.roofline import Roofline
from roofline.answers.step_overview import RecentSteps, StepOverview

from ..api import Client
from ..errors import ClientError, UsageError
from ..results.page import html
from ..step_range import parse_steps
from ..tables import screen
from . import account_figure, roofline_figure, step_figures
from .live import Shown
from .plotly_parts import Figure

MOST_RANKS = 1 << 32
_PLACES = re.compile(r"([0-9]{1,10}):([0-9]{1,10})")
TRAIL_EVERY_S = 5.0
MOST_TRAIL = 130  # places that are remembered
RECENT_S = 20.0  # so old may be what is known of a job's newest steps
FORGOTTEN_S = 60.0  # after so long without a look the server is asked again where roles were
Place = tuple[float, float, float]  # when (s), intensity, FLOP/s
Part = tuple[Figure, str]  # a picture, and its table as HTML


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
        found = _PLACES.fullmatch(self.ranks)
        first, last = map(int, found.groups()) if found else (MOST_RANKS, MOST_RANKS)
        if max(first, last) >= MOST_RANKS:
            raise UsageError(f"ranks {self.ranks[:40]!r} must be FIRST:LAST, as 0:15")
        return {"first_rank": first, "last_rank": last}


class JobState:
    """What one watch has found of a job and another needs, so that nothing is asked twice."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.running: bool | None = None  # None: not known yet
        self._recent: list[RecentSteps] = []
        self._when = -math.inf

    def see(self, found: StepOverview) -> None:
        self.running, self._recent, self._when = found.running, found.recent, self._now()

    def recent(self) -> list[RecentSteps] | None:
        """None: what is known is too old."""
        return self._recent if self._now() - self._when <= RECENT_S else None


class StepsWatch:
    """Step times and lateness of the whole job, and what holds the newest steps of a running one up: of a
    long job, a mean over all steps hardly moves."""

    def __init__(self, job: str, state: JobState) -> None:
        self._job, self._state = job, state
        self._last: int | None = None  # when the newest step had ended at the last look
        self._now = ""

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        found = client.step_overview(self._job)
        self._state.see(found)
        steps = step_figures.step_times(found), html(step_figures.steps_table(found))
        parts = {"steps": steps, "late": _late(found)}
        now = self._newest(client, found) if found.running else ""
        return _message(parts, late_of="/", groups=_groups(found), now=now), found.running

    def _newest(self, client: Client, found: StepOverview) -> str:
        """HTML; "": it is not known. Asked for with new steps only, and not at the first look, so that step
        times are there soon."""
        if self._last not in (None, found.newest_ns):
            self._now = ""
            with suppress(ClientError):
                line = screen.newest(client.report(self._job, newest=True, first_screen=True))
                self._now = html(line) if line.rows else ""
        self._last = found.newest_ns
        return self._now


class LateWatch:
    """Lateness of what was picked."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        asked = self._chosen
        found = client.step_overview(asked.job, **asked.range(), **asked.places())
        return _message({"late": _late(found)}, late_of=f"{asked.steps}/{asked.ranks}"), found.running


def _groups(found: StepOverview) -> list[tuple[str, str]]:
    """Names and ranges of the rows that are several ranks; none where each row is one."""
    rows = [(row.name, f"{row.first_rank}:{row.last_rank}") for row in found.lateness]
    return rows if any(row.last_rank > row.first_rank for row in found.lateness) else []


def _late(found: StepOverview) -> Part:
    return step_figures.lateness(found), html(step_figures.lateness_table(found))


class VerdictWatch:
    """Verdict and account of the steps that were picked, or of the steady ones."""

    def __init__(self, chosen: Chosen, state: JobState) -> None:
        self._chosen, self._state = chosen, state

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        asked = self._chosen
        first, last = parse_steps(asked.steps)
        report = client.report(asked.job, first_step=first, last_step=last, first_screen=True)
        self._state.running = report.running
        parts: dict[str, Part] = {}
        if report.verdict is not None:
            accounts = report.verdict.accounts
            picture, table = account_figure.accounts(accounts), account_figure.accounts_table(accounts)
            parts["account"] = picture, html(table)
        words = {"state": report.state, "verdict": html(screen.as_text(report)), "of": asked.steps}
        words["headline"] = report.verdict.headline if report.verdict else ""
        return _message(parts, **words), report.running


class RooflineWatch:
    """Roles under their roofs: over the steps that were picked, over the last seconds of a running job, over
    the steady steps of another."""

    def __init__(self, chosen: Chosen, state: JobState, now: Callable[[], float] = time.monotonic) -> None:
        self._chosen, self._state, self._now = chosen, state, now
        self._trails: dict[str, deque[Place]] = {}  # by label
        self._looked: float | None = None  # when; None: never at a running job

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        asked, may_change = self._chosen, self._state.running is not False
        if asked.steps:
            found = _points(client, asked.job, **asked.range())
            return self._shown(found, f"steps {asked.steps}"), may_change
        recent = self._recent(client) if may_change else []
        if not self._state.running:
            return self._shown(_points(client, asked.job), "steady steps"), False
        now = self._now()
        if self._looked is None or now - self._looked > FORGOTTEN_S:
            self._seed(client, recent)
        self._looked = now
        newest = next((one for one in recent if not one.ago), None)
        if newest is None:
            return self._shown(_points(client, asked.job), "all steps"), True
        found = _points(client, asked.job, first_step=newest.first_step)
        self._remember(found, now)
        return self._shown(found, f"steps {newest.first_step:,} to {newest.last_step:,}"), True

    def _recent(self, client: Client) -> list[RecentSteps]:
        if (known := self._state.recent()) is not None:
            return known
        found = client.step_overview(self._chosen.job, stretches=1)
        self._state.see(found)
        return found.recent

    def _shown(self, found: Roofline, steps: str) -> str:
        picture = roofline_figure.roofline(found, self._trail(), steps)
        table = html(roofline_figure.roofline_table(found))
        return _message({"roofline": (picture, table)}, roofline_of=self._chosen.steps)

    def _seed(self, client: Client, recent: Iterable[RecentSteps]) -> None:
        """Where the roles were before anybody looked."""
        self._trails.clear()
        now = self._now()
        for one in sorted(recent, key=lambda one: -one.ago):
            if one.ago:
                steps = {"first_step": one.first_step, "last_step": one.last_step}
                with suppress(ClientError):
                    self._remember(_points(client, self._chosen.job, **steps), now - one.ago)

    def _remember(self, found: Roofline, when: float) -> None:
        for point in found.points:
            trail = self._trails.setdefault(point.label, deque(maxlen=MOST_TRAIL))
            intensity, flops = point.intensity.value, point.flops_per_second.value
            if intensity and flops and (not trail or when - trail[-1][0] >= TRAIL_EVERY_S):
                trail.append((when, intensity, flops))

    def _trail(self) -> dict[str, list[Place]]:
        """Where points were."""
        now = self._now()
        return {label: _so_long_ago(trail, now) for label, trail in self._trails.items()}


def _points(client: Client, job: str, **steps: int | None) -> Roofline:
    return client.roofline(job, "classic", "role", **steps)


def _so_long_ago(trail: Iterable[Place], now: float) -> list[Place]:
    """Of each of TRAIL_S the place then, oldest first."""
    found = []
    for ago in reversed(roofline_figure.TRAIL_S):
        near = min(trail, key=lambda place: abs(now - place[0] - ago), default=None)
        if near is not None and abs(now - near[0] - ago) <= 0.3 * ago:
            found.append((ago, near[1], near[2]))
    return found


def _message(parts: Mapping[str, Part], **more: Any) -> str:
    pictures = {name: picture for name, (picture, _) in parts.items()}
    tables = {name: table for name, (_, table) in parts.items()}
    return json.dumps({**more, "pictures": pictures, "tables": tables}, allow_nan=False)


def overview_json(found: StepOverview) -> str:
    """As a document of the API."""
    return json.dumps(step_figures.numbers(found), allow_nan=False)
