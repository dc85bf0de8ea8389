"""What the job of a wrapped command is called, as far as it is known before the command runs."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Mapping, Sequence

from roofline.texts import printable

from ..ranks.identity import LOCAL_JOB, distinguished, identify, named_job
from ..ranks.launchers import starts_all
from ..ranks.names import job_of, user_of
from ..ranks.processes import Processes
from .rank_environment import Naming

NOT_TRAINING = ("ps", "evaluator")


def with_local_job(environ: Mapping[str, str], naming: Naming) -> dict[str, str]:
    """Variables with the name that the job has if nothing else names it."""
    by_hand = naming.role is not None or naming.rank is not None
    by_hand = by_hand or "ROOFLINE_ROLE" in environ or "ROOFLINE_RANK" in environ
    return {**environ, LOCAL_JOB: job_of(Processes(), os.getpid(), of_session=by_hand)}


def announcement(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """What the user is told by the first of the ranks that train: which job this is, and how to ask for it.

    environ: of the command. "": this is another rank, or the command starts the ranks and may name the job.
    """
    identity = identify(environ)
    if identity is None or (starts_all(map(os.fsencode, command)) and not environ.get("ROOFLINE_JOB")):
        return ""
    if identity.index or identity.role in NOT_TRAINING:
        return ""
    job = identity.job
    if not named_job(environ):
        job = distinguished(job, socket.gethostname(), user_of(Processes(), os.getpid()))
    # As it is read from the process, and sent.
    job = printable(os.fsencode(job).decode(errors="replace"))
    return f"roofline-agent: recorded as job {job}; see `roofline-client report --job {shlex.quote(job)}`"
