"""Errors of the server.

ServerError
├── ConfigError     a setting is wrong                               exit 3
├── UnknownJob      nobody has heard of the job                      NOT_FOUND on the wire
│   ├── UnknownRank the job has no such rank                         NOT_FOUND
│   └── UnknownSteps the job has no such steps                       NOT_FOUND
├── UnknownHost     no agent has ever said it is this host           NOT_FOUND
├── BadRequest      a question that cannot be asked                  INVALID_ARGUMENT
├── BadBatch        an agent sent what cannot be taken               Rejection on the wire
└── Unavailable     port, directory or disk cannot be had            exit 6
"""

from __future__ import annotations

from collections.abc import Collection

KNOWN_SHOWN = 5  # of jobs that are named


class ServerError(Exception):
    """Base of all errors the server reports; the text says what, why and what next."""

    exit_code = 1


class ConfigError(ServerError):
    exit_code = 3


class UnknownJob(ServerError):
    pass


def unknown_job(job: str, known: Collection[str]) -> UnknownJob:
    """Names some of the jobs that there are: an id is easily mistyped."""
    some = ", ".join(sorted(known, reverse=True)[:KNOWN_SHOWN])
    return UnknownJob(
        f"this server has no job {job!r}; {f'known are {some}' if some else 'it has no jobs yet'}"
    )


class UnknownRank(UnknownJob):
    pass


class UnknownSteps(UnknownJob):
    pass


class UnknownHost(ServerError):
    pass


class BadRequest(ServerError):
    pass


class BadBatch(ServerError):
    pass


class Unavailable(ServerError):
    exit_code = 6
