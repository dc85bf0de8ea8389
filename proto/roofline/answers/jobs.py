"""Jobs as lines of a list."""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    job: str
    begin_ns: int
    end_ns: int
    ranks: int  # of all roles
    roles: dict[str, int]  # ranks of each role
    hosts: list[str]
    running: bool
    tags: dict[str, str]
