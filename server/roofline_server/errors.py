"""Errors of the server.

ServerError
├── ConfigError     a setting is wrong                               exit 3
├── UnknownJob      nothing of the job is kept               exit 5, NOT_FOUND on the wire
│   ├── UnknownRank the job has no such rank                         NOT_FOUND
│   ├── UnknownSteps the job has no such steps                       NOT_FOUND
│   └── RemovedData  retention removed what is asked for              NOT_FOUND
├── UnknownHost     no agent has ever connected from this host       NOT_FOUND
├── BadRequest      a query that cannot be answered                  INVALID_ARGUMENT
├── BadBatch        an agent sent a malformed batch                  Rejection on the wire
└── Unavailable     port, directory or disk cannot be used           exit 6
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

MOST_NAMED = 5  # jobs
MOST_COMPARED, LONGEST = 1000, 256  # jobs, characters: of what is like the name that was asked for


class ServerError(Exception):
    """Base of all errors the server reports; the text says what, why and what next."""

    exit_code = 1


class ConfigError(ServerError):
    exit_code = 3


class UnknownJob(ServerError):
    exit_code = 5


def unknown_job(job: str, known: Sequence[str]) -> UnknownJob:
    """Names some of the jobs that there are, as an id is easily mistyped: what is like it, then the newest.

    known: the newest first."""
    if not known:
        return UnknownJob(f"this server has no job {job!r}; it has no jobs yet")
    alike = get_close_matches(job[:LONGEST], known[:MOST_COMPARED], MOST_NAMED)
    named = [*alike, *(one for one in known if one not in alike)][:MOST_NAMED]
    more = f" and {len(known) - len(named)} more" if len(known) > len(named) else ""
    return UnknownJob(f"this server has no job {job!r}; known are {', '.join(named)}{more}")


class UnknownRank(UnknownJob):
    pass


class UnknownSteps(UnknownJob):
    pass


class RemovedData(UnknownJob):
    pass


class UnknownHost(ServerError):
    pass


class BadRequest(ServerError):
    pass


class BadBatch(ServerError):
    pass


class Unavailable(ServerError):
    exit_code = 6


class SealingFailed(ServerError):
    """Nothing is lost: what was to be sealed is in the inbox."""
