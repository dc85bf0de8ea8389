"""All questions that a server answers, one method each: arguments to messages, and messages to records.

One thought, though long: a question is the few lines that name its message and its record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from roofline.answers.agents import Agent
from roofline.answers.breakdown import Breakdown
from roofline.answers.comparison import Comparison
from roofline.answers.efficiency import Efficiency
from roofline.answers.jobs import Job
from roofline.answers.machines import MachineVersion, NetResult, NetSummary
from roofline.answers.model_flops import ModelFlops
from roofline.answers.report import Report
from roofline.answers.roofline import Roofline
from roofline.answers.step_overview import StepOverview
from roofline.answers.tables import TableChunk
from roofline.answers.time_roofline import TimeRoofline
from roofline.answers.traces import RankTrace
from roofline.answers.trajectory import Trajectory
from roofline.answers.waits import Stragglers
from roofline.answers.what_if import WhatIf
from roofline.convert import from_message
from roofline.joining import Access
from roofline.v1 import models_pb2, query_pb2, query_pb2_grpc

from . import answers
from .channel import Channel
from .errors import Refused, UsageError
from .tables.names import several

if TYPE_CHECKING:
    from .trace.arrays import Arrays

C = TypeVar("C", bound="Connection")
P = TypeVar("P")


class Connection:
    """Use as a context manager, or call close()."""

    def __init__(self, server: str, timeout: float, access: Access | None = None) -> None:
        """server: HOST:PORT; "": the one joined last, else the one on this machine. access: what to reach it
        with; NO_ACCESS: with nothing; None: what this user has from joining it. Raises ClientError."""
        self._channel = Channel(server, timeout, access)
        self._query = query_pb2_grpc.QueryStub(self._channel.grpc_channel)

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # After Ctrl-C another thread is still in a call, and gRPC's close would wait for it.
        if kind is None or issubclass(kind, Exception):
            self.close()

    def close(self) -> None:
        self._channel.close()

    @property
    def granted_share(self) -> float | None:
        """Of one core of the server, how much who asks again and again may take of it, as its last answer
        says; None: it did not say."""
        return self._channel.granted_share

    @property
    def spent_s(self) -> float:
        """CPU time that answers to questions of this thread have taken the server until now, s."""
        return self._channel.spent_s

    def jobs(self, newest: int = 0) -> list[Job]:
        """All jobs the server knows, or so many, newest first. Raises ClientError."""
        return self.newest_jobs(newest)[0]

    def newest_jobs(self, newest: int) -> tuple[list[Job], int]:
        """So many jobs, newest first, and how many older ones there are; 0: all jobs. Raises ClientError."""
        answer = self._channel.ask(self._query.ListJobs, query_pb2.ListJobsRequest(newest=newest))
        shown = answer.jobs[: newest or None]  # a server of an earlier release sends all
        jobs = [from_message(Job, job) for job in shown]
        return jobs, answer.left_out + len(answer.jobs) - len(jobs)

    def report(
        self,
        job: str,
        first_step: int | None = None,
        last_step: int | None = None,
        first_screen: bool = False,
        newest: bool = False,
    ) -> Report:
        """The report of a job, of all steps or of those from first_step to last_step.

        first_screen: without what fills tables only, which takes a third of the time. newest: of the newest
        steps of the ranks that train instead, whatever their numbers.

        Raises NotFound for a job the server does not know, Unreachable, Refused.
        """
        request = _request(
            query_pb2.GetReportRequest,
            job=job,
            first_step=first_step,
            last_step=last_step,
            first_screen=first_screen or None,
            newest=newest or None,
        )
        return from_message(Report, self._channel.ask(self._query.GetReport, request))

    def stragglers(self, job: str, first_step: int | None = None, last_step: int | None = None) -> Stragglers:
        """Which rank the others wait for, over all steps or from first_step to last_step; times in s.

        Raises NotFound for a job the server does not know, Unreachable, Refused.
        """
        request = _request(
            query_pb2.GetStragglersRequest, job=job, first_step=first_step, last_step=last_step
        )
        return from_message(Stragglers, self._channel.ask(self._query.GetStragglers, request))

    def what_if(self, job: str, **changes: Any) -> WhatIf:
        """What the job would do with something changed: ranks, servers, batch (examples of a rank and step),
        bandwidth (byte/s), bandwidth_times, or fix alone ("ddp:1", "ps:0", "input"); None: as it was.

        Raises NotFound for a job the server does not know, Unreachable, and Refused for what cannot be.
        """
        request = _request(query_pb2.GetWhatIfRequest, job=job, **changes)
        return from_message(WhatIf, self._channel.ask(self._query.GetWhatIf, request))

    def steps(
        self,
        job: str,
        ranks: Sequence[str] = (),
        first_step: int | None = None,
        last_step: int | None = None,
    ) -> Iterator[TableChunk]:
        """One row per rank and step: `for chunk in steps("42"): for row in chunk.records(): ...`

        By rank, of each in order of time; all chunks have the same columns, at least rank, step, begin_ns
        (server's UNIX time, ns) and duration_ns. Others are in the unit that the column says. ranks:
        "worker:0", or several of them; none: all. Raises, when it is iterated, NotFound for a job or rank
        the server does not know, Unreachable, Refused.
        """
        return self._tables(self._query.GetSteps, _steps_request(job, ranks, first_step, last_step))

    def step_overview(self, job: str, **asked: int | None) -> StepOverview:
        """Step times and lateness of ranks in few numbers, as pictures need them. asked: first_step,
        last_step, stretches (at most so many), first_rank, last_rank (places in the order of ranks).

        Raises NotFound for a job the server does not know, Unreachable, Refused.
        """
        request = _request(query_pb2.GetStepOverviewRequest, job=job, **asked)
        return from_message(StepOverview, self._channel.ask(self._query.GetStepOverview, request))

    def newest(self, job: str) -> int:
        """Another number whenever there is something new of a job; cheap. 0: the server has had nothing of
        it since it started.

        Raises NotFound for a job the server does not know, Unreachable, Refused.
        """
        request = query_pb2.GetNewestRequest(job=job)
        return int(self._channel.ask(self._query.GetNewest, request).batch)

    def agents(self) -> list[Agent]:
        """The agents of all nodes that are known, by host. Raises ClientError."""
        answer = self._channel.ask(self._query.ListAgents, query_pb2.ListAgentsRequest())
        return [from_message(Agent, agent) for agent in answer.agents]

    def timeline(
        self,
        job: str,
        ranks: Sequence[str] = (),
        first_step: int | None = None,
        last_step: int | None = None,
        kernels: bool = False,
    ) -> Iterator[TableChunk]:
        """What every rank did when, a stretch of time a row: rank, row ("steps", "phases", "asked", "engine",
        "kernels", "not watched", "counter"), name, begin_ns and end_ns (server's UNIX time, ns), and more.

        The first rows introduce: row "job", "clock" (of a host, with `error` in s) and "rank". Arguments and
        errors as of `steps`. `roofline_client.trace` makes a file for Perfetto of it.
        """
        request = _steps_request(job, ranks, first_step, last_step, kernels)
        return self._tables(self._query.GetTimeline, request)

    def timeline_arrays(
        self,
        job: str,
        ranks: Sequence[str] = (),
        first_step: int | None = None,
        last_step: int | None = None,
        kernels: bool = False,
    ) -> Iterator[Arrays]:
        """The rows of `timeline`, columns as arrays: there may be millions of them."""
        from .trace.arrays import of_message

        request = _steps_request(job, ranks, first_step, last_step, kernels)
        return self._pieces(self._query.GetTimeline, request, of_message)

    def export(self, job: str) -> Iterator[TableChunk]:
        """The raw data of a job, dataset by dataset; times are the server's UNIX time in ns, `node_ns` the
        node's own. `roofline_client.export` writes CSV of it.

        Raises, when it is iterated, NotFound, Unreachable, Refused.
        """
        return self._tables(self._query.Export, _request(query_pb2.ExportRequest, job=job))

    def roofline(self, job: str, kind: str = "classic", points: str = "rank", **subject: Any) -> Roofline:
        """Points against roofs. kind: "classic", "hierarchical" or "network"; points: "role", "rank", "step",
        "phase", "kernel" or "layer"; subject: first_step, last_step, ranks.

        Raises NotFound for a job or rank the server does not know, Unreachable, Refused.
        """
        request = _request(
            models_pb2.GetRooflineRequest, subject=_subject(job, **subject), kind=kind, points=points
        )
        return from_message(Roofline, self._channel.ask(self._query.GetRoofline, request))

    def time_roofline(
        self,
        job: str = "",
        experiment: str = "",
        jobs: Sequence[str] = (),
        over: str = "",
        points: str = "kernel",
        **subject: Any,
    ) -> TimeRoofline:
        """Complexity and time of kernels or steps in one plane: of a job, or of several (those of an
        experiment, or those named) joined over a parameter. Errors as of `roofline`."""
        request = _request(
            models_pb2.GetTimeRooflineRequest,
            subject=_subject(job, **subject),
            experiment=experiment,
            jobs=several(jobs),
            over=over,
            points=points,
        )
        return from_message(TimeRoofline, self._channel.ask(self._query.GetTimeRoofline, request))

    def trajectory(
        self,
        experiment: str = "",
        jobs: Sequence[str] = (),
        over: str = "",
        roles: Sequence[str] = (),
        first_step: int | None = None,
        last_step: int | None = None,
    ) -> Trajectory:
        """Each role over the jobs of an experiment (or those named), in order of the parameter `over`.

        Raises NotFound for an experiment, job or role the server does not know, Unreachable, Refused.
        """
        asked = {"over": over, "roles": several(roles), "first_step": first_step, "last_step": last_step}
        request = _request(
            models_pb2.GetTrajectoryRequest, experiment=experiment, jobs=several(jobs), **asked
        )
        return from_message(Trajectory, self._channel.ask(self._query.GetTrajectory, request))

    def efficiency(self, job: str, model: ModelFlops | None = None, **subject: Any) -> Efficiency:
        """MFU, HFU and where the rest of the step goes. Errors as of `roofline`; Refused also for a model
        that cannot be."""
        asked = _subject(job, **subject)
        request = _request(
            models_pb2.GetEfficiencyRequest, subject=asked, **(model or ModelFlops())._asdict()
        )
        return from_message(Efficiency, self._channel.ask(self._query.GetEfficiency, request))

    def breakdown(self, job: str, by: str = "role", **subject: Any) -> Breakdown:
        """Parts of work, traffic and time, by "role" or "rank". Errors as of `roofline`."""
        request = _request(models_pb2.GetBreakdownRequest, subject=_subject(job, **subject), by=by)
        return from_message(Breakdown, self._channel.ask(self._query.GetBreakdown, request))

    def compare(
        self, first: str, second: str, first_step: int | None = None, last_step: int | None = None
    ) -> Comparison:
        """Two jobs side by side: settings, speed, parts of the account, places under the roof.

        Raises NotFound for a job the server does not know, Unreachable, Refused.
        """
        asked = {"first": first, "second": second, "first_step": first_step, "last_step": last_step}
        request = _request(query_pb2.GetComparisonRequest, **asked)
        return from_message(Comparison, self._channel.ask(self._query.GetComparison, request))

    def machines(self, host: str = "", history: bool = False) -> list[MachineVersion]:
        """Machines with their ceilings, newest version first; history: also versions that hold no longer.

        Raises NotFound for a host the server does not know, Unreachable, Refused.
        """
        request = _request(models_pb2.GetMachinesRequest, host=host, history=history)
        answer = self._channel.ask(self._query.GetMachines, request)
        return [from_message(MachineVersion, version) for version in answer.machines]

    def bench_net(
        self,
        from_host: str,
        to_host: str,
        seconds: float = 0.0,
        quick: bool = False,
        force: bool = False,
        address: str = "",
    ) -> Iterator[str | NetResult | NetSummary]:
        """Have two agents measure the network between them: texts of progress, results as they come, and a
        summary at last. seconds: of each measurement, 0 the default; quick: latency and bandwidth alone;
        force: also while a job runs there, which it slows down. address: of to_host, in the network to
        measure; "": that by which its agent reaches the server.

        Raises, when it is iterated, NotFound for a host, Refused when it cannot be done, Unreachable.
        """
        asked = {"seconds": seconds, "quick": quick, "force": force, "address": address}
        request = _request(models_pb2.BenchNetRequest, from_host=from_host, to_host=to_host, **asked)
        for event in self._channel.stream(self._query.BenchNet, request):
            kind = event.WhichOneof("kind")
            if kind == "progress":
                yield event.progress
            elif kind == "result":
                yield from_message(NetResult, event.result)
            elif kind == "summary":
                yield from_message(NetSummary, event.summary)

    def trace(self, job: str, steps: int = 3, ranks: Sequence[str] = ()) -> Iterator[str | RankTrace]:
        """Have ranks of a running job record their next steps with their framework's profiler: texts of
        progress, and what became of each rank. ranks: "worker:0", ...; (): all that run.

        Raises, when it is iterated, NotFound for a job or rank, Refused when it cannot be done, Unreachable.
        """
        request = _request(models_pb2.TraceJobRequest, job=job, steps=steps, ranks=ranks)
        for event in self._channel.stream(self._query.TraceJob, request):
            if event.WhichOneof("kind") == "progress":
                yield event.progress
            elif event.WhichOneof("kind") == "result":
                yield from_message(RankTrace, event.result)

    def _tables(self, method: Any, request: Any) -> Iterator[TableChunk]:
        return self._pieces(method, request, answers.chunk)

    def _pieces(self, method: Any, request: Any, read: Callable[[Any], P]) -> Iterator[P]:
        try:
            yield from map(read, self._channel.stream(method, request))
        except ValueError as error:
            raise Refused(
                f"what answers at {self._channel.server} sends no tables of this version: {error}"
            ) from None


def _subject(
    job: str, first_step: int | None = None, last_step: int | None = None, ranks: Sequence[str] = ()
) -> Any:
    return _request(
        models_pb2.Subject, job=job, first_step=first_step, last_step=last_step, ranks=several(ranks)
    )


def _steps_request(
    job: str, ranks: Sequence[str], first_step: int | None, last_step: int | None, kernels: bool = False
) -> Any:
    asked = {"ranks": several(ranks), "first_step": first_step, "last_step": last_step}
    return _request(query_pb2.GetStepsRequest, job=job, kernels=kernels, **asked)


def _request(message: Any, /, **fields: Any) -> Any:
    """Raises UsageError for what the wire cannot say: a number that is too large, text that is no UTF-8, or
    what is no part of the question."""
    for name in ("job", "first", "second"):
        if type(fields.get(name)) is int:  # job 42, which is called "42"
            fields[name] = str(fields[name])
    try:
        return message(**fields)
    except (ValueError, TypeError):
        for name, value in fields.items():
            _check(message, name, value)
        raise


def _check(message: Any, name: str, value: Any) -> None:
    if name not in message.DESCRIPTOR.fields_by_name:
        raise UsageError(f"{name} cannot be asked for: this question has no such argument")
    try:
        message(**{name: value})
    except (ValueError, TypeError) as error:
        why = "is out of range" if isinstance(value, int) else f"cannot be sent: {error}"
        raise UsageError(f"{name} {value!r} {why}") from None
