"""The numbers that our recorded files must give: the tables of answers in tests/data/recorded/*/README.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.recording import Counter

from tests.recordings import OURS

_COUNTER = re.compile(r"(?P<name>.+?)(?: at (?P<scope>.+))?")


class Answer(NamedTuple):
    """One row of a table; value as it is there, "none" where the file does not say."""

    path: Path
    quantity: str
    value: str

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}-{self.quantity}"

    def is_given_by(self, found: float | str | None) -> bool:
        if isinstance(found, (int, float)):
            return self.value != "none" and found == pytest.approx(float(self.value), rel=1e-9)
        return self.value == ("none" if found is None else found)


def answers() -> list[Answer]:
    """Every row of four cells that names a file."""
    rows = []
    for readme in sorted(OURS.glob("*/README.md")):
        for line in readme.read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("| ") and len(cells) == 4 and cells[0] != "file":
                rows.append(Answer(readme.parent / cells[0], cells[1], cells[2]))
    return rows


def quantity(found: Collector, asked: str) -> float | str | None:
    """What a file gives for a quantity of the tables. Raises LookupError for one that it does not have."""
    kind, _, rest = asked.partition(" ")
    name, _, field = rest.rpartition(": ")
    if kind in ("kernel", "run:", "run"):
        kernel = found.run if kind != "kernel" else _named(found.kernels, name)
        return _of_kernel(kernel, field or rest) if rest else kernel
    if kind == "counter":
        return getattr(_counters(found, name)[0], field)
    if kind == "sum":
        return sum(one.value for one in _counters(found, rest) if one.value is not None)
    if kind == "ceiling":
        return _named(found.ceilings, rest).value
    if kind == "phase":
        return getattr(_named(found.phases, name), field)
    if kind == "step":
        return getattr(next(one for one in found.steps if one.step == int(name)), field)
    if kind == "throughput:":
        return getattr(found.throughput, rest)
    if kind == "fact":
        return found.facts.get(rest)
    if asked == "missing":
        return sum(one.value is None for one in found.counters)
    if asked == "last t_s":
        return list(found.counters)[-1].t_s
    value = getattr(found, asked)  # of the whole file, or how many of them
    return value if value is None or isinstance(value, (int, float, str)) else len(value)


def _named(records: list[Any], name: str) -> Any:
    return next(one for one in records if one.name == name)


def _of_kernel(kernel: Any, field: str) -> float | str | None:
    return getattr(kernel, field) if hasattr(kernel, field) else kernel.bytes.get(field)


def _counters(found: Collector, wanted: str) -> list[Counter]:
    match = _COUNTER.fullmatch(wanted)
    assert match
    named = [one for one in found.counters if match["name"] in (one.metric, one.event)]
    return [one for one in named if match["scope"] in (None, one.scope)]


ANSWERS = answers()
NOTHING = {one.path for one in ANSWERS if (one.quantity, one.value) == ("format", "none")}
