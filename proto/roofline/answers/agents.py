"""Agents as the server sees them. Counts are of a stream, which began when its agent connected."""

from __future__ import annotations

from typing import NamedTuple

from .machines import SourceStatus
from .values import Value


class Agent(NamedTuple):
    host: str
    connected: bool
    version: str  # "": not connected
    lag: Value  # from the end of its newest batch until now, s
    clock_error: Value  # bound on its clock's error against the server's now, s
    interval: Value  # between two samples, s
    batches: int  # that came
    lost: int  # things that it reported as dropped
    refused: int  # batches that the server refused
    behind: bool  # it still sends what it kept while it was cut off
    busy_with: str  # a benchmark; "": nothing
    sources: list[SourceStatus]  # that do not work, with the reason
