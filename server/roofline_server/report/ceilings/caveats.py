"""What speaks against the ceilings that a job is held against, as the agents that measured them said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from roofline.answers.machines import Ceiling
from roofline.answers.roofline import Roof

from ...model.wording import listed


def notes(roofs: Iterable[Roof]) -> list[str]:
    """One for each host and reason, of the ceilings that make its roof."""
    found = []
    for roof in roofs:
        names = {line.name for line in roof.lines if line.binding}
        found += doubts(f"{roof.host} {roof.device}".rstrip(), [c for c in roof.ceilings if c.name in names])
    return list(dict.fromkeys(found))


def doubts(where: str, ceilings: Sequence[Ceiling]) -> list[str]:
    """One for each reason."""
    whose: dict[str, list[str]] = {}
    for c in ceilings:
        if c.doubt:
            whose.setdefault(c.doubt, []).append(c.name)
    return [
        f"{where}: {listed(names)} may be too low ({doubt}), and what is held against it too near its roof; "
        "calibrate again while the node is idle"
        for doubt, names in whose.items()
    ]
