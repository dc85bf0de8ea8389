"""Errors of the server.

ServerError
├── ConfigError     a setting is wrong                               exit 3
├── UnknownJob      nobody has heard of the job                      NOT_FOUND on the wire
│   └── UnknownRank the job has no such rank                         NOT_FOUND
├── UnknownHost     no agent has ever said it is this host           NOT_FOUND
├── BadRequest      a question that cannot be asked                  INVALID_ARGUMENT
├── BadBatch        an agent sent what cannot be taken               Rejection on the wire
└── Unavailable     port, directory or disk cannot be had            exit 6
"""

from __future__ import annotations


class ServerError(Exception):
    """Base of all errors the server reports; the text says what, why and what next."""

    exit_code = 1


class ConfigError(ServerError):
    exit_code = 3


class UnknownJob(ServerError):
    pass


class UnknownRank(UnknownJob):
    pass


class UnknownHost(ServerError):
    pass


class BadRequest(ServerError):
    pass


class BadBatch(ServerError):
    pass


class Unavailable(ServerError):
    exit_code = 6
