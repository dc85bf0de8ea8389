"""Errors of the client.

ClientError
├── Unreachable     no server answers at the address           exit 4
├── NotFound        the server has no such job, rank, role     exit 5
│   └── NothingToDraw  a picture would be empty                exit 5
└── Refused         the server will not or cannot answer       exit 3
    └── UsageError  nobody could: it says nothing that is      exit 2
"""

from __future__ import annotations


class ClientError(Exception):
    """Base of all errors; the text says what, why and what next."""

    exit_code = 1


class Unreachable(ClientError):
    exit_code = 4


class NotFound(ClientError):
    exit_code = 5


class NothingToDraw(NotFound):
    """A picture of it would be empty; the text says what is missing."""


class Refused(ClientError):
    exit_code = 3


class UsageError(Refused):
    exit_code = 2
