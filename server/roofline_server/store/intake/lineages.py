"""Which batches the inbox has kept, by the lineages of each agent. No I/O."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from enum import Enum

from .entries import Entry
from .sequences import Checksums, Numbers

MAX_LINEAGES = 64  # of an agent that are remembered; each of its processes begins one


class Known(Enum):
    """What the inbox says of a batch that comes."""

    NEW = "no batch with its number was kept"
    KEPT = "it was kept"
    TAKEN = "another batch with its number was kept"


class Lineages:
    """What was kept of each lineage."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[str, Numbers]] = {}  # agent -> lineage, the one used last at the end
        self._checksums: dict[tuple[str, str], Checksums] = {}

    def of(self, agent: str, lineage: str) -> Numbers:
        return self._numbers.get(agent, {}).get(lineage) or Numbers()

    def known(self, entry: Entry) -> Known:
        """Whether this very batch was kept, as far as is known."""
        numbers = self.of(entry.agent, entry.lineage)
        if not numbers.has(entry.sequence):
            return Known.NEW
        checksums = self._checksums.get((entry.agent, entry.lineage))
        crc = checksums.of(entry.sequence) if checksums else None
        if crc is not None:
            return Known.KEPT if crc == zlib.crc32(entry.data) else Known.TAKEN
        # A lineage has one writer, so its number stands for the batch. Without one an agent sends nothing
        # again that it was told the server has: whoever does starts counting again.
        sure = entry.lineage and entry.sequence > numbers.forgotten
        return Known.KEPT if sure else Known.TAKEN

    def unused(self, after: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The lineages that have no room any more once these are used: those used longest ago."""
        new: dict[str, set[str]] = {}
        for agent, lineage in after:
            new.setdefault(agent, set()).add(lineage)
        found = []
        for agent, lineages in new.items():
            others = [one for one in self._numbers.get(agent, {}) if one and one not in lineages]
            over = len(others) + len(lineages - {""}) - MAX_LINEAGES
            found += [(agent, one) for one in others[: max(0, over)]]
        return found

    def use(self, agent: str, lineage: str, numbers: Numbers) -> None:
        """These numbers of a lineage were kept by now."""
        lineages = self._numbers.setdefault(agent, {})
        lineages.pop(lineage, None)
        lineages[lineage] = numbers

    def remember(self, agent: str, lineage: str, sequence: int, data: bytes) -> None:
        """This batch has this number."""
        checksums = self._checksums.get((agent, lineage))
        if checksums is None:
            checksums = self._checksums[agent, lineage] = Checksums()
        checksums.add(sequence, zlib.crc32(data))

    def forget(self, agent: str, lineage: str) -> None:
        self._numbers[agent].pop(lineage, None)
        self._checksums.pop((agent, lineage), None)
