"""Predictions: the answer first, then the numbers with their range, and what they stand on."""

from __future__ import annotations

import csv
import io
import json

import pytest
import typer
from roofline.answers.what_if import Predicted, WhatIf
from roofline_client.commands.what_if import parse_bandwidth
from roofline_client.tables.text import show
from roofline_client.tables.what_if import as_csv, as_json, as_text, tables

from ..reports import absent, seen


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
    show(as_text(made(sentence="cannot be told: no steps", step=nothing, rate=nothing, basis=[])))
    out = capsys.readouterr().out
    assert out.startswith("cannot be told")
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
