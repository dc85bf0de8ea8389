"""Cutting a stretch of time into equal parts, and phases at their borders. Pure."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

Phase = Tuple[str, int, int, Optional[int], int]  # name, begin and end (monotonic ns), bytes, count


def borders(begin_ns: int, end_ns: int, count: int) -> List[int]:
    """The count + 1 borders of equal parts."""
    return [begin_ns + (end_ns - begin_ns) * at // count for at in range(count + 1)]


def share(total: Optional[int], count: int, at: int) -> Optional[int]:
    """What the at-th of `count` parts has of a total of whole things; the shares add up to it."""
    return None if total is None else total * (at + 1) // count - total * at // count


def cut(phases: Sequence[Phase], at: Sequence[int]) -> List[List[Phase]]:
    """The pieces of phases (ordered by time) in each part between two borders."""
    pieces: List[List[Phase]] = [[] for _ in at[1:]]
    part = 0
    for name, begin, end, size, count in phases:
        while part < len(pieces) - 1 and at[part + 1] <= begin:
            part += 1
        last = part
        while last < len(pieces) - 1 and at[last + 1] < end:
            pieces[last].append((name, max(begin, at[last]), at[last + 1], None, 1))
            last += 1
        whole = last == part
        pieces[last].append((name, max(begin, at[last]), end, size if whole else None, count if whole else 1))
    return pieces


def uncovered(begin_ns: int, end_ns: int, stretches: Sequence[Tuple[str, int, int]]) -> List[Tuple[int, int]]:
    """What of begin_ns to end_ns lies in none of the stretches (name, begin, end), ordered by time."""
    found = []
    for _, begin, end in stretches:
        if begin > begin_ns:
            found.append((begin_ns, min(begin, end_ns)))
        begin_ns = max(begin_ns, end)
    if end_ns > begin_ns:
        found.append((begin_ns, end_ns))
    return found
