"""Reads OTLP in JSON, one message a line, as the file exporter of OpenTelemetry's collector writes it: spans
of a training as steps, all others as phases. Metrics and logs are not read.

Attributes are NVIDIA's for training (NeMo Lens, as Megatron-LM sets them): the resource says which rank it is
(`nv.dl.rank`, `nv.dl.role`), a span which step (`nv.dl.training.step`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...otlp.attributes import (
    BATCH,
    BLOCK,
    ITERATION,
    NO_STEPS,
    OF_OTHERS,
    PARTS,
    RANK,
    ROLE,
    RUN,
    STEP,
    WORLD,
)
from ..collector import Collector
from ..recording import StepLine, Throughput
from ..text import Text

MAX_DOCUMENT = 64 << 20  # characters of a line: the collector puts thousands of spans into one
MAX_RANKS = 4096
MAX_STEPS = 2_000_000  # of all ranks
TRAINER = "trainer"  # what Megatron's ranks call their role: no role of ours
# Where several spans have the number of one step, the step is that which comes first here, else the longest.
STEPS = (ITERATION, BLOCK)


class RecordedSpan(NamedTuple):
    """Times are UNIX time, ns."""

    name: str
    begin_ns: int
    end_ns: int

    @property
    def time_s(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9

    def is_rather_a_step_than(self, other: RecordedSpan) -> bool:
        ours, theirs = _order(self.name), _order(other.name)
        return ours < theirs or (ours == theirs and self.time_s > other.time_s)


def _order(name: str) -> int:
    return STEPS.index(name) if name in STEPS else len(STEPS)


def sniff(head: str) -> int:
    return 95 if head.lstrip().startswith('{"resourceSpans"') else 0


def read(text: Text, found: Collector) -> None:
    ranks = _Ranks(found)
    for line, document in _documents(text, found):
        try:
            for resource in json.loads(document).get("resourceSpans", ()):
                ranks.take(resource, line)
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError):
            found.warn("no whole message of OTLP in JSON: not read", line)
    ranks.finish()


def _documents(text: Text, found: Collector) -> Iterator[tuple[int, str]]:
    """Lines, with their numbers; `Text.lines` would cut long ones."""
    line, pieces, size = 1, [""], 0
    for chunk in text.chunks():
        first, *others = chunk.split("\n")
        pieces.append(first)
        size += len(first)
        for other in others:
            if size <= MAX_DOCUMENT and (whole := "".join(pieces).strip()):
                yield line, whole
            line, pieces, size = line + 1, [other], len(other)
        if size > MAX_DOCUMENT:
            pieces = []
            found.warn(f"longer than {MAX_DOCUMENT >> 20} MB: not read", line)
    if size <= MAX_DOCUMENT and (whole := "".join(pieces).strip()):
        yield line, whole


class _Rank:
    """What belongs to one rank."""

    def __init__(self, role: str, number: int, about: dict[str, Any]) -> None:
        self.role, self.number, self.about = role, number, about
        self.steps: dict[int, RecordedSpan] = {}
        self.begin_ns, self.end_ns = 1 << 63, 0
        self.found = Collector()

    def take(self, span: RecordedSpan, step: int | None) -> None:
        self.begin_ns, self.end_ns = min(self.begin_ns, span.begin_ns), max(self.end_ns, span.end_ns)
        if step is None or span.name.startswith(NO_STEPS):
            self.found.phase(span.name, span.time_s)
            return
        before = self.steps.get(step)
        if before is None or span.is_rather_a_step_than(before):
            self.steps[step], span = span, before or span
        if before is not None:
            self.found.phase(span.name, span.time_s)

    def finish(self) -> None:
        found = self.found
        found.tool, found.started_ns = "otlp", self.begin_ns
        found.duration_s = (self.end_ns - self.begin_ns) / 1e9
        found.facts |= {"rank": self.number, **({"role": self.role} if self.role else {})}
        facts = {"world_size": WORLD, "run": RUN, "host": "host.name"}
        found.facts |= {name: self.about[key] for name, key in facts.items() if key in self.about}
        for number, span in sorted(self.steps.items(), key=lambda one: one[1].begin_ns):
            begin_s = (span.begin_ns - self.begin_ns) / 1e9
            found.steps.append(StepLine(number, None, begin_s, None, span.time_s))
        if self.steps:
            found.throughput = Throughput("examples", None, None, len(self.steps), self._batch(), "this rank")

    def _batch(self) -> int | None:
        """Examples of a step of one data-parallel rank; None where the resource does not say it."""
        batch = self.about.get(BATCH)
        parts = self.about.get(PARTS)
        if isinstance(batch, int) and isinstance(parts, int) and parts > 0 and batch % parts == 0:
            return batch // parts
        return None


class _Ranks:
    """The first rank's collector is that of the file, those of the others are its parts."""

    def __init__(self, found: Collector) -> None:
        self._found = found
        self._ranks: dict[tuple[str, int], _Rank] = {}
        self._steps = 0

    def take(self, message: Any, line: int) -> None:
        """One of the `resourceSpans`."""
        about = _attributes(message.get("resource", {}))
        for scope in message.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                self._take_span(span, about, line)

    def _take_span(self, one: Any, about: dict[str, Any], line: int) -> None:
        own = _attributes(one)
        role, number = about.get(ROLE), own.get(RANK, about.get(RANK))
        if role in OF_OTHERS:
            return
        if not isinstance(number, int) or number < 0:
            self._found.warn(f"spans without {RANK} are of no rank: left out", line)
            return
        begin_ns, end_ns = int(one["startTimeUnixNano"]), int(one["endTimeUnixNano"])
        if not 0 < begin_ns <= end_ns:
            self._found.warn("spans that end before they begin, or never: left out", line)
            return
        named = role if isinstance(role, str) and role != TRAINER else ""
        rank = self._ranks.get((named, number))
        if rank is None:
            if len(self._ranks) >= MAX_RANKS:
                self._found.warn(f"more than {MAX_RANKS} ranks: the others are left out", line)
                return
            rank = self._ranks[named, number] = _Rank(named, number, about)
        step = own.get(STEP)
        if not isinstance(step, int) or self._steps >= MAX_STEPS:
            step = None
        before = len(rank.steps)
        rank.take(RecordedSpan(str(one.get("name", "")), begin_ns, end_ns), step)
        self._steps += len(rank.steps) - before

    def finish(self) -> None:
        for rank in self._ranks.values():
            rank.finish()
        self._found.take_over([rank.found for rank in self._ranks.values()])
        if self._steps >= MAX_STEPS:
            self._found.warn(f"more than {MAX_STEPS} steps: the others are phases")


def _attributes(of: Any) -> dict[str, Any]:
    """Texts, whole numbers and truth values by name; numbers of 64 bits are texts in JSON."""
    found: dict[str, Any] = {}
    for one in of.get("attributes", ()):
        value = one["value"]
        if "intValue" in value:
            found[one["key"]] = int(value["intValue"])
        elif "stringValue" in value:
            found[one["key"]] = str(value["stringValue"])
    return found
