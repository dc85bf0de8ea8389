"""docs/report.schema.json is what `roofline-client report --format json` prints, no more and no less."""

from __future__ import annotations

import copy
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from roofline.answers.report import (
    Alignment,
    Fact,
    Gap,
    PartReport,
    Point,
    RankReport,
    RoleReport,
    Summary,
)
from roofline.answers.roofline import Roof, RoofLine
from roofline.answers.values import Value
from roofline.answers.verdict import AccountPart, Finding, Gain, LeftOut, RankAccount, Verdict
from roofline_agent.calibrate.calibration import Ceiling
from roofline_agent.calibrate.store import save
from roofline_agent.machine import read_machine
from roofline_agent.validate import kept
from roofline_agent.validate.validation import Check, Validation
from roofline_client.tables import reports

from ...end_to_end.conftest import Site, wait_until
from ..reports import UNITS, empty_summary, point, rank, report, roof, summary
from ..verdicts import healthy, unknown, verdict
from .schemas import CALIBRATION, objects

DOCS = Path(__file__).parents[3] / "docs"
SCHEMA = json.loads((DOCS / "report.schema.json").read_text())
Change = Callable[[Any], object]


VALIDATOR = Draft202012Validator(SCHEMA)


def faults(whole: Any) -> list[str]:
    return [f"{e.json_path}: {e.message}" for e in VALIDATOR.iter_errors(whole)]


def validated() -> Validation:
    """Of this machine, where CPU time was found off."""
    here = read_machine()
    off = Check(
        "process", "cpu_ns", "a thread computes", "ns", 5e8, 5e8, -0.2, -0.2, -0.2, 0.02, 10, False, 1
    )
    return Validation(here.host, here.cpu_model, here.kernel, "1", 1, 10, (off,))


def trained(folder: Path, calibrated: bool) -> Iterator[Any]:
    """The report of a real training with a parameter server, seen by a real agent and server."""
    site = Site(folder)
    if calibrated:
        save(CALIBRATION, folder / "agent" / "ceilings.json")
        kept.keep(folder / "agent", validated())
    try:
        site.server()
        site.agent()
        serving = site.serving_rank()
        assert site.rank("worker", 0, 20, 0.02, 16).wait(timeout=60) == 0
        wait_until(lambda: site.steps("worker:0") == 20, what="all steps arrive")
        serving.send_signal(signal.SIGTERM)
        serving.wait(timeout=10)
        yield site.report()
    finally:
        site.stop()


@pytest.fixture(scope="module")
def without_ceilings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from trained(tmp_path_factory.mktemp("plain"), calibrated=False)


@pytest.fixture(scope="module")
def with_ceilings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from trained(tmp_path_factory.mktemp("calibrated"), calibrated=True)


def test_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_report_with_ceilings(with_ceilings: Any) -> None:
    assert faults(with_ceilings) == []
    assert with_ceilings["roofs"][0]["lines"] and with_ceilings["points"]
    worker = next(r for r in with_ceilings["ranks"] if r["rank"] == "worker:0")["summary"]
    assert worker["values"]["cpu_utilization"]["provenance"] == "estimated", "its source was found off"
    assert worker["values"]["step_time_median"]["provenance"] == "measured"
    assert any("process of " in note and "cpu_ns was 20 % too low" in note for note in with_ceilings["notes"])
    assert worker["bound"] and worker["values"]["roof_share"]["value"] > 0


@pytest.mark.slow
def test_report_with_server_and_without_ceilings(without_ceilings: Any) -> None:
    assert faults(without_ceilings) == []
    assert [r["role"] for r in without_ceilings["roles"]] == ["ps", "worker"]
    assert not any(r["ceilings"] for r in without_ceilings["roofs"])


def made_up() -> Any:
    one = report(
        [rank("ps:0", what=empty_summary()), rank(what=summary("peak.f32.512"))],
        [roof()],
        [point()],
        verdict=verdict(),
    )
    return json.loads(reports.as_json(one))


@pytest.mark.parametrize("made", [None, verdict(), healthy(), unknown()])
def test_verdict_of_any_kind(made: Verdict | None) -> None:
    assert faults(json.loads(reports.as_json(report(verdict=made)))) == []


@pytest.mark.slow
def test_made_up_reports_are_like_real_ones(with_ceilings: Any) -> None:
    """The other tests of the client stand on them."""
    assert faults(made_up()) == []
    real = with_ceilings["ranks"][0]["summary"]["values"]
    assert {key: value["unit"] for key, value in real.items()} == UNITS


def test_every_object_is_closed_and_whole() -> None:
    for one in objects(SCHEMA):
        assert one["additionalProperties"] is False
        assert set(one["required"]) == set(one["properties"])


def test_every_field_is_described() -> None:
    for one in objects(SCHEMA):
        for name, field in one["properties"].items():
            assert field.get("description") or "$ref" in field, name


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("value", Value),
        ("summary", Summary),
        ("role", RoleReport),
        ("rank", RankReport),
        ("roof", Roof),
        ("line", RoofLine),
        ("ceiling", Ceiling),
        ("point", Point),
        ("alignment", Alignment),
        ("gap", Gap),
        ("source", reports.Source),
        ("part", PartReport),
        ("fact", Fact),
        ("verdict", Verdict),
        ("finding", Finding),
        ("gain", Gain),
        ("rank_account", RankAccount),
        ("account_part", AccountPart),
        ("left_out", LeftOut),
    ],
)
def test_schema_names_the_fields_of_the_records(name: str, record: Any) -> None:
    assert set(SCHEMA["$defs"][name]["properties"]) == set(record._fields)


def test_schema_and_metrics_page_name_the_same_values() -> None:
    page = (DOCS / "metrics.md").read_text().partition("## In the report")[2].partition("## ")[0]
    first_cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = {key for cell in first_cells for key in re.findall(r"`([^`]+)`", cell)}
    assert named == set(SCHEMA["$defs"]["summary"]["properties"]["values"]["properties"])


def places(thing: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of every key of every object of a report."""
    for key, part in thing.items() if isinstance(thing, dict) else enumerate(thing):
        if isinstance(thing, dict):
            yield (*path, key)
        if isinstance(part, (dict, list)):
            yield from places(part, (*path, key))


@pytest.mark.slow
def test_no_key_may_be_left_out() -> None:
    whole = made_up()
    del whole["roles"][1:], whole["ranks"][1:]  # the others are alike
    assert faults(whole) == []
    for *path, key in places(copy.deepcopy(whole)):
        if path[:1] == ["parts"] and path[-1] == "values":
            continue  # a part has the metrics that its source has
        if path == ["cost", "values"]:
            continue  # of what the profiler costs, what is known
        if path == ["tags"]:
            continue  # a job has the tags that its user gives it
        inside = whole
        for step in path:
            inside = inside[step]
        kept = inside.pop(key)
        assert not VALIDATOR.is_valid(whole), (*path, key)
        inside[key] = kept


def value(whole: Any, rank: int = 1, key: str = "steps") -> Any:
    return whole["ranks"][rank]["summary"]["values"][key]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda r: r.update(more=1), id="unknown field"),
        pytest.param(lambda r: value(r).update(more=1), id="unknown field of a value"),
        pytest.param(lambda r: r["ranks"][0]["summary"]["values"].update(flop=value(r)), id="unknown metric"),
        pytest.param(lambda r: r.update(version=2), id="another version"),
        pytest.param(lambda r: value(r).update(value=None), id="absent without reason"),
        pytest.param(lambda r: value(r, 0).update(reason=""), id="absent with empty reason"),
        pytest.param(lambda r: value(r, 0).update(value=0), id="absent became zero"),
        pytest.param(lambda r: value(r).update(value="60"), id="number as text"),
        pytest.param(lambda r: value(r).update(unit="s"), id="another unit"),
        pytest.param(lambda r: value(r).update(provenance="guessed"), id="unknown provenance"),
        pytest.param(lambda r: value(r).update(provenance=""), id="number from nowhere"),
        pytest.param(lambda r: value(r).update(scope="rack"), id="unknown scope"),
        pytest.param(lambda r: value(r).update(coverage=1.5), id="coverage above one"),
        pytest.param(lambda r: r["roofs"][0]["lines"][0].update(kind="network"), id="unknown kind"),
        pytest.param(lambda r: r["ranks"][0]["summary"].update(bound_reason=""), id="bound by nothing"),
        pytest.param(lambda r: r["verdict"].update(kind="guess"), id="unknown kind of verdict"),
        pytest.param(lambda r: r["verdict"]["bottleneck"]["cost"].update(unit="ms"), id="cost in ms"),
        pytest.param(lambda r: r["gaps"][0].update(reason=""), id="gap without reason"),
        pytest.param(lambda r: r["sources"][0].update(reason=""), id="broken source without reason"),
        pytest.param(lambda r: r.update(begin_ns="2026"), id="time as text"),
        pytest.param(lambda r: r["tags"].update(Nodes="4"), id="tag that cannot be"),
        pytest.param(lambda r: r["tags"].update(nodes=4), id="tag that is no text"),
        pytest.param(lambda r: r["roofs"][0]["lines"][0].update(provenance=""), id="line from nowhere"),
        pytest.param(lambda r: r["roofs"][0]["ceilings"][0].update(kind="disk"), id="ceiling of a disk"),
        pytest.param(lambda r: r["roofs"][0]["ceilings"][0].update(threads="8"), id="threads as text"),
    ],
)
def test_wrong_report_does_not_validate(change: Change) -> None:
    whole = made_up()
    change(whole)
    assert faults(whole)
