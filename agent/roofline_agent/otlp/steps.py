"""Which spans of a process are steps and which are phases, as packets of the socket of marks. No I/O.

Attributes are NVIDIA's for training (NeMo Lens, as Megatron-LM sets them). A span with `nv.dl.training.step`
is a step if it is Megatron's iteration, or has no parent; spans right below it are its phases. What lies
deeper, and what is outside of steps, is left out: phases of one rank do not overlap.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from roofline.limits import MAX_TIME_NS
from roofline_step.packets import MAX_SPANS, Span, pack_mark, pack_spans

from ..records import MarkKind
from ..uplink.bounds import MAX_COUNT, is_time
from .attributes import BATCH, ITERATION, NO_STEPS, OF_OTHERS, PARTS, RANK, ROLE, RUN, WORLD

AS_HERE = {"optimizer_step": "optimizer"}  # names of phases that have another one here
MOST_HELD = 4096  # spans of a process whose parent has not ended yet
MOST_KNOWN = 256  # steps of a process that cannot come again
MAX_NAME = 56  # characters of a phase


class OtlpSpan(NamedTuple):
    """Times are those of this node's monotonic clock, ns."""

    name: str
    begin_ns: int
    end_ns: int
    id: bytes
    parent: bytes  # b"": none
    step: int | None


def can_be(span: OtlpSpan) -> bool:
    """Whether a packet can hold it; whoever sends spans may write any number."""
    return is_time(span.begin_ns, span.end_ns) and (span.step is None or 0 <= span.step < MAX_TIME_NS)


class Sender(NamedTuple):
    """What a process says of itself with its spans; None: not."""

    rank: int | None
    world: int | None
    run: str  # "": not
    examples: int | None  # of a step of this rank
    is_rank: bool  # not one of the processes next to a rank

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> Sender:
        """about: attributes of the resource, texts and whole numbers."""
        rank, world, batch, parts = (_count(about.get(name)) for name in (RANK, WORLD, BATCH, PARTS))
        examples = batch // parts if batch and parts and batch % parts == 0 else None
        run = about.get(RUN)
        return cls(
            rank, world, run if isinstance(run, str) else "", examples, about.get(ROLE) not in OF_OTHERS
        )


def _count(value: Any) -> int | None:
    """A number that a rank, a count of ranks or of examples can be."""
    return (
        value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT else None
    )


class SpanSteps:
    """The steps of one process, as its spans end: a child before its parent."""

    def __init__(self) -> None:
        self._held: OrderedDict[bytes, list[OtlpSpan]] = OrderedDict()  # by parent
        self._count = 0
        self._known: OrderedDict[int, None] = OrderedDict()
        self.left_out = 0  # spans below others that are no steps

    def packets(self, spans: Sequence[OtlpSpan], examples: int | None) -> list[bytes]:
        """Marks and phases of the steps that have ended."""
        for span in spans:
            if span.parent and span.name != ITERATION:
                self._hold(span)
        found: list[bytes] = []
        steps = self._steps(spans)
        for span in spans:
            if span not in steps:  # its children are no phases
                self._drop(self._held.pop(span.id, []))
        for step in steps:
            number = step.step
            assert number is not None
            self._known[number] = None
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
            parts = self._held.pop(step.id, [])
            self._count -= len(parts)
            found.append(
                pack_mark(MarkKind.BEGIN, number, None, step.begin_ns)
                + pack_mark(MarkKind.END, number, examples, step.end_ns)
            )
            phases = [phase for part in parts if (phase := _phase(part)) is not None][:MAX_SPANS]
            if phases:
                found.append(pack_spans(phases))
        return found

    def _hold(self, span: OtlpSpan) -> None:
        self._held.setdefault(span.parent, []).append(span)
        self._count += 1
        while self._count > MOST_HELD:
            self._drop(self._held.popitem(last=False)[1])

    def _drop(self, spans: Sequence[OtlpSpan]) -> None:
        self._count -= len(spans)
        self.left_out += len(spans)

    def _steps(self, spans: Iterable[OtlpSpan]) -> list[OtlpSpan]:
        """One span a number, in order of time: Megatron's iteration before the block around it."""
        best: dict[int, OtlpSpan] = {}
        for span in spans:
            number = span.step
            if number is None or number in self._known or not _may_be_step(span):
                continue
            if number not in best or _order(span) < _order(best[number]):
                best[number] = span
        return sorted(best.values(), key=lambda one: one.begin_ns)


def _may_be_step(span: OtlpSpan) -> bool:
    return span.name == ITERATION or (not span.parent and not span.name.startswith(NO_STEPS))


def _order(span: OtlpSpan) -> tuple[bool, int]:
    return span.name != ITERATION, span.begin_ns - span.end_ns


def _phase(span: OtlpSpan) -> Span | None:
    """As hooks send it; None for a name without a letter."""
    name = re.sub("[^a-z0-9_-]+", "_", span.name.lower().rpartition(".")[2]).strip("_-")[:MAX_NAME]
    return (f"phase.{AS_HERE.get(name, name)}", span.begin_ns, span.end_ns, None, 1) if name else None
