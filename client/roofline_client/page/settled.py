"""What does not change is not asked for again: of a job that is over, as long as the list of jobs says the
same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from roofline.answers.jobs import Job

from ..api import Client
from .live import Shown, Watch

LISTED_S = 5.0  # so old may be what the list of jobs said
# An agent that was cut off may bring steps of a job that is over: looked for after so long, ever less often,
# and in a hundredth of the time.
AGAIN_S, MOST_AGAIN_S, SHARE = 60.0, 3600.0, 100.0


class Listed:
    """The list of jobs, asked for once for all of one visitor's pages."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._lock = now, threading.Lock()
        self._jobs: list[Job] = []
        self._until_s = 0.0

    def runs(self, client: Client, job: str) -> list[Job]:
        """What it says of one job: of "42" all of "42/1", "42/2". Raises ClientError."""
        with self._lock:
            if self._now() >= self._until_s:
                self._jobs = list(client.jobs())
                self._until_s = self._now() + LISTED_S
            return [one for one in self._jobs if one.job == job or one.job.startswith(f"{job}/")]


class Settled:
    """Shows what a watch has found as long as its job is over, and the list of jobs says the same of it."""

    def __init__(
        self, job: str, watch: Watch, listed: Listed, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._job, self._watch, self._listed, self._now = job, watch, listed, now
        self._shown: Shown | None = None  # None: it may change
        self._runs: list[Job] = []
        self._until_s, self._again_s = 0.0, AGAIN_S

    def look(self, client: Client) -> Shown:
        """What is to be shown now. Raises ClientError."""
        runs = self._runs
        if self._shown is not None:
            runs = self._listed.runs(client, self._job)
            if runs == self._runs and self._now() < self._until_s:
                return self._shown
        begin = self._now()
        found = self._watch.look(client)
        if found[1]:
            self._shown = None
            return found
        if self._shown is None:
            runs, self._again_s = self._listed.runs(client, self._job), AGAIN_S
        elif runs != self._runs:
            self._again_s = AGAIN_S
        # Only now: a question that fails is asked again.
        self._shown, self._runs, end = found, runs, self._now()
        self._until_s = end + max(self._again_s, SHARE * (end - begin))
        self._again_s = min(MOST_AGAIN_S, 2 * self._again_s)
        return found
