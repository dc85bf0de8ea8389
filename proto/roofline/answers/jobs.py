"""Jobs as lines of a list."""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    job: str  # of a job that ran several times "42/1", "42/2"
    begin_ns: int
    end_ns: int
    ranks: int  # of all roles
    roles: dict[str, int]  # ranks of each role
    hosts: list[str]
    running: bool
    tags: dict[str, str]
    state: str = ""  # "running", "finished (exit 0)", "failed: worker:1 exited with 3 after step 20"
    removed: str = ""  # what retention removed: "raw data"; "raw data, steps"; "all data"
    users: list[str] = []  # noqa: RUF012 - never written to; who submitted it
