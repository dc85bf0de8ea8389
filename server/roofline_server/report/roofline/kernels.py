"""Points of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from roofline.answers.roofline import RoofPoint

from ...correlate.kernel_totals import KernelTotal
from ...model.roofline.points import Named
from ...sentences import breakdowns
from ...sentences import rooflines as texts
from ..ceilings.limits import of_rank
from ..ceilings.places import place_of
from ..kernels.totals import kernel_totals
from .kernel_sums import CallsAsked, left_out, points_on, summed

MOST_POINTS = 2000
PROBLEM_LENGTH = 60


def of_kernels(asked: CallsAsked) -> tuple[list[RoofPoint], list[str]]:
    """A point for each kind of kernel of a role, and notes."""
    evidence = asked.evidence
    totals = kernel_totals(asked.store, asked.view, asked.steps, list(evidence)).totals
    if not totals:
        return [], [texts.NO_KERNELS]
    pooled: dict[tuple[str, str, str, bool], list[KernelTotal]] = {}
    for total in totals:
        kernel = total.kind
        words = (kernel.operation, kernel.variant, kernel.problem[:PROBLEM_LENGTH])
        label = " ".join(word for word in words if word)
        key = (evidence[total.rank].role, label, kernel.precision, total.on_gpu)
        pooled.setdefault(key, []).append(total)
    ordered = sorted(pooled.items(), key=lambda item: -sum(t.time_ns for t in item[1]))
    made: list[RoofPoint] = []
    for (role, label, precision, gpu), mine in ordered[:MOST_POINTS]:
        if gpu and (role, label, precision, False) in pooled:
            label = breakdowns.on_gpu(label)
        longest = max(mine, key=lambda t: t.time_ns)
        limits = of_rank(asked.view, longest.rank, precision, _is_on_gpu(asked, longest))
        who = Named(label, "kernel", role, "", limits.host)
        made += points_on(limits, asked, who, summed(mine))

    notes = [texts.kernels_shown(MOST_POINTS)] if len(ordered) > MOST_POINTS else []
    notes += left_out(totals)
    if len({total.rank for total in totals}) > 1:
        notes.append(texts.ONE_RANKS_KERNELS)
    return made, notes + _pooled_places(asked, totals)


def _is_on_gpu(asked: CallsAsked, total: KernelTotal) -> bool:
    # XLA compiles for the device that the rank has.
    compiled = total.kind.library == "xla" and asked.evidence[total.rank].uses_gpu
    return total.on_gpu or compiled


def _pooled_places(asked: CallsAsked, totals: Sequence[KernelTotal]) -> list[str]:
    """A note where kernels of several GPUs or hosts are one point."""
    by_role: dict[str, set[tuple[str, str]]] = {}
    for rank in {total.rank for total in totals if _is_on_gpu(asked, total)}:
        where = place_of(asked.view, rank, gpu=True)
        if where.device:
            by_role.setdefault(asked.evidence[rank].role, set()).add((where.host, where.device))
    gpus = set().union(*(mine for mine in by_role.values() if len(mine) > 1))
    if gpus:
        return [texts.pooled_gpus(len(gpus), len({host for host, _ in gpus}))]
    hosts = {asked.evidence[total.rank].host for total in totals}
    return [texts.pooled_hosts(len(hosts))] if len(hosts) > 1 else []
