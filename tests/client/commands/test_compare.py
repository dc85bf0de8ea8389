"""`roofline-client compare` in all its forms."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from roofline.answers.comparison import Change, Comparison, SettingChange
from roofline.convert import to_message
from roofline.v1 import query_pb2 as pb
from roofline_client import connect

from ..command_line import one_line, run
from ..fake_server import Asked, answer, serving
from ..reports import absent, seen

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "comparison.schema.json").read_text())
FASTER = Change(
    "throughput", "", seen(404, "examples/s"), seen(545, "examples/s"), seen(1.349, "1"), 1.3, 1.4, False
)
WAIT = Change("part", "wait_ps", seen(0.076, "s"), seen(0.016, "s"), seen(-0.06, "s"), -0.065, -0.055, False)
HOST = Change("part", "input|host", seen(0.01, "s"), seen(0.011, "s"), seen(0.001, "s"), -0.001, 0.003, True)
ROOF = Change("roof_share", "worker", seen(0.2, "1"), seen(0.27, "1"), seen(0.07, "1"), None, None, False)
INTENSITY = Change(
    "intensity", "worker", absent("FLOP/byte"), seen(24, "FLOP/byte"), absent("1"), None, None, False
)
INPUT = HOST._replace(subject="input", low=None, high=None)
FOUND = Comparison(
    "41",
    "42",
    "42 is 1.35x as fast as 41 (1.3x to 1.4x): waiting for parameter servers -60 ms a step",
    [SettingChange("setting.OMP_NUM_THREADS", "4", "8"), SettingChange("tag batch", "", "64" * 40)],
    [FASTER, WAIT, HOST, ROOF, INTENSITY, INPUT],
    ["a note"],
)
JOBS = answer(pb.ListJobsResponse(jobs=[pb.Job(job="42")]))


@pytest.fixture(scope="module")
def site() -> Iterator[Asked]:
    with serving(GetComparison=answer(to_message(pb.Comparison(), FOUND)), jobs=JOBS) as asked:
        yield asked


def test_text_has_what_differed_then_what_changed(site: Asked) -> None:
    done = run("compare", "41", "last", "--steps", "10:", "--server", site.address)
    assert done.returncode == 0, done.stderr
    asked = site.requests[-1]
    assert (asked.first, asked.second, asked.first_step) == ("41", "42", 10)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "Job 42 against job 41" and lines[1] == FOUND.headline
    assert "setting.OMP_NUM_THREADS 4 8" in lines
    assert "throughput, examples/s 404 545 x1.35 x1.3 to x1.4" in lines
    assert "PS wait a step 76 ms 16 ms -60 ms -65 ms to -55 ms" in lines
    assert "input or host a step 10 ms 11 ms +1 ms -1 ms to +3 ms within noise" in lines
    assert "input a step 10 ms 11 ms +1 ms - too few steps" in lines
    assert "roof share of worker 20.0% 27.0% +7 points -" in lines
    assert "intensity of worker, FLOP/byte - 24 - -" in lines
    assert max(map(len, done.stdout.splitlines())) <= 110


def test_json_is_the_answer_and_fits_its_schema(site: Asked) -> None:
    whole = json.loads(run("compare", "41", "42", "--format", "json", "--server", site.address).stdout)
    Draft202012Validator.check_schema(SCHEMA)
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(whole)] == []
    assert set(whole) == {"version", *Comparison._fields}
    assert set(SCHEMA["$defs"]["change"]["properties"]) == set(Change._fields)
    assert set(SCHEMA["$defs"]["setting"]["properties"]) == set(SettingChange._fields)


def test_csv_is_a_row_a_number(site: Asked) -> None:
    done = run("compare", "41", "42", "--format", "csv", "--server", site.address)
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["kind"] for row in rows] == [one.kind for one in FOUND.changes]
    assert (rows[1]["first"], rows[1]["first_unit"], rows[1]["low"]) == ("0.076", "s", "-0.065")
    assert rows[4]["first"] == "" and rows[4]["first_reason"] and "a note" in done.stderr


def test_markdown_and_python(site: Asked) -> None:
    done = run("compare", "41", "42", "--format", "md", "--server", site.address)
    assert done.stdout.startswith("**Job 42 against job 41**") and "| throughput, examples/s |" in done.stdout
    with connect(site.address) as client:
        found = client.compared(41, 42)
    assert list(found.to_pandas()["kind"]) == [one.kind for one in FOUND.changes]
    assert list(found.to_pandas("settings")["name"]) == ["setting.OMP_NUM_THREADS", "tag batch"]


def test_what_cannot_be_asked(site: Asked) -> None:
    assert run("compare", "41", "--server", site.address).returncode == 2
    one_line(run("compare", "41", "42", "--steps", "5:3", "--server", site.address), 2, "first comes after")
