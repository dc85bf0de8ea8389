"""What can be asked about one job, or about the jobs of an experiment: `connect(server).job("42")`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

from roofline.answers.model_flops import ModelFlops

from .connection import Connection
from .errors import UsageError
from .results.jobs import ReportResult, StragglersResult, WhatIfResult
from .results.models import (
    BreakdownResult,
    EfficiencyResult,
    RooflineResult,
    TimeRooflineResult,
    TrajectoryResult,
)
from .results.pieces import ExportResult, StepsResult, TimelineResult
from .step_range import checked, parse_steps
from .tables.names import several

Steps = str | SupportsIndex | tuple[SupportsIndex | None, SupportsIndex | None]


def step_range(steps: Steps) -> tuple[int | None, int | None]:
    """(first, last), inclusive, of "10:90", "10:", ":90", 10, (10, None), "all" or "". Raises UsageError."""
    if isinstance(steps, tuple):
        try:
            first, last = map(_bound, steps)
        except (TypeError, ValueError):
            raise UsageError(f"steps {steps!r} must be (FIRST, LAST), as (10, 90) or (10, None)") from None
        return checked(first, last)
    return parse_steps(str(steps))


def _bound(step: SupportsIndex | None) -> int | None:
    """A whole number of any type, as NumPy's. Raises TypeError."""
    if isinstance(step, bool):
        raise TypeError
    return None if step is None else operator.index(step)


class JobQuestions:
    """Questions about one job; each asks the server when it is called.

    `steps` is which steps, both ends inclusive: "10:90", "10:", 10, (10, 90), or "all"; "" are the steady
    ones, of `steps` and `timeline` all. `ranks`: only these, as "worker:0" or ["worker:0", "ps:0"]. All raise
    NotFound for a job or rank the server does not know, Unreachable and Refused.
    """

    def __init__(self, connection: Connection, job: str) -> None:
        self._connection = connection
        self.job = job

    def __repr__(self) -> str:
        return f"<questions about job {self.job}>"

    def report(self, steps: Steps = "") -> ReportResult:
        """What each role and rank reached, against the roof of its node."""
        return ReportResult(self._connection.report(self.job, *step_range(steps)))

    def roofline(
        self, kind: str = "classic", points: str = "rank", steps: Steps = "", ranks: Sequence[str] = ()
    ) -> RooflineResult:
        """Points against roofs. kind: "classic", "hierarchical" or "network"; points: what one is, "role",
        "rank", "step", "phase", "kernel" or "layer"."""
        return RooflineResult(self._connection.roofline(self.job, kind, points, **_subject(steps, ranks)))

    def time_roofline(
        self, points: str = "kernel", steps: Steps = "", ranks: Sequence[str] = ()
    ) -> TimeRooflineResult:
        """Complexity and run time in one plane; points: what one is, "kernel" or "step"."""
        asked = _subject(steps, ranks)
        return TimeRooflineResult(self._connection.time_roofline(self.job, points=points, **asked))

    def breakdown(self, by: str = "role", steps: Steps = "", ranks: Sequence[str] = ()) -> BreakdownResult:
        """Parts of work, traffic and time, by "role" or "rank"."""
        return BreakdownResult(self._connection.breakdown(self.job, by, **_subject(steps, ranks)))

    def efficiency(
        self,
        flops_per_example: float | None = None,
        flops_per_step: float | None = None,
        parameters: float | None = None,
        tokens_per_example: float | None = None,
        layers: float | None = None,
        hidden: float | None = None,
        causal: bool = False,
        precision: str = "",
        sparse: bool = False,
        steps: Steps = "",
        ranks: Sequence[str] = (),
    ) -> EfficiencyResult:
        """MFU, HFU, and where the rest of the step goes.

        Of the model, forward and backward: its FLOPs of an example, or of a step of a rank; or those of a
        transformer by its parameters, with layers and hidden (heads x width of a head) for its attention.
        Without any of them those that were executed, where nothing recomputes. precision: of the peak
        ("bf16"), where it is not that of most FLOPs. sparse: also against the sparse peak."""
        model = ModelFlops(
            flops_per_example,
            flops_per_step,
            parameters,
            tokens_per_example,
            layers,
            hidden,
            causal,
            precision,
            sparse,
        )
        return EfficiencyResult(self._connection.efficiency(self.job, model, **_subject(steps, ranks)))

    def stragglers(self, steps: Steps = "") -> StragglersResult:
        """Which rank the others wait for."""
        return StragglersResult(self._connection.stragglers(self.job, *step_range(steps)))

    def what_if(
        self,
        ranks: int | None = None,
        servers: int | None = None,
        batch: float | None = None,
        bandwidth: float | None = None,
        bandwidth_times: float | None = None,
        fix: str = "",
    ) -> WhatIfResult:
        """What it would do with other ranks, parameter servers, examples a rank and step, or links (byte/s,
        or times as fast); or with a rank or a part of its steps fixed ("ddp:1", "ps:0", "input")."""
        changes = {"ranks": ranks, "servers": servers, "batch": batch, "bandwidth": bandwidth}
        found = self._connection.what_if(self.job, **changes, bandwidth_times=bandwidth_times, fix=fix)
        return WhatIfResult(found)

    def steps(self, steps: Steps = "", ranks: Sequence[str] = ()) -> StepsResult:
        """One row per rank and step."""
        subject = _subject(steps, ranks)
        chunks = self._connection.steps(self.job, ranks, *step_range(steps))
        return StepsResult(
            self.job, chunks, lambda: self._connection.roofline(self.job, points="role", **subject).about
        )

    def timeline(self, steps: Steps = "", ranks: Sequence[str] = (), kernels: bool = False) -> TimelineResult:
        """What every rank did when; kernels: every executed kernel too."""
        chunks = self._connection.timeline(self.job, ranks, *step_range(steps), kernels)
        return TimelineResult(self.job, chunks)

    def export(self) -> ExportResult:
        """The raw data, all of it in memory; `Connection.export` hands it on in pieces."""
        return ExportResult(self.job, self._connection.export(self.job))


class ExperimentQuestions:
    """Questions about several jobs: those tagged experiment=NAME, or these. Errors as of JobQuestions."""

    def __init__(self, connection: Connection, experiment: str = "", jobs: Sequence[str] = ()) -> None:
        self._connection = connection
        self.experiment = experiment
        self.jobs = several(jobs)

    def __repr__(self) -> str:
        return f"<questions about experiment {self.experiment or ', '.join(self.jobs)}>"

    def trajectory(self, over: str, roles: Sequence[str] = (), steps: Steps = "") -> TrajectoryResult:
        """Each role under its roof in order of `over`: a tag, or "nodes", "ranks", "ps", "batch", "threads",
        "ranks_per_node"."""
        first, last = step_range(steps)
        found = self._connection.trajectory(self.experiment, self.jobs, over, roles, first, last)
        return TrajectoryResult(found)

    def time_roofline(
        self, over: str, points: str = "kernel", steps: Steps = "", ranks: Sequence[str] = ()
    ) -> TimeRooflineResult:
        """Kernels or steps of all jobs in one plane, joined in order of `over`."""
        asked = _subject(steps, ranks)
        found = self._connection.time_roofline("", self.experiment, self.jobs, over, points, **asked)
        return TimeRooflineResult(found)


def _subject(steps: Steps, ranks: Sequence[str]) -> dict[str, Any]:
    first, last = step_range(steps)
    return {"first_step": first, "last_step": last, "ranks": ranks}
