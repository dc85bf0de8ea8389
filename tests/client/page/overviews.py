"""Step overviews, as a server sends them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roofline.answers.step_overview import LatenessRow, RecentSteps, StepLine, StepOverview
from roofline.convert import to_message
from roofline.v1 import query_pb2 as pb


def line(name: str, *seconds: float, ranks: int = 1) -> StepLine:
    """A line of these step times; of several ranks some are 10 ms shorter or longer."""
    less = [one - 0.01 * (ranks > 1) for one in seconds]
    more = [one + 0.01 * (ranks > 1) for one in seconds]
    return StepLine(name, name.partition(":")[0], ranks, less, list(seconds), more)


def late(name: str, *seconds: float, first: int = 0, last: int | None = None) -> LatenessRow:
    mean = sum(seconds) / len(seconds)
    last = first if last is None else last
    return LatenessRow(name, name.partition(":")[0], first, last, mean, name, list(seconds))


def overview(
    lines: Sequence[StepLine] = (), lateness: Sequence[LatenessRow] = (), wide: int = 1, **more: Any
) -> StepOverview:
    """wide: steps of a stretch."""
    count = len(lines[0].middle) if lines else len(lateness[0].late) if lateness else 0
    firsts = [wide * at for at in range(count)]
    whole: dict[str, Any] = {
        "job": "41",
        "mode": "synchronous",
        "ranks": 3,
        "firsts": firsts,
        "lasts": [first + wide - 1 for first in firsts],
        "left_out": [False] * count,
        "lines": list(lines),
        "lateness": list(lateness),
        "recent": [RecentSteps(0.0, max(0, count - 2), max(0, count - 1))] if count else [],
        "running": False,
        "notes": [],
        "newest_ns": 0,
    }
    return StepOverview(**{**whole, **more})


def message(found: StepOverview | None = None) -> Any:
    found = found or overview([line("worker:0", 0.1, 0.2, 0.1)], [late("worker:0", 0.0, 0.01, 0.0)])
    return to_message(pb.StepOverview(), found)
