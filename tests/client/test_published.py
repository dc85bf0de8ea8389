"""What of a report goes to a tracker."""

from __future__ import annotations

import pytest
from roofline.answers.efficiency import Utilisation, UtilisationMeasure
from roofline.answers.report import Report
from roofline.answers.values import Value
from roofline_client.trackers.published import Published, published

from .reports import absent, empty_summary, rank, report
from .verdicts import account, healthy, verdict

ACCOUNTS = [
    account("worker:0", compute=0.5, wait_ps=0.5),
    account("worker:1", compute=0.7, input__host=0.3),
    account("ps:0", None),
]


OF_ALL = Utilisation(
    "2 ranks",
    "",
    "",
    "fp32",
    40,
    [
        UtilisationMeasure("step", Value(0.2, "s"), "from the end of a step to the end of the next"),
        UtilisationMeasure("mfu", Value(0.37, "1"), ""),
        UtilisationMeasure("hfu", absent("1"), ""),
        UtilisationMeasure("peak", Value(1e12, "FLOP/s"), ""),
    ],
    [],
)


def published_of(found: Report) -> Published:
    return published(found, OF_ALL)


def test_utilisation_of_the_peaks_is_among_the_numbers_where_it_is_known() -> None:
    found = published_of(report([rank("worker:0")], verdict=verdict()))
    assert found.metrics["mfu"] == 0.37
    assert not {"hfu", "peak"} & set(found.metrics)
    without = published(report([rank("worker:0")], verdict=verdict()), None).metrics
    assert not {"mfu", "steps_per_second"} & set(without)


def test_numbers_and_shares_of_the_step() -> None:
    found = published_of(report([rank("worker:0"), rank("ps:0")], verdict=verdict(accounts=ACCOUNTS)))
    assert found.metrics["examples_per_second"] == 404.4 and found.metrics["step_median_seconds"] == 0.093
    assert found.metrics["steps_per_second"] == pytest.approx(1 / 0.2)
    shares = {name: value for name, value in found.metrics.items() if name.startswith("share/")}
    assert shares == pytest.approx(
        {"share/worker/compute": 0.6, "share/worker/wait_ps": 0.25, "share/worker/input_or_host": 0.15}
    )
    assert found.tags["bottleneck"] == "server_overloaded" and found.metrics["bottleneck_share"] == 0.48
    assert found.headline == "ps:1 stalls the workers"


def test_what_was_not_measured_is_no_number() -> None:
    unknown = verdict(examples_per_second=absent("examples/s"), accounts=[])
    found = published_of(report([rank("worker:0", what=empty_summary())], verdict=unknown))
    assert "examples_per_second" not in found.metrics
    assert not [name for name in found.metrics if name.startswith(("flops_per_second", "share/"))]


def test_healthy_job_has_no_bottleneck() -> None:
    found = published_of(report([rank("worker:0")], verdict=healthy()))
    assert found.tags["verdict"] == "healthy" and "bottleneck" not in found.tags
    assert "bottleneck_share" not in found.metrics
