"""Efficiency: the answer, its numbers, the waterfall with bars, and the ranks."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
import typer
from jsonschema import Draft202012Validator
from roofline.answers.about import About, MachineAbout
from roofline.answers.efficiency import Efficiency, Utilisation, UtilisationMeasure, WaterfallPart
from roofline.answers.values import Value
from roofline.convert import from_message
from roofline_client.commands.efficiency import parse_flops
from roofline_client.tables.efficiencies import as_csv, as_json, as_text, tables
from roofline_client.tables.text import show

from .. import models

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "efficiency.schema.json").read_text())
RECORDS = {
    "": Efficiency,
    "utilisation": Utilisation,
    "measure": UtilisationMeasure,
    "part": WaterfallPart,
    "about": About,
    "machine": MachineAbout,
    "value": Value,
}


def made() -> Efficiency:
    return from_message(Efficiency, models.efficiency())


def test_the_answer_its_numbers_the_waterfall_and_the_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    show(as_text(made()))
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "MFU 25.0% of the measured FP32 peak"

    def line(begin: str) -> str:
        (found,) = [one for one in lines if one.startswith(begin)]
        return found

    assert "25.0%" in line("  MFU") and "formula of mfu" in line("  MFU")
    assert [
        word in line("  the model's FLOPs") for word in ("5 ms", "25.0%", "█████", "formula of useful")
    ] == [True] * 4
    assert "input or host" in out and "below the roof" in out
    assert line("worker:1").split()[1:] == ["20", "ms", "25.0%", "-", "50.0%"]
    assert "a note" in out


def test_what_is_absent_has_its_reason_and_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = made()
    hfu = next(one for one in found.whole.measures if one.name == "hfu")
    show(as_text(found))
    out = capsys.readouterr().out
    assert "formula of hfu" not in out and hfu.value.reason in out


def test_one_step_is_no_plural(capsys: pytest.CaptureFixture[str]) -> None:
    found = made()
    show(as_text(found._replace(whole=found.whole._replace(steps=1))))
    assert f"{found.whole.label}, 1 step, " in capsys.readouterr().out


def test_csv_has_a_row_for_each_number_and_part() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(made()))))
    assert len(rows) == 3 * (5 + 3)
    parts = [row for row in rows if row["kind"] == "waterfall" and row["rank"] == "worker:0"]
    assert [row["name"] for row in parts] == ["useful", "kernels", "input|host"]
    assert sum(float(row["value"]) for row in parts) == pytest.approx(0.02)
    assert sum(float(row["share"]) for row in parts) == pytest.approx(1)
    (hfu,) = [row for row in rows if (row["name"], row["rank"]) == ("hfu", "worker:1")]
    assert hfu["value"] == "" and hfu["reason"]
    assert list(tables(made())) == ["measures", "waterfall"]


def nothing() -> Efficiency:
    whole = made().whole._replace(measures=[], waterfall=[], precision="", steps=0)
    return made()._replace(whole=whole, ranks=[], notes=[])


@pytest.mark.parametrize("found", [made(), nothing()])
def test_json_is_as_its_schema_says(found: Efficiency) -> None:
    Draft202012Validator.check_schema(SCHEMA)
    errors = Draft202012Validator(SCHEMA).iter_errors(json.loads(as_json(found)))
    assert [error.message for error in errors] == []


@pytest.mark.parametrize("name", RECORDS)
def test_schema_and_records_have_the_same_fields(name: str) -> None:
    described = SCHEMA["$defs"][name] if name else SCHEMA
    fields = [*RECORDS[name]._fields, *([] if name else ["version"])]  # type: ignore[attr-defined]
    assert sorted(described["properties"]) == sorted(described["required"]) == sorted(fields)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("", (None, None)),
        ("6.2e9", (6.2e9, None)),
        ("6.2E+9/example", (6.2e9, None)),
        ("6.2e12/step", (None, 6.2e12)),
        (" 7 ", (7.0, None)),
    ],
)
def test_flops_of_an_example_or_of_a_step(given: str, found: tuple[float | None, float | None]) -> None:
    assert parse_flops(given) == found


@pytest.mark.parametrize("given", ["many", "0", "-1", "1e9/epoch", "1.2.3", "inf", "nan", "e9", "."])
def test_what_are_no_flops(given: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_flops(given)
