"""A batch that waits until the server has acknowledged it."""

from __future__ import annotations

from typing import NamedTuple

MAX_SEQUENCE = 2**31  # so many batches no agent makes; a server that says more is wrong


class Pending(NamedTuple):
    sequence: int
    data: bytes
