"""Reads from /proc whether a process carries the identity of a rank."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .candidates import Candidate
from .environments import Environments
from .identity import (
    Identity,
    identify,
    identify_from_inside,
    is_disabled,
    is_of_slurm_alone,
    may_name_a_rank,
    named_job,
)
from .launchers import is_helper, is_launcher
from .processes import Processes, parse_environ


class CandidateReader:
    """Makes candidates of what the environment of a process says, and of what it reported itself."""

    def __init__(
        self, processes: Processes, environments: Environments, default_job: str, socket: Path | None
    ) -> None:
        """socket: where this agent listens; ranks that have got another agent's socket are left to that."""
        self._processes = processes
        self._environments = environments
        self._default_job = default_job
        self._socket = socket
        self._reported: dict[int, tuple[int, Mapping[str, str]]] = {}  # pid -> start, what it reported

    def note_report(self, pid: int, start_ticks: int, variables: Mapping[str, str]) -> None:
        """A process has reported which rank it is, in variables that its environment does not show."""
        self._reported[pid] = start_ticks, variables

    def forget(self, pid: int) -> None:
        """A process has gone."""
        self._reported.pop(pid, None)

    def read(self, pid: int, candidates: Mapping[int, Candidate]) -> Candidate | None:
        """The process as a candidate; None if it carries no identity. candidates: those known by now.

        Another user's process cannot be read and is simply not ours to profile.
        """
        try:
            return self._read(pid, candidates)
        except OSError:
            return None

    def _read(self, pid: int, candidates: Mapping[int, Candidate]) -> Candidate | None:
        data = self._environments.read(pid)
        start, variables = self._reported.get(pid, (0, {}))
        if not variables and not may_name_a_rank(data):
            return None
        environ = parse_environ(data)
        status = self._processes.status(pid)
        if is_disabled(environ) or status is None or self._is_of_other_agent(environ):
            return None
        identity = outside = identify(environ, self._default_job)
        if variables and start == status.start_ticks:
            inherited = _is_inherited(outside, status.parent, candidates)
            identity = identify_from_inside(environ, variables, self._default_job, inherited)
        if identity is None:
            return None
        reported = identity != outside
        arguments, uid = self._processes.arguments(pid), self._processes.owner(pid)
        self._environments.keep(pid, status.start_ticks, uid, data, status.parent)
        return Candidate(
            pid=pid,
            parent=status.parent,
            start_ticks=status.start_ticks,
            uid=uid,
            launcher=not reported and is_launcher(arguments),
            identity=identity,
            outside=outside,
            reported=reported,
            named=bool(named_job(environ, self._default_job)),
            helper=not reported and is_helper(arguments),
            by_hand=status.terminal and outside is not None and is_of_slurm_alone(outside, environ),
        )

    def _is_of_other_agent(self, environ: Mapping[str, str]) -> bool:
        """Whether a process has the socket of another agent on this machine. A path that is no socket here
        may belong to a container, whose processes may well be ours."""
        path = environ.get("ROOFLINE_SOCKET", "")
        if not path or self._socket is None or not os.path.isabs(path):
            return False
        return os.path.realpath(path) != os.path.realpath(self._socket) and Path(path).is_socket()


def _is_inherited(outside: Identity | None, parent: int, candidates: Mapping[int, Candidate]) -> bool:
    """Whether a process above, which is no launcher, has the same identity by its environment."""
    above = candidates.get(parent)
    while above is not None:
        if not above.launcher and above.outside == outside:
            return True
        above = candidates.get(above.parent)
    return False
