"""Who waits for whom: the verdict first, then what it is based on; JSON as its schema says."""

from __future__ import annotations

import csv
import io
import itertools
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from roofline.answers.values import Value
from roofline.answers.waits import Cause, Imbalance, RankWaits, ServerLoad, Stragglers
from roofline.v1 import query_pb2 as pb
from roofline_client import connect
from roofline_client.tables import flat
from roofline_client.tables.stragglers import as_csv, as_json, as_text, tables
from roofline_client.tables.text import show

from ..fake_server import answer, serving
from ..messages import arrived, fill, sent
from ..reports import BEGIN, SECOND, absent, seen

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/stragglers.schema.json").read_text())
KEYS = ("input_time_per_step", "communicate_time_per_step", "wait_time_per_step")


def made(**changes: object) -> Stragglers:
    values = {key: seen(0.001 * (at + 1), "s") for at, key in enumerate(KEYS)} | {"odd_thing": seen(3.0, "1")}
    cost = seen(0.0102, "s")
    whole = Stragglers(
        job="42",
        mode="synchronous",
        verdict="worker:1 holds the others up: its input costs them 10.2 ms a step",
        barrier="by arrival time at the collective",
        causes=[Cause("worker:1", "node2", "input", cost, seen(0.2, "1"), 90, 100, ["it waited for input"])],
        ranks=[
            RankWaits("worker:0", "worker", "node1", values),
            RankWaits("worker:1", "worker", "node2", {key: absent("s") for key in KEYS}),
        ],
        imbalance=[
            Imbalance(0, 49, BEGIN, BEGIN + SECOND, seen(0.001, "s"), "worker:0", seen(0.5, "1")),
            Imbalance(
                50, 99, BEGIN + SECOND, BEGIN + 2 * SECOND, seen(0.02, "s"), "worker:1", seen(0.9, "1")
            ),
            Imbalance(100, 100, BEGIN, BEGIN, absent("s"), "", absent("1")),
        ],
        servers=[ServerLoad("ps:0", "node1", {"behind": seen(0.25, "1")})],
        notes=["a note"],
    )
    return whole._replace(**changes)  # type: ignore[arg-type]


def text_of(found: Stragglers, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(as_text(found))
    return capsys.readouterr().out.splitlines()


def test_every_field_arrives() -> None:
    """Fails for a field that was added to the .proto and forgotten here."""
    message = fill(pb.Stragglers(), itertools.count(1))
    with serving(GetStragglers=answer(message)) as asked, connect(asked.address) as client:
        found = client.stragglers("42", 3, 9)
    assert set(arrived("", found)) == set(sent(message))
    (request,) = asked.requests
    assert (request.job, request.first_step, request.last_step) == ("42", 3, 9)


def test_verdict_comes_first_then_its_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    lines = text_of(made(), capsys)
    assert lines[0].startswith("worker:1 holds the others up")
    order = [
        "Causes",
        "it waited for input",
        "Where the time",
        "Waiting over time",
        "Parameter servers",
        "a note",
    ]
    places = [next(at for at, line in enumerate(lines) if word in line) for word in order]
    assert places == sorted(places)
    cause = next(line for line in lines if line.startswith("  1. "))
    assert "worker:1 @node2" in cause and "10.2 ms a step (20.0%)" in cause and "90 of 100 steps" in cause


def test_values_have_columns_by_their_titles(capsys: pytest.CaptureFixture[str]) -> None:
    lines = text_of(made(), capsys)
    at = next(at for at, line in enumerate(lines) if line.startswith("Where the time"))
    assert lines[at + 1].split() == ["input", "communicate", "wait", "odd", "thing"]
    assert lines[at + 2].split() == ["worker:0", "@node1", "1", "ms", "2", "ms", "3", "ms", "3"]
    assert lines[at + 3].split() == ["worker:1", "@node2", "-", "-", "-", "-"]
    assert any(line.startswith("ps:0 @node1") and line.endswith("25.0%") for line in lines)


def test_waiting_over_time_as_bars(capsys: pytest.CaptureFixture[str]) -> None:
    lines = text_of(made(), capsys)
    at = next(at for at, line in enumerate(lines) if line.startswith("Waiting over time"))
    assert [line[0] for line in lines[at + 2 : at + 5]] == ["▁", "█", "-"]


def test_a_healthy_job_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    whole = made(
        verdict="no rank holds the others up", causes=[], ranks=[], imbalance=[], servers=[], notes=[]
    )
    assert text_of(whole, capsys)[0] == "no rank holds the others up"
    assert len(text_of(whole, capsys)) == 2


def test_names_cannot_steer_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    whole = made(verdict="a\x1b[31m", notes=["b\x07"], barrier="c\x9b")
    shown = "\n".join(text_of(whole, capsys))
    assert not any(char in shown for char in "\x1b\x07\x9b")
    assert all(name in shown for name in ("a?[31m", "b?", "c?"))


def test_json_is_as_the_schema_says() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    faults = [e.message for e in Draft202012Validator(SCHEMA).iter_errors(json.loads(as_json(made())))]
    assert faults == []


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("value", Value),
        ("cause", Cause),
        ("rank", RankWaits),
        ("stretch", Imbalance),
        ("server", ServerLoad),
    ],
)
def test_schema_names_the_fields_of_the_records(name: str, record: type[Value]) -> None:
    assert set(SCHEMA["$defs"][name]["properties"]) == set(record._fields)
    assert set(SCHEMA["$defs"][name]["required"]) == set(record._fields)


def test_in_how_many_steps_a_rank_was_last_is_absent_where_it_is_not_known() -> None:
    known = made().causes[0]
    found = made(causes=[known, known._replace(rank="ps:0", steps=0, of_steps=0)])
    whole = json.loads(as_json(found))
    assert [e.message for e in Draft202012Validator(SCHEMA).iter_errors(whole)] == []
    assert [(one["steps"], one["of_steps"]) for one in whole["causes"]] == [(90, 100), (None, None)]
    rows = csv.DictReader(io.StringIO(as_csv(found)))
    counts = [(row["rank"], row["value"], row["reason"]) for row in rows if row["metric"] == "steps"]
    assert counts == [("worker:1", "90", "of 100")]
    causes = flat.as_csv(tables(found)["causes"])
    assert [(row["steps"], row["of_steps"]) for row in csv.DictReader(io.StringIO(causes))] == [
        ("90", "100"),
        ("", ""),
    ]


def test_csv_has_a_row_for_each_value() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(made()))))
    assert {row["subject"] for row in rows} == {"cause", "rank", "server", "stretch"}
    cost = next(row for row in rows if (row["subject"], row["metric"]) == ("cause", "cost"))
    assert (cost["rank"], cost["kind"], float(cost["value"]), cost["unit"]) == (
        "worker:1",
        "input",
        0.0102,
        "s",
    )
    lacking = next(row for row in rows if row["rank"] == "worker:1" and row["subject"] == "rank")
    assert lacking["value"] == "" and lacking["reason"] == "nobody measured it"
    assert all(None not in row and None not in row.values() for row in rows)
