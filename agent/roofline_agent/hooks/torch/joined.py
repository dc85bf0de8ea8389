"""PyTorch: collectives of one kind that follow each other closely become one span. Pure logic."""

from __future__ import annotations

from typing import Dict, List, Optional

from .phases import Span

JOIN_NS = 50000  # between the end of one and the begin of the next


class JoinedCollectives:
    """The span of each kind that may still grow."""

    def __init__(self) -> None:
        self.open: Dict[str, Span] = {}

    def add(self, name: str, begin: int, end: int, size: Optional[int], count: int) -> Optional[Span]:
        """There were `count` more of this kind; the span before, if these are not part of it."""
        last = self.open.get(name)
        if last is None or begin - last[2] >= JOIN_NS:
            self.open[name] = (name, begin, end, size, count)
            return last
        both = None if size is None or last[3] is None else size + last[3]
        self.open[name] = (name, last[1], max(end, last[2]), both, count + last[4])
        return None

    def forget_until(self, time_ns: int) -> None:
        """Those that ended until then are of no step."""
        self.open = {name: span for name, span in self.open.items() if span[2] > time_ns}

    def take(self) -> List[Span]:
        """All of them; they grow no more."""
        found, self.open = list(self.open.values()), {}
        return found
