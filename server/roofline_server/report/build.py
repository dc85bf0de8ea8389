"""Builds the report of a job from its view."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from ..correlate import windows as step_windows
from ..correlate.steps import OWN
from ..errors import BadRequest
from ..model import roofline
from ..model.evidence import RankEvidence
from ..model.summary import placed, summarize
from ..model.values import Scope
from ..model.work import dominant_precision
from ..records import Ceiling, rows, take
from ..store.view import JobView
from .barriers import with_waits
from .evidence import by_rank, evidence_of, unite, where, within
from .gaps import alignment_of, find_gaps
from .members import extent, is_running, latest_life, nodes_of, role_order
from .notes import write_notes
from .parts import part_reports
from .records import ALL_STEPS, Fact, Point, RankReport, Report, RoleReport, RoofReport, Steps


def build(view: JobView, steps: Steps = ALL_STEPS, now_ns: int | None = None) -> Report:
    """The report of a job. Raises BadRequest when the range of steps cannot be."""
    if steps.first is not None and steps.last is not None and steps.first > steps.last:
        raise BadRequest(f"steps {steps.first} to {steps.last}: the first comes after the last")
    tables = {name: within(table, steps) for name, table in view.steps.items()}
    mode = mode_of(view)
    if mode == "synchronous":
        tables = {name: unite(table) for name, table in tables.items()}
    mine, lifetimes = by_rank(tables), by_rank(view.lifetimes)
    evidence = {
        number: evidence_of(view, number, mine.get(number, {}), lifetimes.get(number, {}))
        for number in view.ranks
    }
    evidence = with_waits(evidence, mode)
    ranks = _rank_reports(view, evidence, mode)
    roles = _role_reports(view, evidence)
    begin, end = extent(view)
    gaps = find_gaps(view)
    alignment = alignment_of(view)
    report = Report(
        job=view.job,
        begin_ns=begin,
        end_ns=end,
        mode=mode,
        running=is_running(view, time.time_ns() if now_ns is None else now_ns),
        first_step=steps.first,
        last_step=steps.last,
        roles=roles,
        ranks=ranks,
        roofs=_roof_reports(view, _roofs_for(view, list(evidence.values()))),
        points=_points(ranks),
        alignment=alignment,
        gaps=gaps,
        notes=[],
        parts=part_reports(view),
        facts=_facts(view),
        sources=[(view.machines[n].host, list(view.machines[n].sources)) for n in sorted(nodes_of(view))],
    )
    return report._replace(notes=write_notes(view, report))


def _facts(view: JobView) -> list[Fact]:
    """Settings and sizes, each value with the ranks that share it."""
    whose: dict[tuple[str, str], list[int]] = {}
    for number, facts in view.facts.items():
        for name, said in facts.items():
            whose.setdefault((name, said), []).append(number)
    keys = view.ranks
    return [
        Fact(name, said, [f"{keys[n].role}:{keys[n].index}" for n in sorted(numbers, key=lambda n: keys[n])])
        for (name, said), numbers in sorted(whose.items())
    ]


def mode_of(view: JobView) -> str:
    """How the ranks that train step: judged by all their steps, whichever are asked for."""
    own = where(view.steps.get("steps", {}), "window", OWN)
    training = [number for number, key in view.ranks.items() if key.role != "evaluator"]
    own = take(own, np.isin(own["rank"], training)) if rows(own) else own
    if not rows(own):
        return ""
    return "synchronous" if step_windows.synchronous(own) else "asynchronous"


def _rank_reports(view: JobView, evidence: Mapping[int, RankEvidence], mode: str) -> list[RankReport]:
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
                summarize([rank], _roofs_for(view, [rank]), Scope.PROCESS),
            )
        )
    return sorted(reports, key=lambda r: (role_order(r.role), r.index))


def _role_reports(view: JobView, evidence: Mapping[int, RankEvidence]) -> list[RoleReport]:
    by_role: dict[str, list[RankEvidence]] = {}
    for rank in evidence.values():
        by_role.setdefault(rank.role, []).append(rank)
    return [
        RoleReport(
            role,
            len(ranks),
            sorted({r.host for r in ranks if r.host}),
            summarize(ranks, _roofs_for(view, ranks), Scope.ROLE),
        )
        for role, ranks in sorted(by_role.items(), key=lambda item: role_order(item[0]))
    ]


def _roofs_for(view: JobView, ranks: Sequence[RankEvidence]) -> dict[str, roofline.Roof | None]:
    """host -> its roof for the precision in which these ranks do most of their FLOPs."""
    precision = dominant_precision([r.kernels for r in ranks if r.kernels is not None])
    return {host: roofline.make_roof(host, known, precision) for host, known in _ceilings(view).items()}


def _ceilings(view: JobView) -> dict[str, list[Ceiling]]:
    """host -> its ceilings: those its agent measured, and those of imported benchmark results."""
    found: dict[str, list[Ceiling]] = {}
    for node in sorted(nodes_of(view)):
        machine = view.machines[node]
        found.setdefault(machine.host, []).extend(machine.ceilings)
    return found


def _roof_reports(view: JobView, roofs: Mapping[str, roofline.Roof | None]) -> list[RoofReport]:
    machines = {view.machines[node].host: view.machines[node] for node in sorted(nodes_of(view))}
    reports = []
    for host, known in _ceilings(view).items():
        machine = machines[host]
        note = f"{machine.cpu_model}, {machine.cpus} CPUs; the whole node, shared by all its ranks"
        reports.append(RoofReport(host, note, roofline.lines(known, roofs[host]), known))
    return reports


def _points(ranks: list[RankReport]) -> list[Point]:
    points = []
    for rank in ranks:
        level, intensity, flops = placed(rank.summary.values)
        if intensity.value is not None and flops.value is not None:
            points.append(
                Point(rank.rank, rank.role, rank.host, intensity.value, flops.value, flops.provenance, level)
            )
    return points
