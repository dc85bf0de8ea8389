"""Finds which rank wrote a line of a log that several of them share."""

from __future__ import annotations

import re

SEVERAL = "several ranks wrote this log: the step lines of all but one are left out"
_RANK = re.compile(
    r"^\s*(?:\[\d+,(\d+)\]\s*<\w+>:?|\[(\d+)\]\s*<\w+>:?|\[(?:rank|default)(\d+)\]:|(\d{1,6}):\s)"
)  # mpirun, horovodrun, torchrun (default: the rank on its node), srun -l


def split_rank(line: str) -> tuple[str, str]:
    """The rank that a launcher has put before the line, "" where none did, and the line without it."""
    match = _RANK.match(line)
    if not match:
        return "", line
    return next(group for group in match.groups() if group is not None), line[match.end() :]
