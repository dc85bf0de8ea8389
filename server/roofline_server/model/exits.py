"""How the ranks of a job ended, and what state that puts the job in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

RUNNING, EXITED, SILENT = "running", "exited", "silent"
FINISHED, FAILED, ENDED = "finished", "failed", "ended"
UNHARMED = ("COMPLETED", "CANCELLED", "REQUEUED", "PREEMPTED")  # Slurm's states of jobs that did not fail
TERMINATED = (-15, 128 + 15)  # by SIGTERM; as a shell reports it
TOGETHER_NS = 2_000_000_000  # an agent may see the ends of processes in another order


class RankEnd(NamedTuple):
    """How a rank ended, or that it has not. state: RUNNING, EXITED or SILENT (it was not seen to end, and
    nothing was received of it lately)."""

    rank: str  # "worker:0"
    state: str
    status: int | None  # exit code, or the signal that ended it, negative; None: not known
    last_step: int | None
    time_ns: int  # when it ended, or was seen last

    @property
    def failed(self) -> bool:
        return self.status is not None and self.status != 0


class JobState(NamedTuple):
    """state: RUNNING, FAILED, SILENT, FINISHED (all that is known of the ends is good) or ENDED (nothing is).

    first: the rank that failed first, or that was seen last of those that are silent. others: how many more
    ranks failed, or, of a job that FINISHED, of how many ranks the exit code is not known.
    """

    state: str
    first: RankEnd | None = None
    others: int = 0


def job_state(ends: Iterable[RankEnd]) -> JobState:
    """The state of a job of these ranks. What fails first makes the others fail, so the first is named."""
    ranks = list(ends)
    failed = sorted((end for end in ranks if end.failed), key=lambda end: end.time_ns)
    if _sent_home(failed, ranks):
        failed = []
    if any(end.state == RUNNING for end in ranks):
        return JobState(RUNNING, failed[0] if failed else None, max(len(failed) - 1, 0))
    if failed:
        return JobState(FAILED, failed[0], len(failed) - 1)
    silent = [end for end in ranks if end.state == SILENT]
    if silent:
        return JobState(SILENT, max(silent, key=lambda end: end.time_ns), len(silent) - 1)
    unknown = sum(end.status is None for end in ranks)
    return JobState(ENDED) if unknown == len(ranks) else JobState(FINISHED, None, unknown)


def _sent_home(failed: Sequence[RankEnd], ranks: Sequence[RankEnd]) -> bool:
    """Whether ranks were only terminated, once another had finished well: parameter servers and workers wait
    forever, and launchers end them so."""
    done_ns = min((end.time_ns for end in ranks if end.status == 0), default=None)
    if done_ns is None:
        return False
    return all(end.status in TERMINATED and end.time_ns >= done_ns - TOGETHER_NS for end in failed)
