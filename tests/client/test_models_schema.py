"""docs/models.schema.json is what the models' commands print with --format json, no more and no less."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from roofline_client import breakdowns, model_records, rooflines, time_rooflines, trajectories

from . import models
from .test_schema import objects

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = json.loads((DOCS / "models.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
FORMS: dict[str, Any] = {
    "roofline": rooflines,
    "time_roofline": time_rooflines,
    "trajectory": trajectories,
    "breakdown": breakdowns,
}


def faults(whole: Any) -> list[str]:
    """Against the schema of its model, so that the fault is named and not that none of four fits."""
    one = Draft202012Validator({"$ref": f"#/$defs/{whole['model']}", "$defs": SCHEMA["$defs"]})
    return [f"{e.json_path}: {e.message}" for e in one.iter_errors(whole)]


def printed(model: str) -> Any:
    return json.loads(FORMS[model].as_json(models.made(model)))


def test_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("model", FORMS)
def test_made_up_answers_validate(model: str) -> None:
    assert faults(printed(model)) == []
    assert VALIDATOR.is_valid(printed(model))


def test_every_object_is_closed_whole_and_described() -> None:
    for one in objects(SCHEMA):
        assert one["additionalProperties"] is False
        assert set(one["required"]) == set(one["properties"])
        assert all(field.get("description") for field in one["properties"].values())


def test_what_reports_have_too_is_the_same() -> None:
    shared = json.loads((DOCS / "report.schema.json").read_text())["$defs"]
    for name in ("value", "ceiling", "roof"):
        assert SCHEMA["$defs"][name] == shared[name]


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("about", model_records.About),
        ("machine", model_records.MachineAbout),
        ("spread", model_records.Spread),
        ("point", model_records.RoofPoint),
        ("crossing", model_records.Crossing),
        ("time_point", model_records.TimePoint),
        ("box", model_records.OverheadBox),
        ("isocurve", model_records.Isocurve),
        ("panel", model_records.TimePanel),
        ("stop", model_records.Stop),
        ("path", model_records.Path),
        ("part", model_records.BreakdownPart),
    ],
)
def test_schema_names_the_fields_of_the_records(name: str, record: Any) -> None:
    assert set(SCHEMA["$defs"][name]["properties"]) == set(record._fields)


@pytest.mark.parametrize("model", FORMS)
def test_schema_names_the_fields_of_the_answers(model: str) -> None:
    fields = set(SCHEMA["$defs"][model]["properties"]) - {"version", "model"}
    assert fields == set(models.MODELS[model].record._fields)


Change = Callable[[Any], object]


@pytest.mark.parametrize(
    ("model", "change"),
    [
        ("roofline", lambda a: a.update(more=1)),
        ("roofline", lambda a: a.update(kind="time")),
        ("roofline", lambda a: a["points"][0].pop("headroom")),
        ("roofline", lambda a: a["points"][1]["intensity"].update(reason="")),
        ("roofline", lambda a: a["points"][1]["intensity"].update(value=0)),
        ("roofline", lambda a: a["points"][0]["flops_spread"].update(count=-1)),
        ("time_roofline", lambda a: a["panels"][0]["points"][0].update(bound="time")),
        ("time_roofline", lambda a: a["panels"][0].update(balance=50.0)),
        ("trajectory", lambda a: a["paths"][0]["stops"][0].update(at=1)),
        ("breakdown", lambda a: a["parts"][0].update(kind="flops")),
    ],
)
def test_wrong_answer_does_not_validate(model: str, change: Change) -> None:
    whole = printed(model)
    change(whole)
    assert faults(whole)
