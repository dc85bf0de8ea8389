"""Predictions: the answer first, then the numbers with their range, and what they are based on."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import typer
from jsonschema import Draft202012Validator
from roofline.answers.values import Value
from roofline.answers.what_if import Predicted, WhatIf
from roofline_client.commands.what_if import parse_bandwidth
from roofline_client.tables.text import show
from roofline_client.tables.what_if import as_csv, as_json, as_text, tables

from ..reports import absent, seen

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "what_if.schema.json").read_text())


def made(**changes: object) -> WhatIf:
    whole = WhatIf(
        job="42",
        change="3 ranks instead of 2",
        mode="synchronous",
        sentence="with 3 ranks instead of 2: about 150 examples/s",
        step=Predicted(seen(0.02, "s"), seen(0.025, "s"), 0.021, 0.03),
        rate=Predicted(seen(100.0, "examples/s"), seen(150.0, "examples/s"), 140.0, 160.0),
        basis=["148 steady steps of 2 ranks"],
        notes=["a note"],
    )
    return whole._replace(**changes)  # type: ignore[arg-type]


def test_the_answer_comes_first_then_numbers_and_what_they_stand_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(as_text(made()))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "with 3 ranks instead of 2: about 150 examples/s"
    (step,) = [line for line in lines if line.startswith("step")]
    assert [part in step for part in ("20 ms", "25 ms", "21 ms", "30 ms")] == [True] * 4
    assert any("148 steady steps" in line for line in lines)
    assert any("a note" in line for line in lines)


def test_what_cannot_be_told_has_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = Predicted(seen(0.02, "s"), absent("s"), None, None)
    show(as_text(made(sentence="cannot be predicted: no steps", step=nothing, rate=nothing, basis=[])))
    out = capsys.readouterr().out
    assert out.startswith("cannot be predicted")
    assert "at least" not in out


def test_csv_has_a_row_for_the_step_and_one_for_the_rate() -> None:
    step, rate = csv.DictReader(io.StringIO(as_csv(made())))
    assert (step["metric"], step["then"], step["low"], step["high"], step["unit"]) == (
        "step",
        "0.025",
        "0.021",
        "0.03",
        "s",
    )
    assert (rate["metric"], rate["now"]) == ("rate", "100.0")
    assert list(tables(made())) == ["predictions"]


def test_json_is_the_record() -> None:
    whole = json.loads(as_json(made()))
    assert whole["version"] == 1
    assert whole["step"]["then"]["value"] == 0.025
    assert whole["rate"]["high"] == 160


NOTHING = Predicted(absent("s"), absent("s"), None, None)


@pytest.mark.parametrize("found", [made(), made(mode="", step=NOTHING, rate=NOTHING, basis=[], notes=[])])
def test_json_is_as_its_schema_says(found: WhatIf) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert [
        error.message for error in Draft202012Validator(SCHEMA).iter_errors(json.loads(as_json(found)))
    ] == []


@pytest.mark.parametrize(
    ("name", "record"), [("value", Value), ("predicted", Predicted), ("", WhatIf)], ids=str
)
def test_schema_and_records_have_the_same_fields(name: str, record: type) -> None:
    described = SCHEMA["$defs"][name] if name else SCHEMA
    fields = [*record._fields, *([] if name else ["version"])]  # type: ignore[attr-defined]
    assert sorted(described["properties"]) == sorted(described["required"]) == sorted(fields)


def test_range_of_what_is_absent_is_refused() -> None:
    wrong = made(step=NOTHING._replace(low=0.1))
    assert list(Draft202012Validator(SCHEMA).iter_errors(json.loads(as_json(wrong))))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", (None, None)),
        ("2x", (2.0, None)),
        ("25Gbit", (None, 25e9 / 8)),
        ("3GB", (None, 3e9)),
        ("1.5 MB/s", (None, 1.5e6)),
        ("100B", (None, 100.0)),
    ],
)
def test_bandwidths_as_people_write_them(given: str, found: tuple[float | None, float | None]) -> None:
    assert parse_bandwidth(given) == found


@pytest.mark.parametrize("given", ["fast", "3", "0x", "-1GB", "3Gb"])
def test_what_is_no_bandwidth(given: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_bandwidth(given)
