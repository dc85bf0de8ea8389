"""Sources of this machine compared with works that are really done, and sources that lie."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from roofline_agent.records import (
    CounterSet,
    Metric,
    MetricKind,
    Rank,
    Sample,
    Scope,
    Source,
    SourceSettings,
    SourceStatus,
)
from roofline_agent.sources import make_sources
from roofline_agent.validate.node import ValidateRequest, validate
from roofline_agent.validate.runner import Result
from roofline_agent.validate.validation import Check, Validation

SETTINGS = SourceSettings(interval_ns=100_000_000)


class Lying:
    """A source of this machine that gives a share of one of its values."""

    def __init__(self, source: Source, metric: str, share: float) -> None:
        self._source, self._share = source, share
        self.name, self.fills, self.measures = source.name, source.fills, source.measures
        self.counter_set = source.counter_set
        self._at = [one.name for one in source.counter_set.metrics].index(metric)

    def probe(self) -> SourceStatus:
        return self._source.probe()

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        return [self._told(row) for row in self._source.sample(ranks)]

    def _told(self, row: Sample) -> Sample:
        values = list(row.values)
        value = values[self._at]
        values[self._at] = None if value is None else int(value * self._share)
        return row._replace(values=tuple(values))

    def close(self) -> None:
        self._source.close()


def found_of(
    place: Path, *names: str, repeats: int = 1, lies: tuple[str, float] | None = None
) -> tuple[Validation, list[Result]]:
    known = [name for name in names if name not in ("hooks", "perf_software")]
    sources: dict[str, Source] = dict(make_sources(known, SETTINGS)) if known else {}
    if lies:
        sources[names[0]] = Lying(sources[names[0]], *lies)
    shown: list[Result] = []
    request = ValidateRequest(sources, names, repeats, SETTINGS, place)
    return validate(request, shown.append, lambda text: None), shown


def check_of(found: Validation, metric: str, word: str = "") -> Check:
    (only,) = [one for one in found.checks if one.metric == metric and word in one.work]
    return only


def test_tcp_bytes_are_right_and_a_source_that_lies_by_a_fifth_is_named(tmp_path: Path) -> None:
    right, shown = found_of(tmp_path, "tcp")
    sent, unread = check_of(right, "tcp_sent_bytes"), check_of(right, "tcp_unread_bytes")
    assert (sent.done, sent.runs) == ((32 << 20) + 16, 1)
    assert right.off == ()
    assert (unread.done, unread.median) == (64 << 10, 0)
    assert {one.metric for one in shown if isinstance(one, Check)} == {one.metric for one in right.checks}
    assert list(tmp_path.iterdir()) == [], "it leaves no files"

    wrong, _ = found_of(tmp_path, "tcp", lies=("tcp_sent_bytes", 0.8))
    assert [one.metric for one in wrong.off] == ["tcp_sent_bytes"]
    assert wrong.off[0].median == pytest.approx(-0.2, abs=0.01)


def test_steps_of_known_length(tmp_path: Path) -> None:
    found, _ = found_of(tmp_path, "hooks", repeats=2)
    steps, took = check_of(found, "steps"), check_of(found, "step_ns")
    assert (steps.done, steps.least, steps.most, steps.runs) == (20, 0, 0, 2)
    assert took.done > 20 * 0.01 * 1e9
    assert abs(took.median) < 0.01


def test_source_that_does_not_work_is_not_checked_with_its_reason(tmp_path: Path) -> None:
    nowhere = SourceSettings(sys=str(tmp_path / "sys"))
    request = ValidateRequest(
        make_sources(["resctrl"], nowhere), ("resctrl",), 1, nowhere, tmp_path / "state"
    )
    found = validate(request, lambda one: None, lambda text: None)
    (only,) = found.unchecked
    assert only.source == "resctrl" and "has no resctrl" in only.reason and "bare metal" in only.advice
    assert found.checks == ()


def test_metrics_without_work_are_listed(tmp_path: Path) -> None:
    found, _ = found_of(tmp_path, "tcp")
    (rest,) = found.unchecked
    assert rest.source == "tcp" and "tcp_busy_ns" in rest.metric and "tcp_sent_bytes" not in rest.metric


@pytest.mark.slow
def test_process_accounts_of_this_machine(tmp_path: Path) -> None:
    found, _ = found_of(tmp_path, "process", repeats=3)
    assert [one for one in found.off if one.metric != "stopped_ns"] == []
    assert check_of(found, "cpu_ns", "computes").done >= 5e8
    assert check_of(found, "cpu_ns", "sleeps").done == 0
    metrics = {one.metric for one in (*found.checks, *found.unchecked)}
    assert {"rss_bytes", "minor_faults", "threads", "stopped_ns"} <= metrics
    wrong, _ = found_of(tmp_path, "process", lies=("cpu_ns", 0.8))
    assert "cpu_ns" in [one.metric for one in wrong.off]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf")
def test_perf_with_events_of_the_kernel(tmp_path: Path) -> None:
    found, _ = found_of(tmp_path, "perf_software", repeats=3)
    if not found.checks:
        pytest.skip(found.unchecked[0].reason)
    assert {one.metric for one in found.checks} == {"cpu_clock_ns", "page_faults"}
    assert found.off == ()


class Meter:
    """A counter of energy that shows so many watts all the time."""

    name, fills, measures = "rapl", "energy", False
    counter_set = CounterSet(
        "rapl", (Metric("energy_package_joules", MetricKind.CUMULATIVE, "J", Scope.SOCKET, is_double=True),)
    )

    def __init__(self, watts: float) -> None:
        self._watts = watts

    def probe(self) -> SourceStatus:
        return SourceStatus(self.name, True)

    def sample(self, ranks: Sequence[Rank]) -> list[Sample]:
        now = time.monotonic_ns()
        return [Sample(None, now, (self._watts * now / 1e9,), f"socket {number}") for number in range(2)]

    def close(self) -> None: ...


@pytest.mark.slow
@pytest.mark.parametrize(("watts", "off"), [(60.0, False), (6e7, True), (6e-5, True)])
def test_energy_is_plausible_or_in_a_wrong_unit(tmp_path: Path, watts: float, off: bool) -> None:
    request = ValidateRequest({"rapl": Meter(watts)}, ("rapl",), 1, SETTINGS, tmp_path)
    found = validate(request, lambda one: None, lambda text: None)
    (only,) = found.checks
    assert only.is_off == off
    if not off:
        assert only.done == pytest.approx(2 * watts, rel=0.05), "of both sockets, without what idling took"
