"""What answers each question: which data are read of the store, what computes it, which message it is."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from roofline.answers.model_flops import ModelFlops
from roofline.convert import to_message
from roofline.v1 import models_pb2, query_pb2

from ..errors import RemovedData, unknown_job
from ..records import CutLevel
from ..report.breakdown import breakdowns
from ..report.comparison import comparisons
from ..report.efficiency import efficiency, model_flops
from ..report.evidence import ranks as evidence
from ..report.evidence.gathering import check_seen
from ..report.evidence.mode import mode_of
from ..report.job.build import build, first_screen
from ..report.questions import Steps, Subject
from ..report.ranks.summaries import summarize_job
from ..report.roofline import rooflines
from ..report.steps import overview, steps, timeline
from ..report.steps.newest import newest_steps
from ..report.time_roofline import time_rooflines
from ..report.trajectory import trajectories
from ..report.trajectory.experiments import jobs_of
from ..report.waits import stragglers
from ..report.what_if import what_if
from ..sentences import notes as note_texts
from ..store import export
from ..store.raw_data import RawData
from ..store.store import Needed, Store
from ..store.view import JobView
from . import messages
from . import removed as removals
from .machines import machine_versions


class Answers:
    """A message of the wire, or an iterator of messages, for each request. Blocks while it computes.

    All raise UnknownJob, and BadRequest for steps, ranks or kinds that cannot be; `machines` UnknownHost.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def roofline(self, request: Any) -> Any:
        subject = _subject(request.subject)
        view = self._view(subject.job, rooflines.needed(request.kind, request.points))
        found = rooflines.roofline(self._store, view, subject, request.kind, request.points)
        return self._noted(to_message(models_pb2.Roofline(), found), view)

    def time_roofline(self, request: Any) -> Any:
        asked = time_rooflines.TimeRooflineQuery(
            _subject(request.subject), request.experiment, tuple(request.jobs), request.over, request.points
        )
        found = time_rooflines.time_roofline(self._store, asked)
        jobs = (*request.jobs, *filter(None, [request.subject.job]))
        return self._noted_of_jobs(to_message(models_pb2.TimeRoofline(), found), request.experiment, jobs)

    def trajectory(self, request: Any) -> Any:
        asked = trajectories.TrajectoryQuery(
            request.experiment, tuple(request.jobs), request.over, tuple(request.roles), _range(request)
        )
        found = trajectories.trajectory(self._store, asked)
        message = to_message(models_pb2.Trajectory(), found)
        return self._noted_of_jobs(message, request.experiment, request.jobs)

    def breakdown(self, request: Any) -> Any:
        subject = _subject(request.subject)
        view = self._view(subject.job, breakdowns.NEEDED)
        found = breakdowns.breakdown(self._store, view, subject, request.by)
        return self._noted(to_message(models_pb2.Breakdown(), found), view)

    def efficiency(self, request: Any) -> Any:
        subject = _subject(request.subject)
        view = self._view(subject.job, efficiency.NEEDED)
        given = {name: getattr(request, name) for name in model_flops.NUMBERS if request.HasField(name)}
        others = {"causal": request.causal, "precision": request.precision, "sparse": request.sparse}
        asked = ModelFlops(**given, **others)
        found = efficiency.efficiency(view, subject, asked)
        return self._noted(to_message(models_pb2.Efficiency(), found), view)

    def machines(self, request: Any) -> Any:
        versions = machine_versions(self._store, request.host, request.history)
        found = [to_message(models_pb2.MachineVersion(), version) for version in versions]
        return models_pb2.GetMachinesResponse(machines=found)

    def jobs(self, newest: int = 0) -> Any:
        """newest: only so many jobs, those of which a rank became known last; 0: all."""
        now = self._store.now_ns()
        known = self._store.jobs()
        asked = heapq.nlargest(newest, known, lambda job: max(self._store.ranks_of(job))) if newest else known
        gone = self._store.all_removed()
        found = [
            summarize_job(self._store.overview(job), now)._replace(
                removed=removals.short(gone.get(job)), users=self._store.owners_of(job)
            )
            for job in asked
        ]
        newest_first = sorted(found, key=lambda job: job.begin_ns, reverse=True)
        jobs = [to_message(query_pb2.Job(), job) for job in newest_first]
        return query_pb2.ListJobsResponse(jobs=jobs, left_out=len(known) - len(asked))

    def report(self, request: Any) -> Any:
        if (kept := self._kept_report(request)) is not None:
            return kept
        view = self._view_of_steps(request, evidence.NEEDED)
        made = first_screen if request.first_screen else build
        asked = newest_steps(view) if request.newest else _range(request)
        found = to_message(query_pb2.Report(), made(view, asked, self._store.now_ns()))
        return _with_removed(found, view)  # its verdict says what is damaged

    def report_to_keep(self, run: str) -> bytes:
        """What `report` should answer once the step deltas of a run are removed."""
        view = self._view(self._store.asked_as(run), evidence.NEEDED)
        return removals.pack(to_message(query_pb2.Report(), build(view, now_ns=self._store.now_ns())))

    def _kept_report(self, request: Any) -> Any | None:
        """None where a report can be computed."""
        run = self._run(request.job)
        gone = self._store.removed(run)
        if gone is None or gone.level < CutLevel.STEPS:
            return None
        data, name = self._store.kept_report(run), self._store.asked_as(run)
        if data is None:
            removals.check_left(name, gone, CutLevel.REPORT)
            raise RemovedData(f"no report of job {name} was kept when its step deltas were removed")
        return removals.unpack(data, name, gone, _range(request).is_bounded)

    def stragglers(self, request: Any) -> Any:
        view = self._view_of_steps(request, evidence.NEEDED)
        found = to_message(query_pb2.Stragglers(), stragglers.find(view, _range(request)))
        return self._noted(found, view)

    def comparison(self, request: Any) -> Any:
        first, second = (self._view(job, evidence.NEEDED) for job in (request.first, request.second))
        made = comparisons.compare(first, second, _range(request), self._store.now_ns())
        found = to_message(query_pb2.Comparison(), made)
        named = {view.job: view for view in (second, first)}
        for view in named.values():
            self._noted(found, view, view.job if len(named) > 1 else "")
        return found

    def what_if(self, request: Any) -> Any:
        view = self._view(request.job, what_if.NEEDED)
        numbers = ("ranks", "servers", "batch", "bandwidth", "bandwidth_times")
        given = {name: getattr(request, name) for name in numbers if request.HasField(name)}
        asked = what_if.WhatIfQuery(**given, fix=request.fix)
        return self._noted(to_message(query_pb2.WhatIf(), what_if.what_if(view, asked)), view)

    def steps(self, request: Any) -> Iterator[Any]:
        view = self._view_of_steps(request, steps.NEEDED)
        table = steps.steps_table(view, list(request.ranks), _range(request), mode_of(view))
        return map(messages.chunk, table)

    def step_overview(self, request: Any) -> Any:
        view = self._view_of_steps(request, overview.NEEDED)
        ranks = [getattr(request, n) if request.HasField(n) else None for n in ("first_rank", "last_rank")]
        found = overview.step_overview(view, _range(request), self._store.now_ns(), request.stretches, *ranks)
        return self._noted(to_message(query_pb2.StepOverview(), found), view)

    def newest(self, request: Any) -> Any:
        return query_pb2.Newest(batch=self._store.newest_batch_of(self._run(request.job)))

    def timeline(self, request: Any) -> Iterator[Any]:
        # What was not sealed when the view was made is in the raw data too: it is asked for later.
        view = self._view_of_steps(request, steps.NEEDED)
        raw = self._raw(self._run(view.job))
        ranks, asked = list(request.ranks), _range(request)
        table = timeline.timeline(view, raw, ranks, asked, mode_of(view), request.kernels)
        return map(messages.chunk, table)

    def export(self, request: Any) -> Iterator[Any]:
        return map(messages.chunk, export.export(self._raw(self._run(request.job))))

    def _view(self, job: str, needed: Needed) -> JobView:
        run = self._run(job)
        removals.check_left(self._store.asked_as(run), self._store.removed(run), CutLevel.STEPS)
        view = self._store.view(run, needed)
        if view is None:
            raise unknown_job(job, self._store.newest_jobs())
        return view

    def _noted_of_jobs(self, message: Any, experiment: str, jobs: Sequence[str]) -> Any:
        """The answer about an experiment or some jobs, with what was removed of each, or cannot be read."""
        gone = self._store.all_removed()
        names = jobs_of(self._store, experiment, jobs) if gone or self._store.damaged else []
        for job in reversed(names):
            for note in (*removals.note(job, gone.get(self._run(job))), *self._damage(job, job)):
                message.notes.insert(0, note)
        return message

    def _noted(self, message: Any, view: JobView, named: str = "") -> Any:
        """The answer, with what was removed of the job, and what of it cannot be read, first among its notes.

        named: as what job, where there are several.
        """
        for note in self._damage(view.job, named):
            message.notes.insert(0, note)
        return _with_removed(message, view)

    def _damage(self, job: str, named: str = "") -> list[str]:
        """What the reading for an answer has found to be damaged or missing."""
        damaged = self._store.damaged_of(job)
        return [note_texts.damaged(damaged, named)] if damaged else []

    def _view_of_steps(self, request: Any, needed: Needed) -> JobView:
        """Raises UnknownSteps where the job has steps, but none of those that the request is about."""
        view = self._view(request.job, needed)
        check_seen(view, _range(request))
        return view

    def _raw(self, run: str) -> RawData:
        removals.check_left(self._store.asked_as(run), self._store.removed(run), CutLevel.RAW)
        raw = self._store.raw(run)
        if raw is None:
            raise unknown_job(run, self._store.newest_jobs())
        return raw

    def _run(self, job: str) -> str:
        """The run that is meant: the newest of "42", the first of "42/1". Raises UnknownJob."""
        run = self._store.run_called(job)
        if run is None:
            raise unknown_job(job, self._store.newest_jobs())
        return run


def _with_removed(message: Any, view: JobView) -> Any:
    """The answer, with what retention has removed of the job first among its notes."""
    for note in removals.note(view.job, view.removed):
        message.notes.insert(0, note)
    return message


def _subject(message: Any) -> Subject:
    return Subject(message.job, _range(message), tuple(message.ranks))


def _range(request: Any) -> Steps:
    return Steps(
        request.first_step if request.HasField("first_step") else None,
        request.last_step if request.HasField("last_step") else None,
    )
