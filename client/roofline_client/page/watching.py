"""What the page shows of a running job, put together from answers of the server: verdict, account, steps, and
where the roles were under the roof a while ago."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np
from roofline.answers.report import Report
from roofline.answers.roofline import Roofline
from roofline.answers.tables import TableChunk

from ..api import Client
from ..errors import ClientError
from ..results.page import html
from ..tables import screen
from . import figures
from .live import Shown

MOST_ROWS = 60_000  # the last steps, of all ranks, that are held and shown
LIVE_S, TRAIL_EVERY_S = 10.0, 5.0  # the roofline is that of so many last seconds
MOST_TRAIL = 130  # places that are remembered


class JobWatch:
    """One job, for one visitor's access."""

    def __init__(self, job: str, now: Callable[[], float] = time.monotonic) -> None:
        self._job, self._now = job, now
        self._lines: dict[str, figures.RankSteps] = {}  # by rank
        self._begins: dict[str, figures.Ints] = {}  # of the same steps, ns
        self._trails: dict[str, deque[tuple[float, float, float]]] = {}  # label -> when, intensity, FLOP/s

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        report = client.report(self._job, first_screen=True)
        self._add(client.steps(self._job, first_step=self._next_step(report)), report)
        pictures = {
            "steps": figures.step_times(self._lines, {rank.rank: rank.role for rank in report.ranks}),
            "late": figures.lateness(self._lines),
        }
        verdict = report.verdict
        if verdict is not None:
            pictures["account"] = figures.accounts(verdict.accounts)
        roofs = self._roofline(client, report)
        if roofs is not None:
            pictures["roofline"] = figures.roofline(roofs, self._trail(roofs))
        words = {"state": report.state, "verdict": html(screen.as_text(report))}
        return json.dumps({**words, "pictures": pictures}, allow_nan=False), report.running

    def _next_step(self, report: Report) -> int:
        """From where on steps are asked for: what is there already may be of ranks that are behind."""
        if self._lines:
            return min(int(line.number[-1]) for line in self._lines.values())
        newest = max((rank.last_step or 0 for rank in report.exits), default=0)
        return max(0, newest - _most(report))

    def _add(self, chunks: Iterable[TableChunk], report: Report) -> None:
        most = _most(report)
        for rank, new in _by_rank(chunks).items():
            if rank in self._lines:
                new = np.concatenate([[*self._lines[rank], self._begins[rank]], new], axis=1)
            new = new[:, ::-1]
            number, at = np.unique(new[0], return_index=True)  # the newest of each number
            _, duration, own, begins = new[:, at][:, -most:]
            self._lines[rank] = figures.RankSteps(number[-most:], duration, own)
            self._begins[rank] = begins

    def _roofline(self, client: Client, report: Report) -> Roofline | None:
        """Of the last seconds of a running job, of all steady steps of another; None where there is none."""
        first = self._recent() if report.running else None
        try:
            return client.roofline(self._job, points="role", first_step=first)
        except ClientError:
            return None

    def _recent(self) -> int | None:
        """The first step that began in the last seconds."""
        since = max((begins[-1] for begins in self._begins.values()), default=0) - int(LIVE_S * 1e9)
        found = [
            line.number[min(int(np.searchsorted(self._begins[rank], since)), len(line.number) - 1)]
            for rank, line in self._lines.items()
        ]
        return int(min(found)) if found else None

    def _trail(self, found: Roofline) -> dict[str, list[tuple[float, float, float]]]:
        """Where points were; remembers where they are."""
        now = self._now()
        for point in found.points:
            trail = self._trails.setdefault(point.label, deque(maxlen=MOST_TRAIL))
            intensity, flops = point.intensity.value, point.flops_per_second.value
            if intensity and flops and (not trail or now - trail[-1][0] >= TRAIL_EVERY_S):
                trail.append((now, intensity, flops))
        return {label: _so_long_ago(trail, now) for label, trail in self._trails.items()}


def _most(report: Report) -> int:
    """Steps of a rank that are held."""
    return max(50, MOST_ROWS // max(1, len(report.ranks)))


def _by_rank(chunks: Iterable[TableChunk]) -> dict[str, figures.Ints]:
    """Rank -> number, duration, time that it did not wait for others, and begin of its steps; ns."""
    rows: dict[str, list[tuple[int, int, int, int]]] = {}
    for chunk in chunks:
        named = {column.name: column.values for column in chunk.columns}
        waits = named.get("communicate_time", [None] * chunk.rows)
        times = (named[name] for name in ("rank", "step", "duration_ns", "begin_ns"))
        for rank, step, duration, begin, wait in zip(*times, waits, strict=True):
            if step is not None and duration is not None and begin is not None:
                own = int(duration) - int(1e9 * float(wait or 0.0))
                rows.setdefault(str(rank), []).append((int(step), int(duration), own, int(begin)))
    return {rank: np.array(found, np.int64).T for rank, found in rows.items()}


def _so_long_ago(trail: Iterable[tuple[float, float, float]], now: float) -> list[tuple[float, float, float]]:
    """Of each of TRAIL_S the place then, oldest first."""
    found = []
    for ago in reversed(figures.TRAIL_S):
        near = min(trail, key=lambda place: abs(now - place[0] - ago), default=None)
        if near is not None and abs(now - near[0] - ago) <= 0.3 * ago:
            found.append((ago, near[1], near[2]))
    return found
