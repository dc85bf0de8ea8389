"""Errors of the server.

ServerError
├── ConfigError     a setting is wrong                               exit 3
├── UnknownJob      nothing of the job is kept                        NOT_FOUND on the wire
│   ├── UnknownRank the job has no such rank                         NOT_FOUND
│   ├── UnknownSteps the job has no such steps                       NOT_FOUND
│   └── RemovedData  retention removed what is asked for              NOT_FOUND
├── UnknownHost     no agent has ever connected from this host       NOT_FOUND
├── BadRequest      a query that cannot be answered                  INVALID_ARGUMENT
├── BadBatch        an agent sent a malformed batch                  Rejection on the wire
└── Unavailable     port, directory or disk cannot be used           exit 6
"""

from __future__ import annotations

from collections.abc import Collection

MOST_NAMED = 5  # jobs


class ServerError(Exception):
    """Base of all errors the server reports; the text says what, why and what next."""

    exit_code = 1


class ConfigError(ServerError):
    exit_code = 3


class UnknownJob(ServerError):
    pass


def unknown_job(job: str, known: Collection[str]) -> UnknownJob:
    """Names some of the jobs that there are: an id is easily mistyped."""
    some = ", ".join(sorted(known, reverse=True)[:MOST_NAMED])
    return UnknownJob(
        f"this server has no job {job!r}; {f'known are {some}' if some else 'it has no jobs yet'}"
    )


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
