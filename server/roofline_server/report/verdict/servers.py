"""Parameter servers that hold the workers up, as findings of the verdict."""

from __future__ import annotations

from roofline.answers.values import Provenance, Scope, Value, value
from roofline.answers.verdict import Finding, Gain

from ...model.servers import ServerCause
from ...sentences import reasons
from ...sentences import verdict as texts
from ...store.view import JobView
from ..evidence.gathering import Gathered
from ..waits.servers import evidence_of, served


def server_findings(view: JobView, gathered: Gathered, rate: Value) -> list[Finding]:
    """The dearest first. rate: examples/s of the job."""
    found = served(view, gathered)
    per_second = sum(worker.steps_per_second for worker in found.workers)
    cycle = len(found.workers) / per_second if per_second > 0 else 0.0
    return [_finding(cause, cycle, rate) for cause in found.causes]


def _finding(cause: ServerCause, cycle: float, rate: Value) -> Finding:
    """cycle: seconds from step to step of a worker."""
    gain = Gain(cycle, cycle - cause.cost, cycle - cause.bounds.high, cycle - cause.bounds.low)
    faster = rate.value * cycle / gain.without if rate.value is not None and gain.without > 0 else None
    return Finding(
        kind=cause.kind,
        rank=cause.rank,
        host=cause.host,
        sentence=texts.finding(cause.kind, [cause.rank]),
        cost=Value(cause.cost, "s", Provenance.ESTIMATED, Scope.ROLE),
        share=Value(cause.cost / cycle, "1", Provenance.ESTIMATED, Scope.ROLE),
        gain=gain,
        rate=value(
            faster,
            "examples/s",
            Provenance.ESTIMATED,
            Scope.ROLE,
            missing=rate.reason or reasons.NO_EXAMPLES,
        ),
        confidence="high",
        why="",
        evidence=evidence_of(cause),
        tries=[],
    )
