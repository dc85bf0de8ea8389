"""Builds the report of a job from its view."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from roofline.answers.report import Fact, Point, RankReport, Report, RoleReport, SourceReport, Summary
from roofline.answers.roofline import RoofPoint
from roofline.answers.values import Scope

from ...model.between import between
from ...model.evidence import RankEvidence
from ...model.exits import RankEnd
from ...model.roofline.summary import placed, summarize
from ...model.roofline.work import dominant_precision
from ...sentences import notes as note_texts
from ...sentences import verdict as texts
from ...store.view import JobView
from ..ceilings.caveats import caveats
from ..ceilings.contention import contention, sharing
from ..ceilings.limits import of_ranks
from ..ceilings.roofs import roofs
from ..evidence.gaps import alignment_of, find_gaps
from ..evidence.gathering import Gathered, gather
from ..evidence.replays import notes as replay_notes
from ..evidence.sampled import notes as sample_notes
from ..evidence.steady import few_step_notes, left_out_of
from ..questions import STEADY_STEPS, Steps, once_of_steady
from ..ranks.exits import TAG, exit_codes, rank_ends, rank_exits, state_of
from ..ranks.members import extent, is_running, latest_process, name_of, nodes_of, role_order
from ..roofline.groups import PointGroup
from ..roofline.rooflines import of_roles, places_of_roles
from ..verdict.advising import advised
from ..verdict.build import verdict
from ..verdict.gpus import gpu_use
from ..verdict.roofline import places_under_roof
from .cost import cost_of, printing_notes
from .heavy_steps import heavy_step_notes
from .notes import losses, write_notes
from .parts import part_reports
from .slow_start import slow_start_notes

Summaries = Callable[[Mapping[int, RankEvidence], Scope], Summary]


class Present(NamedTuple):
    """What of a job depends on when somebody asks."""

    running: bool
    ends: tuple[RankEnd, ...]


def build(view: JobView, steps: Steps = STEADY_STEPS, now_ns: int | None = None) -> Report:
    """The report of a job, not to be written to. Raises BadRequest when the range of steps cannot be."""
    return _build(view, steps, _present(view, now_ns))


def first_screen(view: JobView, steps: Steps = STEADY_STEPS, now_ns: int | None = None) -> Report:
    """The report of a job without what fills tables only: of ranks and roles just what they did between
    steps."""
    return _first_screen(view, steps, _present(view, now_ns))


def _present(view: JobView, now_ns: int | None) -> Present:
    now_ns = time.time_ns() if now_ns is None else now_ns
    return Present(is_running(view, now_ns), tuple(rank_ends(view, now_ns)))


@once_of_steady
def _build(view: JobView, steps: Steps, present: Present) -> Report:
    gathered = gather(view, steps)
    evidence = gathered.evidence
    everybody = contention(view, evidence)

    def summary(ranks: Mapping[int, RankEvidence], scope: Scope) -> Summary:
        """Against their part of the places where they compute."""
        limits = of_ranks(view, ranks)
        parts = max(1.0, sharing(everybody, limits) / len(ranks))
        return summarize(list(ranks.values()), limits, scope, parts)

    points = of_roles(view, evidence)
    report = _with_verdict(view, gathered, steps, present, summary, points)
    report = report._replace(
        points=_points(report.ranks, list(evidence.values())),
        parts=part_reports(view),
        facts=_facts(view),
        verdicts=[f"{p.label}: {p.words}" for _, p in points if p.words],
    )
    notes = [
        *replay_notes(view, evidence),
        *sample_notes(evidence.values()),
        *heavy_step_notes(evidence.values()),
        *slow_start_notes(view),
        *printing_notes(view, evidence),
        *caveats(report.roofs),
        *write_notes(view, report),
    ]
    return report._replace(notes=notes)


@once_of_steady
def _first_screen(view: JobView, steps: Steps, present: Present) -> Report:
    def summary(ranks: Mapping[int, RankEvidence], scope: Scope) -> Summary:
        return Summary(between(list(ranks.values()), scope), "", "")

    gathered = gather(view, steps)
    points = places_of_roles(view, gathered.evidence)
    return _with_verdict(view, gathered, steps, present, summary, points)


def _with_verdict(
    view: JobView,
    gathered: Gathered,
    steps: Steps,
    present: Present,
    summary: Summaries,
    points: Sequence[tuple[PointGroup, RoofPoint]],
) -> Report:
    """points: of roles, in the classic roofline."""
    evidence = gathered.evidence
    begin, end = extent(view)
    ended = state_of(view, present.ends)
    # Roofs of every host, and of the GPUs that ranks computed on.
    used = {(limits.host, limits.device) for limits in of_ranks(view, evidence)}
    precisions = sorted({dominant_precision([rank]) for rank in evidence.values()})
    drawn = [r for r in roofs(view, *precisions) if not r.device or (r.host, r.device) in used]
    machines = [view.machines[node] for node in sorted(nodes_of(view))]
    report = Report(
        job=view.job,
        begin_ns=begin,
        end_ns=end,
        mode=gathered.mode,
        running=present.running,
        first_step=steps.first,
        last_step=steps.last,
        roles=_role_reports(evidence, summary),
        ranks=_rank_reports(view, gathered, summary),
        roofs=drawn,
        points=[],
        alignment=alignment_of(view),
        gaps=find_gaps(view),
        notes=[],
        parts=[],
        facts=[],
        tags=dict(view.tags),
        verdicts=[],
        sources=[SourceReport(machine.host, list(machine.sources)) for machine in machines],
        cost=cost_of(view, evidence),
        state=ended.words,
        exits=rank_exits(view, present.ends),
    )
    lines = [*places_under_roof(points), *(texts.gpu_use(*use) for use in gpu_use(view, evidence))]
    found = verdict(
        view,
        gathered,
        report.state,
        exit_codes(report.exits),
        lines,
        _quality(view, gathered, report, steps),
        left_out_of(view, steps),
        steps,
    )
    return report._replace(verdict=advised(view, gathered, found, ended.has_failed, steps))


def _quality(view: JobView, gathered: Gathered, report: Report, steps: Steps) -> list[str]:
    """What makes numbers of this report poor."""
    return [
        *([note_texts.damaged(view.damaged)] if view.damaged else []),
        *losses(view, report.gaps),
        *slow_start_notes(view),
        *printing_notes(view, gathered.evidence),
        *caveats(report.roofs),
        *(heavy_step_notes(gathered.evidence.values()) or few_step_notes(view, steps)),
    ]


def _facts(view: JobView) -> list[Fact]:
    """Settings and sizes, each value with the ranks that share it."""
    ranks_of: dict[tuple[str, str], list[int]] = {}
    for number, facts in view.facts.items():
        for name, text in facts.items():
            if not name.startswith(TAG):  # these are in `tags`
                ranks_of.setdefault((name, text), []).append(number)
    found = []
    for (name, text), numbers in sorted(ranks_of.items()):
        numbers.sort(key=lambda n: view.ranks[n])
        found.append(Fact(name, text, [name_of(view, n) for n in numbers]))
    return found


def _rank_reports(view: JobView, gathered: Gathered, summary: Summaries) -> list[RankReport]:
    reports = []
    for number, rank in gathered.evidence.items():
        process = latest_process(view, number)
        windows = ""
        if len(rank.steps.step):
            windows = f"workers ({gathered.mode})" if rank.serving else "own"
        reports.append(
            RankReport(
                rank.key,
                rank.role,
                view.ranks[number].index,
                rank.host,
                process.pid if process else 0,
                process.name if process else "",
                windows,
                summary({number: rank}, Scope.PROCESS),
            )
        )
    return sorted(reports, key=lambda r: (role_order(r.role), r.index))


def _role_reports(evidence: Mapping[int, RankEvidence], summary: Summaries) -> list[RoleReport]:
    by_role: dict[str, dict[int, RankEvidence]] = {}
    for number, rank in evidence.items():
        by_role.setdefault(rank.role, {})[number] = rank
    return [
        RoleReport(
            role,
            len(ranks),
            sorted({r.host for r in ranks.values() if r.host}),
            summary(ranks, Scope.ROLE),
        )
        for role, ranks in sorted(by_role.items(), key=lambda item: role_order(item[0]))
    ]


def _points(ranks: list[RankReport], evidence: Sequence[RankEvidence]) -> list[Point]:
    known = {rank.key: rank for rank in evidence}
    points = []
    for rank in ranks:
        level, intensity, flops = placed([known[rank.rank]], rank.summary.values)
        if intensity.value is not None and flops.value is not None:
            points.append(
                Point(rank.rank, rank.role, rank.host, intensity.value, flops.value, flops.provenance, level)
            )
    return points
