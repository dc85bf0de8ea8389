"""Answer records and their messages: every field has its counterpart, and what goes there comes back."""

from __future__ import annotations

from typing import Any

import pytest
from roofline.answers import (
    about,
    breakdown,
    efficiency,
    jobs,
    machines,
    report,
    time_roofline,
    trajectory,
    values,
    waits,
)
from roofline.answers import roofline as rooflines
from roofline.convert import from_message, to_message
from roofline.v1 import machine_pb2, models_pb2, query_pb2, values_pb2

from .client.machine_versions import ALL
from .client.reports import report as made_report

MODULES = (
    about,
    breakdown,
    efficiency,
    jobs,
    machines,
    report,
    rooflines,
    time_roofline,
    trajectory,
    values,
    waits,
)
RECORDS = {
    name: record
    for module in MODULES
    for name, record in vars(module).items()
    if hasattr(record, "_fields") and isinstance(record, type) and record.__module__ == module.__name__
}
MESSAGES = {
    name: message
    for module in (machine_pb2, values_pb2, query_pb2, models_pb2)
    for name, message in vars(module).items()
    if hasattr(message, "DESCRIPTOR") and isinstance(message, type)
}
SECONDS = values.Value(0.5, "s", values.Provenance.MEASURED, values.Scope.ROLE, 0.75, "a note")


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_record_has_the_fields_of_its_message(name: str) -> None:
    assert set(RECORDS[name]._fields) == {field.name for field in MESSAGES[name].DESCRIPTOR.fields}


@pytest.mark.parametrize(
    ("names", "enum"),
    [(values.Provenance, machine_pb2.Provenance), (values.Scope, machine_pb2.Scope)],
)
def test_enums_have_the_names_and_numbers_of_the_wire(names: Any, enum: Any) -> None:
    prefix = names.__name__.upper()
    assert {f"{prefix}_{member.name}": member.number for member in names} == dict(enum.items())
    assert [str(member) for member in names] == ["", *(member.name.lower() for member in list(names)[1:])]


def test_number_of_a_newer_enum_is_unspecified() -> None:
    message = values_pb2.Value(unit="s", provenance=99)
    assert from_message(values.Value, message).provenance == values.Provenance.UNSPECIFIED


def test_value_comes_back_whole_and_absence_stays_absence() -> None:
    for value in (SECONDS, SECONDS._replace(value=0.0, coverage=0.0), values.Value(None, "s", reason="none")):
        assert from_message(values.Value, to_message(values_pb2.Value(), value)) == value


def test_maps_and_lists_of_records_come_back() -> None:
    waiting = waits.Stragglers(
        "job",
        "synchronous",
        "a verdict",
        "a barrier",
        [waits.Cause("worker:1", "hosta", "input", SECONDS, SECONDS, 3, 4, ["why"])],
        [waits.RankWaits("worker:1", "worker", "hosta", {"late_per_step": SECONDS})],
        [waits.Imbalance(1, 2, 3, 4, SECONDS, "worker:1", SECONDS)],
        [waits.ServerLoad("ps:0", "hosta", {"awaited": values.Value(None, "1", reason="not seen")})],
        ["a note"],
    )
    assert from_message(waits.Stragglers, to_message(query_pb2.Stragglers(), waiting)) == waiting


def test_report_comes_back_but_for_what_is_left_out_and_given() -> None:
    whole = made_report(first_step=0)
    message = to_message(query_pb2.Report(), whole, without=["sources"])
    assert message.HasField("first_step") and not message.HasField("last_step")
    assert from_message(report.Report, message, sources=whole.sources) == whole


def test_pid_that_nobody_reported_is_none() -> None:
    message = query_pb2.RankReport(rank="worker:0")
    assert from_message(report.RankReport, message).pid is None
    assert to_message(query_pb2.RankReport(), from_message(report.RankReport, message)).pid == 0


def test_roles_of_a_job_are_pairs_on_the_wire() -> None:
    job = jobs.Job("42", 1, 2, 3, {"worker": 2, "ps": 1}, ["hosta"], True, {"nodes": "1"})
    message = to_message(query_pb2.Job(), job)
    assert [(role.role, role.ranks) for role in message.roles] == [("worker", 2), ("ps", 1)]
    assert from_message(jobs.Job, message) == job


def test_machines_come_back() -> None:
    for version in ALL:
        assert (
            from_message(machines.MachineVersion, to_message(models_pb2.MachineVersion(), version)) == version
        )


def test_fields_that_a_record_does_not_have_are_ignored() -> None:
    kept = from_message(report.Alignment, query_pb2.Gap(host="a", reason="why"), error=SECONDS)
    assert kept == report.Alignment("a", SECONDS)
