"""Points of kernels."""

from __future__ import annotations

from roofline.answers.roofline import RoofPoint

from ...correlate.kernel_totals import KernelTotal
from ...model.roofline.points import Named
from ...sentences import breakdowns
from ...sentences import rooflines as texts
from ..ceilings.limits import of_rank
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
        # XLA compiles for the device that the rank has.
        compiled = longest.kind.library == "xla" and evidence[longest.rank].uses_gpu
        limits = of_rank(asked.view, longest.rank, precision, longest.on_gpu or compiled)
        who = Named(label, "kernel", role, "", limits.host)
        made += points_on(limits, asked, who, summed(mine))

    notes = [texts.kernels_shown(MOST_POINTS)] if len(ordered) > MOST_POINTS else []
    notes += left_out(totals)
    ranks = {total.rank for total in totals}
    hosts = {evidence[number].host for number in ranks}
    if len(ranks) > 1:
        notes.append(texts.ONE_RANKS_KERNELS)
    if len(hosts) > 1:
        notes.append(texts.pooled_hosts(len(hosts)))
    return made, notes
