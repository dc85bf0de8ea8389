"""What the work, the traffic and the time of ranks are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from roofline.answers.breakdown import Breakdown, BreakdownPart
from roofline.answers.values import Provenance, Scope, value

from ...correlate.kernel_totals import KernelTotal
from ...errors import BadRequest
from ...model.evidence import RankEvidence, reason_of
from ...model.roofline import compose, flop_parts, traffic_parts
from ...model.roofline.compose import Part
from ...model.roofline.flop_parts import Executed
from ...sentences import breakdowns as texts
from ...sentences import layers as layer_texts
from ...sentences.reasons import NO_KERNELS
from ...store.store import Store
from ...store.view import JobView
from ..about import about
from ..ceilings.nodes import ceilings, late_notes
from ..evidence.gathering import check_seen, gather
from ..evidence.ranks import NEEDED as OF_REPORT
from ..evidence.steady import left_out_notes
from ..kernels.names import name_of
from ..kernels.totals import Kernels, kernel_totals
from ..layers.totals import layer_totals
from ..questions import Subject
from ..ranks.members import chosen, host_of
from ..verdict.accounts import accounts_of
from . import layers, stack

NEEDED = {**OF_REPORT, "steps_spans": None}  # with phases that the training names

BY = ("role", "rank")
USED = ("compute",)  # kinds of ceilings: how wide vectors can be
MOST_KERNELS = 20  # kinds that are named


class _Members(NamedTuple):
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
    check_seen(view, subject.steps)
    gathered = gather(view, subject.steps)
    known = {number: gathered.evidence[number] for number in chosen(view, subject.ranks)}
    accounts = accounts_of(view, gathered).accounts
    totals = kernel_totals(store, view, subject.steps, known)
    of_layers = layer_totals(store, view, subject.steps, known)
    parts = []
    for one in _members(known, by or BY[0], totals):
        ranks, scope = list(one.ranks.values()), one.scope
        # FLOPs of the kernels on CPUs, a step of one rank.
        executed = [
            Executed(t.kind.implementation, t.kind.precision, t.flops / one.divisor)
            for t in one.totals
            if t.flops and not t.on_gpu
        ]
        made = {
            "time": compose.time(ranks, scope),
            stack.KIND: stack.parts_of(view, list(one.ranks), accounts, scope),
            "flops_by_precision": flop_parts.by_precision(ranks, scope),
            "flops_by_width": flop_parts.by_width(ranks, scope, executed, _widest(view, one.ranks)),
            "work_and_memory": traffic_parts.work_and_memory(ranks, scope),
            "traffic_by_level": traffic_parts.traffic(ranks, scope),
            "kernels_by_time": _kernels_by_time(one),
            layers.KIND: layers.parts_of([of_layers[n] for n in one.ranks if n in of_layers], scope),
        }
        for kind, of_kind in made.items():
            parts += [BreakdownPart(kind, one.name, one.role, *part) for part in of_kind]
    notes = late_notes(view, USED)
    if totals.of_sample:
        notes.append(texts.kernels_of_sample(totals.of_sample))
    if of_layers:
        notes.append(layer_texts.of_steps({known[n].key: one.steps for n, one in of_layers.items()}))
    notes += left_out_notes(view, subject.steps)
    if totals.outside:
        notes.append(texts.outside_steps(totals.outside))
    if not any(len(rank.steps.step) for rank in known.values()):
        notes.append(texts.WHOLE_RUNS)
    return Breakdown(about([view]), parts, notes)


def _members(known: Mapping[int, RankEvidence], by: str, kernels: Kernels) -> list[_Members]:
    named: dict[str, dict[int, RankEvidence]] = {}
    for number, rank in known.items():
        named.setdefault(rank.key if by == "rank" else rank.role, {})[number] = rank
    scope = Scope.PROCESS if by == "rank" else Scope.ROLE
    executed: dict[int, list[KernelTotal]] = {}
    for total in kernels.totals:
        executed.setdefault(total.rank, []).append(total)
    found = []
    for name, ranks in named.items():
        totals = [total for number in ranks for total in executed.get(number, ())]
        steps = [kernels.steps[n] for n in ranks if n in executed and n in kernels.steps]
        found.append(_Members(name, next(iter(ranks.values())).role, scope, ranks, totals, steps))
    return found


def _widest(view: JobView, ranks: Mapping[int, RankEvidence]) -> dict[str, int]:
    """Precision -> bits of the widest vectors of all hosts of these ranks, by their ceilings."""
    of_hosts: dict[str, dict[str, int]] = {}
    for number in ranks:
        host = host_of(view, number)
        widths = of_hosts.setdefault(host, {})
        for c in ceilings(view, host):
            if c.kind == "compute" and not c.device and ".amx" not in c.name:
                widths[c.precision] = max(c.width, widths.get(c.precision, 0))
    if not of_hosts:
        return {}
    shared = set.intersection(*(set(widths) for widths in of_hosts.values()))
    return {precision: min(widths[precision] for widths in of_hosts.values()) for precision in shared}


# -- kernels ------------------------------------------------------------------------------------------------


def _kernels_by_time(one: _Members) -> list[Part]:
    """Kernels by their names without shapes, those that took most time first, the rest together."""
    kinds = sorted(_kernels_by_name(one), key=lambda kind: -kind.seconds)
    if not kinds:
        missing = reason_of(list(one.ranks.values()), "flops", NO_KERNELS)
        return [compose.absent("all", "s", missing)]
    shown, rest = kinds[:MOST_KERNELS], kinds[MOST_KERNELS:]
    seconds = {kind.name: kind.seconds for kind in shown}
    words = {kind.name: _words(kind) for kind in shown}
    if rest:
        name = texts.other_kinds(len(rest))
        seconds[name] = sum(kind.seconds for kind in rest)
        words[name] = texts.launches(sum(kind.launches for kind in rest))
    how = texts.mean_over(len({total.rank for total in one.totals}), sum(one.steps))
    parts = {
        name: value(taken, "s", Provenance.MEASURED, one.scope, reason=how) for name, taken in seconds.items()
    }
    return compose.parted(parts, words)


def _kernels_by_name(one: _Members) -> list[_Kind]:
    divisor = one.divisor
    found: dict[tuple[str, bool], _Kind] = {}
    for t in one.totals:
        name = name_of(t.kind)
        so_far = found.get((name, t.on_gpu), _Kind(name, 0.0, 0.0, 0.0, t.on_gpu))
        found[name, t.on_gpu] = so_far._replace(
            seconds=so_far.seconds + t.time_ns / 1e9 / divisor,
            launches=so_far.launches + t.calls / divisor,
            flops=None if so_far.flops is None or t.flops is None else so_far.flops + t.flops / divisor,
        )
    kinds = []
    for (name, on_gpu), kind in found.items():
        if on_gpu and (name, False) in found:
            kind = kind._replace(name=texts.on_gpu(name))
        kinds.append(kind)
    return kinds


def _words(kind: _Kind) -> str:
    if kind.flops is None:
        return texts.launches_without_known_flops(kind.launches)
    if not kind.flops:
        return texts.launches_without_flops(kind.launches)
    if not kind.seconds > 0:
        return texts.launches(kind.launches)
    return texts.launches_at(kind.launches, kind.flops / kind.seconds)
