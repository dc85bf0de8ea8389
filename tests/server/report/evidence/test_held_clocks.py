"""GPUs whose clocks were held down: which are named, where, and with what."""

from __future__ import annotations

from roofline.answers.values import Provenance, Scope
from roofline_server.correlate.parts import PartTotal
from roofline_server.records import NODE_RANK, Metric
from roofline_server.report.evidence.held_clocks import held_clocks
from roofline_server.report.job.parts import part_reports
from roofline_server.store.store import Store

from ..nodes import A, job_on, number_of

REASONS = Metric("gpu", "throttle_reasons", 2, "1", Scope.GPU, Provenance.MEASURED, False, "")


def held(rank: int, gpu: str, **shares: float) -> PartTotal:
    return PartTotal(rank, 1, gpu, REASONS, 100.0, samples=100, shares=shares)


def test_heat_and_brakes_are_named_but_not_the_usual_limit_of_power(store: Store) -> None:
    view = job_on(store, A)
    first, second = (number_of(view, index) for index in (0, 1))
    parts = [
        held(second, "gpu 1", hw_slowdown=0.4, hw_thermal=0.4, power_cap=0.9, sw_thermal=0.01),
        held(first, "gpu 0", hw_slowdown=0.2),
        held(NODE_RANK, "gpu 2", hw_thermal=1.0),
    ]
    found = held_clocks(view._replace(parts=parts))
    assert [(one.gpu, dict(one.shares)) for one in found] == [
        ("gpu 0", {"hw_slowdown": 0.2}),
        ("gpu 1", {"hw_thermal": 0.4}),
    ]


def test_parts_have_the_share_of_each_reason(store: Store) -> None:
    view = job_on(store, A)
    (part,) = part_reports(view._replace(parts=[held(NODE_RANK, "gpu 0", power_cap=0.5)]))
    assert {name: known.value for name, known in part.values.items()} == {
        "throttle_reasons.power_cap.mean": 0.5
    }
