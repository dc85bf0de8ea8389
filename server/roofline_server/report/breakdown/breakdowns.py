"""What the work, the traffic and the time of ranks are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from roofline.answers.breakdown import Breakdown, BreakdownPart
from roofline.answers.values import Provenance, Scope, value

from ...correlate.kernel_totals import KernelTotal
from ...errors import BadRequest
from ...model import compose, flop_parts, traffic_parts
from ...model.compose import Part
from ...model.evidence import RankEvidence, reason_of
from ...model.flop_parts import Executed
from ...model.wording import many, quantity
from ...store.store import Store
from ...store.view import JobView
from ..about import about
from ..ceilings.nodes import ceilings, late_notes
from ..evidence.ranks import NEEDED as OF_REPORT
from ..evidence.subjects import evidence
from ..questions import Subject
from ..ranks.members import host_of
from ..time_roofline.works import name_of, per
from .kernel_totals import Kernels, kernel_totals

NEEDED = OF_REPORT

BY = ("role", "rank")
USED = ("compute",)  # kinds of ceilings: how wide vectors can be
MOST_KERNELS = 20  # kinds that are named


class _Of(NamedTuple):
    """A role or a rank, and what kernels it executed."""

    name: str
    role: str
    scope: Scope
    ranks: dict[int, RankEvidence]
    totals: list[KernelTotal]
    steps: list[int]  # of each rank that executed kernels, where it has steps

    @property
    def divisor(self) -> int:
        """Of sums over ranks and steps: steps of all ranks together, a rank without steps counting as one."""
        computing = len({total.rank for total in self.totals})
        return sum(self.steps) + computing - len(self.steps) or 1


class _Kind(NamedTuple):
    """Kernels of one name, a step of one rank. flops None: of some nobody can tell."""

    name: str
    seconds: float
    launches: float
    flops: float | None
    on_gpu: bool


def breakdown(store: Store, view: JobView, subject: Subject, by: str) -> Breakdown:
    """The answer to GetBreakdown. Raises BadRequest for a range or `by` that cannot be, UnknownRank.

    Numbers are means over the steps of a rank, or of a role's ranks; where there are no steps they are of the
    whole run of one rank.
    """
    if (by or BY[0]) not in BY:
        raise BadRequest(f"by {by!r}: ask for {' or '.join(BY)}")
    known = evidence(view, subject)
    totals = kernel_totals(store, view, subject.steps, known)
    parts = [
        part
        for one in _subjects(known, by or BY[0], totals)
        for kind, parts in _kinds(view, one)
        for part in _named(kind, one, parts)
    ]
    notes = late_notes(view, USED)
    if totals.outside:
        notes.append(f"{totals.outside:,} kernels lie in no step, or in one that was not watched in full")
    if not any(len(rank.steps.step) for rank in known.values()):
        notes.append("no rank has steps: numbers are of whole runs")
    return Breakdown(about([view]), parts, notes)


def _subjects(known: Mapping[int, RankEvidence], by: str, kernels: Kernels) -> list[_Of]:
    named: dict[str, dict[int, RankEvidence]] = {}
    for number, rank in known.items():
        named.setdefault(rank.key if by == "rank" else rank.role, {})[number] = rank
    executed: dict[int, list[KernelTotal]] = {}
    for total in kernels.totals:
        executed.setdefault(total.rank, []).append(total)
    scope = Scope.PROCESS if by == "rank" else Scope.ROLE
    found = []
    for name, ranks in named.items():
        totals = [total for number in ranks for total in executed.get(number, ())]
        steps = [kernels.steps[n] for n in ranks if n in executed and n in kernels.steps]
        found.append(_Of(name, next(iter(ranks.values())).role, scope, ranks, totals, steps))
    return found


def _named(kind: str, one: _Of, parts: Sequence[Part]) -> list[BreakdownPart]:
    return [BreakdownPart(kind, one.name, one.role, *part) for part in parts]


def _kinds(view: JobView, one: _Of) -> list[tuple[str, list[Part]]]:
    ranks = list(one.ranks.values())
    widest = _widest(view, one.ranks)
    return [
        ("time", compose.time(ranks, one.scope)),
        ("flops_by_precision", flop_parts.by_precision(ranks, one.scope)),
        ("flops_by_width", flop_parts.by_width(ranks, one.scope, _executed(one), widest)),
        ("work_and_memory", traffic_parts.work_and_memory(ranks, one.scope)),
        ("traffic_by_level", traffic_parts.traffic(ranks, one.scope)),
        ("kernels_by_time", _by_time(one)),
    ]


def _widest(view: JobView, ranks: Mapping[int, RankEvidence]) -> dict[str, int]:
    """Precision -> bits of the widest vectors of all hosts of these ranks, by their ceilings."""
    found: dict[str, int] = {}
    for at, host in enumerate(dict.fromkeys(host_of(view, number) for number in ranks)):
        widths: dict[str, int] = {}
        for c in ceilings(view, host):
            if c.kind == "compute" and not c.device and ".amx" not in c.name:
                widths[c.precision] = max(c.width, widths.get(c.precision, 0))
        # What all of them have.
        found = widths if not at else {p: min(w, found[p]) for p, w in widths.items() if p in found}
    return found


# -- kernels ------------------------------------------------------------------------------------------------


def _executed(one: _Of) -> list[Executed]:
    """FLOPs of the kernels on CPUs, a step of one rank."""
    mine = [t for t in one.totals if t.flops and not t.on_gpu]
    return [Executed(t.kind.implementation, t.kind.precision, (t.flops or 0.0) / one.divisor) for t in mine]


def _by_time(one: _Of) -> list[Part]:
    """Kernels by their names without shapes, those that took most time first, the rest together."""
    kinds = sorted(_by_name(one), key=lambda kind: -kind.seconds)
    if not kinds:
        missing = reason_of(list(one.ranks.values()), "flops", "no kernels were recorded")
        return [compose.absent("all", "s", missing)]
    note = per(len({total.rank for total in one.totals}), one.steps)
    shown, rest = kinds[:MOST_KERNELS], kinds[MOST_KERNELS:]
    seconds = {kind.name: kind.seconds for kind in shown}
    words = {kind.name: _words(kind) for kind in shown}
    if rest:
        name = f"{len(rest)} other kinds"
        seconds[name] = sum(kind.seconds for kind in rest)
        words[name] = many(sum(kind.launches for kind in rest), "launch")
    values = {
        name: value(taken, "s", Provenance.MEASURED, one.scope, reason=note)
        for name, taken in seconds.items()
    }
    return compose.parted(values, words)


def _by_name(one: _Of) -> list[_Kind]:
    divisor = one.divisor
    found: dict[tuple[str, bool], _Kind] = {}
    for t in one.totals:
        key = name_of(t.kind), t.on_gpu
        so_far = found.get(key, _Kind(key[0], 0.0, 0.0, 0.0, t.on_gpu))
        flops = None if so_far.flops is None or t.flops is None else so_far.flops + t.flops / divisor
        seconds, launches = so_far.seconds + t.time_ns / 1e9 / divisor, so_far.launches + t.calls / divisor
        found[key] = _Kind(key[0], seconds, launches, flops, t.on_gpu)
    twice = {name for name, on_gpu in found if (name, not on_gpu) in found}
    return [k._replace(name=f"{k.name} (GPU)") if k.on_gpu and k.name in twice else k for k in found.values()]


def _words(kind: _Kind) -> str:
    launches = many(kind.launches, "launch")
    if kind.flops is None:
        return f"{launches}; its FLOPs are not known"
    if not kind.flops:
        return f"{launches}; it only moves data: no FLOPs"
    return f"{launches} at {quantity(kind.flops / kind.seconds, 'FLOP/s')}" if kind.seconds > 0 else launches
