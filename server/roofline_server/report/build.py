"""Builds the report of a job from its view."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..correlate import windows as step_windows
from ..correlate.steps import OWN
from ..errors import BadRequest
from ..model import roofline
from ..model.summary import RankEvidence, dominant_precision, summarize
from ..model.values import Scope
from ..records import rows
from ..store.store import JobView
from .evidence import by_rank, evidence_of, unite, where, within
from .gaps import alignment_of, find_gaps
from .members import extent, is_running, latest_life, nodes_of, role_order
from .notes import write_notes
from .records import ALL_STEPS, Point, RankReport, Report, RoleReport, RoofReport, Steps


def build(view: JobView, steps: Steps = ALL_STEPS, now_ns: int | None = None) -> Report:
    """The report of a job. Raises BadRequest when the range of steps cannot be."""
    if steps.first is not None and steps.last is not None and steps.first > steps.last:
        raise BadRequest(f"steps {steps.first} to {steps.last}: the first comes after the last")
    tables = {name: within(table, steps) for name, table in view.steps.items()}
    own = where(tables.get("steps", {}), "window", OWN)
    mode = "" if not rows(own) else "synchronous" if step_windows.synchronous(own) else "asynchronous"
    if mode == "synchronous":
        tables = {name: unite(table) for name, table in tables.items()}
    mine, lifetimes = by_rank(tables), by_rank(view.lifetimes)
    evidence = {
        number: evidence_of(view, number, mine.get(number, {}), lifetimes.get(number, {}))
        for number in view.ranks
    }
    roofs = _roofs(view, evidence)
    ranks = _rank_reports(view, evidence, roofs, mode)
    roles = _role_reports(evidence, roofs)
    begin, end = extent(view)
    gaps = find_gaps(view)
    alignment = alignment_of(view)
    report = Report(
        job=view.job,
        begin_ns=begin,
        end_ns=end,
        mode=mode,
        running=is_running(view, now_ns or time.time_ns()),
        first_step=steps.first,
        last_step=steps.last,
        roles=roles,
        ranks=ranks,
        roofs=_roof_reports(view, roofs),
        points=_points(ranks),
        alignment=alignment,
        gaps=gaps,
        notes=[],
        sources=[(view.machines[n].host, list(view.machines[n].sources)) for n in sorted(nodes_of(view))],
    )
    return report._replace(notes=write_notes(view, report))


def _rank_reports(
    view: JobView, evidence: Mapping[int, RankEvidence], roofs: Mapping[str, roofline.Roof | None], mode: str
) -> list[RankReport]:
    reports = []
    for number, rank in evidence.items():
        who = latest_life(view, number)
        whose = "" if not len(rank.steps.step) else f"workers ({mode})" if rank.serving else "own"
        reports.append(
            RankReport(
                rank.key,
                rank.role,
                view.ranks[number].index,
                rank.host,
                who.pid if who else 0,
                who.name if who else "",
                whose,
                summarize([rank], roofs, Scope.PROCESS),
            )
        )
    return sorted(reports, key=lambda r: (role_order(r.role), r.index))


def _role_reports(
    evidence: Mapping[int, RankEvidence], roofs: Mapping[str, roofline.Roof | None]
) -> list[RoleReport]:
    by_role: dict[str, list[RankEvidence]] = {}
    for rank in evidence.values():
        by_role.setdefault(rank.role, []).append(rank)
    return [
        RoleReport(
            role, len(ranks), sorted({r.host for r in ranks if r.host}), summarize(ranks, roofs, Scope.ROLE)
        )
        for role, ranks in sorted(by_role.items(), key=lambda item: role_order(item[0]))
    ]


def _roofs(view: JobView, evidence: Mapping[int, RankEvidence]) -> dict[str, roofline.Roof | None]:
    precision = dominant_precision([r.kernels for r in evidence.values() if r.kernels is not None])
    machines = [view.machines[node] for node in nodes_of(view)]
    return {m.host: roofline.make_roof(m.host, m.ceilings, precision) for m in machines}


def _roof_reports(view: JobView, roofs: Mapping[str, roofline.Roof | None]) -> list[RoofReport]:
    reports = {}
    for node in sorted(nodes_of(view)):
        machine = view.machines[node]
        roof = roofs[machine.host]
        note = f"{machine.cpu_model}, {machine.cpus} CPUs; the whole node, shared by all its ranks"
        drawn = roofline.lines(machine.ceilings, roof)
        reports[machine.host] = RoofReport(machine.host, note, drawn, list(machine.ceilings))
    return list(reports.values())


def _points(ranks: list[RankReport]) -> list[Point]:
    points = []
    for rank in ranks:
        intensity = rank.summary.values["intensity.minimum"]
        flops = rank.summary.values["flops_per_second"]
        if intensity.value is not None and flops.value is not None:
            points.append(
                Point(
                    rank.rank, rank.role, rank.host, intensity.value, flops.value, flops.provenance, "minimum"
                )
            )
    return points
