"""What the job, launch and user of a rank are called, looked up once for each process.

A process is never a rank of another user's job, whatever its environment says: it gets a job of its own.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..records import Rank
from .candidates import Candidate
from .claims import Owned, owners_of
from .environments import Environments
from .identity import MAX_NAME, NO_JOB, Identity, distinguished
from .names import job_of, launch_of, submitter, user_of
from .new_names import PROCESSES, RANKS, NewNames
from .processes import Processes

log = logging.getLogger(__name__)

MOST_RANKS, MOST_OF_USER = 2048, 512  # at one time; the server takes 4096 of a node in a batch


class RankNames(NamedTuple):
    """What is looked up once for a process of this identity."""

    start_ticks: int
    identity: Identity
    job: str
    launch: str
    user: str
    environ: dict[str, str]  # as it was then: a rank may end before its facts are gathered


class KnownNames:
    """Names of the ranks of one node, kept while their processes live."""

    def __init__(self, processes: Processes, environments: Environments) -> None:
        self._processes = processes
        self._environments = environments
        self._host = socket.gethostname()
        self._names: dict[int, RankNames] = {}  # by pid
        self._owners: dict[str, int] = {}  # job -> user
        self.new_names, self._new_processes = NewNames(RANKS), NewNames(PROCESSES)
        self._unnamed: set[int] = set()  # pids of processes whose user has named too many ranks
        self._jobs_of_others: dict[int, str] = {}  # pid -> the job of another user that it says it is of

    def names_of(self, one: Candidate) -> RankNames:
        """Look up how a process is called, or what was found before."""
        known = self._names.get(one.pid)
        if known is None or known[:2] != (one.start_ticks, one.identity):
            environ = self._environments.variables(one.pid)
            known = self._names[one.pid] = RankNames(
                start_ticks=one.start_ticks,
                identity=one.identity,
                job=self._job_of(one)[:MAX_NAME],
                launch=launch_of(self._processes, one.pid),
                user=submitter(one.uid, environ),
                environ=environ,
            )
        return known

    def identity_of(self, one: Candidate) -> Identity:
        """The identity of a rank with a name of its job that no stranger's has."""
        return one.identity._replace(job=self.names_of(one).job)

    def known(self, pid: int) -> RankNames:
        """What was found for a process that is a rank. Raises KeyError."""
        return self._names[pid]

    def forget(self, pid: int) -> None:
        """A process has gone."""
        self._names.pop(pid, None)

    def keep_users_apart(self, found: Sequence[Candidate]) -> list[Candidate]:
        """The ranks of the node; one that claims another user's job gets its own."""
        owned = (Owned(one.start_ticks, one.pid, one.identity.job, one.uid) for one in found)
        self._owners = owners_of(owned, self._owners)
        kept = [one if self._owners[one.identity.job] == one.uid else self._set_apart(one) for one in found]
        for pid in self._jobs_of_others.keys() - {one.pid for one in found}:
            del self._jobs_of_others[pid]
        return kept

    def job_of_other(self, pid: int) -> str:
        """The job of another user that a process says it is of; "": it is of its own."""
        return self._jobs_of_others.get(pid, "")

    def without_floods(self, ranks: Mapping[int, Rank]) -> dict[int, Rank]:
        """Ranks by pid, without those of a user who has too many at one time, or has named too many today."""
        kept: dict[int, Rank] = {}
        of_user: Counter[int] = Counter()
        for pid, rank in ranks.items():
            is_one_more = len(kept) < MOST_RANKS and of_user[rank.uid] < MOST_OF_USER
            if is_one_more and self._may_be_reported(rank):
                of_user[rank.uid] += 1
                kept[pid] = rank
            elif pid not in self._unnamed:
                self._unnamed.add(pid)
                when = "today" if is_one_more else "at one time"
                log.warning("process %d is not recorded: user %d has too many ranks %s", pid, rank.uid, when)
        self._unnamed &= ranks.keys()
        return kept

    def _may_be_reported(self, rank: Rank) -> bool:
        """Its name may be known: whoever starts one rank again and again has a process each time."""
        return self.new_names.take(rank.uid, [rank[:3]]) and self._new_processes.take(rank.uid, [rank])

    def _set_apart(self, one: Candidate) -> Candidate:
        job = one.identity.job
        own = f"{job[: MAX_NAME - 24]} of user {one.uid}"
        if one.pid not in self._jobs_of_others:
            log.warning(
                "process %d of user %d says that it is of job %s, which on this node belongs to user %d: it "
                "is shown as job %s",
                *(one.pid, one.uid, job, self._owners[job], own),
            )
        self._jobs_of_others[one.pid] = job
        return one._replace(identity=one.identity._replace(job=own))

    def _job_of(self, one: Candidate) -> str:
        if one.named:
            return one.identity.job
        if one.identity.job == NO_JOB:
            by_hand = one.identity.framework == "roofline"
            return job_of(self._processes, one.pid, of_session=by_hand)
        return distinguished(one.identity.job, self._host, user_of(self._processes, one.pid))
