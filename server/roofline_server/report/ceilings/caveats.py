"""Reasons to doubt the ceilings that a job is compared with, as the agents that measured them reported."""

from __future__ import annotations

from collections.abc import Iterable

from roofline.answers.roofline import Roof

from ...sentences.rooflines import may_be_too_low
from ...sentences.wording import place


def caveats(roofs: Iterable[Roof]) -> list[str]:
    """One for each host and reason, of the ceilings that make its roof."""
    found = []
    for roof in roofs:
        binding = {line.name for line in roof.lines if line.binding}
        names_of: dict[str, list[str]] = {}
        for c in roof.ceilings:
            if c.doubt and c.name in binding:
                names_of.setdefault(c.doubt, []).append(c.name)
        for caveat, names in names_of.items():
            found.append(may_be_too_low(place(roof.host, roof.device), names, caveat))
    return list(dict.fromkeys(found))
