"""docs/models.schema.json is what the models' commands print with --format json, no more and no less."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from roofline.answers.about import About, MachineAbout
from roofline.answers.breakdown import BreakdownPart
from roofline.answers.roofline import Crossing, RoofPoint
from roofline.answers.time_roofline import Isocurve, OverheadBox, TimePanel, TimePoint
from roofline.answers.trajectory import Path as RolePath
from roofline.answers.trajectory import Stop
from roofline.answers.values import Spread
from roofline_agent.calibrate.store import save
from roofline_client import connect
from roofline_client.tables import breakdowns, rooflines, time_rooflines, trajectories
from roofline_client.tables.text import rendered

from ...end_to_end.conftest import Site, wait_until
from .. import models
from .schemas import CALIBRATION, objects

KINDS = ("classic", "hierarchical", "network", "time")
POINTS = ("role", "rank", "step", "phase", "kernel")
DOCS = Path(__file__).parents[3] / "docs"
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


def test_time_roofline_of_a_node_without_ceilings_validates() -> None:
    made = models.made("time_roofline")
    bare = made._replace(panels=[made.panels[0]._replace(compute=None, memory=None)])
    whole = json.loads(time_rooflines.as_json(bare))
    assert (whole["panels"][0]["compute"], whole["panels"][0]["memory"], faults(whole)) == (None, None, [])
    panels = time_rooflines.tables(bare)["panels"]
    row = dict(zip(panels.columns, panels.rows[0], strict=True))
    assert (row["host"], row["compute_value"], row["memory_name"]) == (made.panels[0].host, None, None)
    rendered(time_rooflines.as_text(bare))


def test_every_object_is_closed_whole_and_described() -> None:
    for one in objects(SCHEMA):
        assert one["additionalProperties"] is False
        assert set(one["required"]) == set(one["properties"])
        assert all(field.get("description") for field in one["properties"].values())


def test_what_reports_have_too_is_the_same() -> None:
    shared = json.loads((DOCS / "report.schema.json").read_text())["$defs"]
    for name in ("ceiling", "roof"):
        assert SCHEMA["$defs"][name] == shared[name]
    assert set(SCHEMA["$defs"]["value"]["properties"]) == set(shared["value"]["properties"])


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("about", About),
        ("machine", MachineAbout),
        ("spread", Spread),
        ("point", RoofPoint),
        ("crossing", Crossing),
        ("time_point", TimePoint),
        ("box", OverheadBox),
        ("isocurve", Isocurve),
        ("panel", TimePanel),
        ("stop", Stop),
        ("path", RolePath),
        ("part", BreakdownPart),
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


# -- a real server's answers ---------------------------------------------------------------------------------

QUESTIONS = {
    **{f"roofline {kind}": ("roofline", "--job", "42", "--kind", kind) for kind in KINDS},
    **{f"points {what}": ("roofline", "--job", "42", "--points", what) for what in POINTS},
    "breakdown by rank": ("breakdown", "--job", "42", "--by", "rank"),
    "trajectory": ("trajectory", "--job", "42", "--over", "ranks"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A real server and agent after a training of twenty steps on a node with ceilings."""
    folder = tmp_path_factory.mktemp("site")
    made = Site(folder)
    save(CALIBRATION, folder / "agent" / "ceilings.json")
    try:
        made.server()
        made.agent()
        assert made.rank("worker", 0, 20, 0.02, 16).wait(timeout=60) == 0
        wait_until(lambda: made.steps("worker:0") == 20, what="all steps arrive")
        yield made
    finally:
        made.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_real_answers_validate(site: Site, name: str) -> None:
    done = site.ask(*QUESTIONS[name], "--format", "json")
    assert done.returncode == 0, done.stderr
    assert faults(json.loads(done.stdout)) == []


@pytest.mark.slow
def test_real_numbers_are_in_the_units_of_their_columns(site: Site) -> None:
    with connect(site.address) as client:
        job = client.job("42")
        answers = [job.roofline(kind) for kind in KINDS if kind != "time"]
        answers += [job.time_roofline("step"), job.breakdown(), job.report(), job.steps()]
        for result in (*answers, client.experiment(jobs=["42"]).trajectory("ranks"), client.machines()):
            assert all(len(result.to_pandas(table).columns) for table in result.tables)
            assert result._repr_html_().count("<table>") >= 1
        assert len(job.roofline().to_pandas("ceilings")) == len(CALIBRATION.ceilings)
