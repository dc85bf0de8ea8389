"""The table of steps: exact for programs, the newest rows for people."""

from __future__ import annotations

import csv
import io
import json

import pytest
from roofline_client import ClientError, Refused, connect
from roofline_client.export import write_csv
from roofline_client.tables.steps import as_text, newest, write_json
from roofline_client.tables.text import show

from ..chunks import BEGIN, MS, chunk, message, steps
from ..fake_server import chunks, serving

AWKWARD = 0.1 + 0.2  # shorter forms of it are other numbers


def text_of(found: object, capsys: pytest.CaptureFixture[str]) -> str:
    show(found)
    return capsys.readouterr().out


def test_rows_arrive_as_they_were_sent() -> None:
    sent = steps() | {"flops": [AWKWARD, 1e300, None]}
    with (
        serving(GetSteps=chunks(message("steps", sent, ["a note"]))) as asked,
        connect(asked.address) as client,
    ):
        (got,) = client.steps("42", ["worker:0"], 1, 2)
    assert {c.name: list(c.values) for c in got.columns} == sent
    assert got.notes == ["a note"] and got.rows == 3
    (request,) = asked.requests
    assert (request.job, list(request.ranks), request.first_step, request.last_step) == (
        "42",
        ["worker:0"],
        1,
        2,
    )


def test_records_have_names_and_absence() -> None:
    rows = list(chunk("steps", steps()).records())
    assert rows[1]["cpu_time"] is None and rows[1]["step"] == 1 and rows[0]["rank"] == "worker:0"


def test_phases_of_the_trainings_own_have_columns(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"own-{k}" for k in range(8)]
    sent = steps() | {f"{name}_time": [0.001 * k] * 3 for k, name in enumerate(names)}
    sent |= {"asked.allreduce.time": [0.1] * 3}
    shown = text_of(as_text("42", newest([chunk("steps", sent)], 0)), capsys)
    assert " ".join(names[2:]) in " ".join(shown.split())
    assert "phases that took less time, in CSV and JSON: own-1, own-0" in " ".join(shown.split())
    assert "allreduce" not in shown


def test_columns_of_other_length_are_refused() -> None:
    short = message("steps", steps())
    short.columns[2].ints = short.columns[2].ints[:-8]
    with (
        serving(GetSteps=chunks(short)) as asked,
        connect(asked.address) as client,
        pytest.raises(Refused, match="begin_ns"),
    ):
        list(client.steps("42"))


def test_csv_is_exact() -> None:
    out = io.StringIO()
    list(write_csv([chunk("steps", steps() | {"flops": [AWKWARD, 1e300, None]})], out))
    rows = list(csv.DictReader(io.StringIO(out.getvalue())))
    assert float(rows[0]["flops"]) == AWKWARD and rows[2]["flops"] == "" and rows[1]["cpu_time"] == ""
    assert rows[2]["begin_ns"] == str(BEGIN + 20 * MS) and rows[2]["duration_ns"] == str(9 * MS + 2)


def test_columns_that_change_on_the_way_are_refused() -> None:
    first, second = chunk("steps", steps()), chunk("steps", {"rank": ["worker:1"]})
    with pytest.raises(Refused, match="change during the answer"):
        list(write_csv([first, second], io.StringIO()))


def test_json_is_one_document_however_many_pieces() -> None:
    out = io.StringIO()
    write_json("42", [chunk("steps", steps(), ["a note"]), chunk("steps", steps("worker:1"))], out)
    whole = json.loads(out.getvalue())
    assert whole["version"] == 1 and whole["notes"] == ["a note"]
    assert [row["rank"] for row in whole["steps"]] == ["worker:0"] * 3 + ["worker:1"] * 3
    assert whole["steps"][1]["cpu_time"] is None
    assert {c["name"]: c["unit"] for c in whole["columns"]}["cpu_time"] == "s"


def test_json_without_rows() -> None:
    out = io.StringIO()
    write_json("42", [chunk("steps", {"rank": [], "step": []}, ["no steps"])], out)
    assert json.loads(out.getvalue())["steps"] == []


def test_json_of_an_infinity_is_refused() -> None:
    with pytest.raises(ClientError, match="infinity"):
        write_json("42", [chunk("steps", {"rank": ["a"], "x": [float("inf")]})], io.StringIO())


def test_newest_rows_of_all_ranks_in_order_of_time(capsys: pytest.CaptureFixture[str]) -> None:
    both = [chunk("steps", steps(f"worker:{i}", 100, BEGIN + i * MS)) for i in range(2)]
    found = newest(both, 4)
    assert [(row["rank"], row["step"]) for row in found.rows] == [
        ("worker:0", 98),
        ("worker:1", 98),
        ("worker:0", 99),
        ("worker:1", 99),
    ]
    text = text_of(as_text("42", found), capsys)
    assert "the last 4 of 200" in text and "--last" in text


def test_all_rows_when_asked_for() -> None:
    found = newest([chunk("steps", steps(count=50))], 0)
    assert len(found.rows) == found.total == 50


def test_a_piece_of_several_ranks_loses_none() -> None:
    mixed = {n: [*a, *b] for (n, a), b in zip(steps().items(), steps("worker:1").values(), strict=True)}
    assert {row["rank"] for row in newest([chunk("steps", mixed)], 2).rows} == {"worker:0", "worker:1"}


def test_text_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    found = newest([chunk("steps", steps(), ["shorter than the sampling interval"])], 20)
    text = text_of(as_text("42", found), capsys)
    lines = text.splitlines()
    header = next(line for line in lines if "rank" in line and "CPU" in line)
    assert header.split() == ["rank", "step", "begin", "(UTC)", "time", "CPU", "sent"]
    row = next(line for line in lines if line.startswith("worker:0") and " 1 " in line)
    assert "9 ms" in row and " - " in row and "1000 B" in row
    assert "  - shorter than the sampling interval" in lines


def test_text_without_steps(capsys: pytest.CaptureFixture[str]) -> None:
    found = newest([chunk("steps", {"rank": []}, ["no steps of worker:0: why"])], 20)
    text = text_of(as_text("42", found), capsys)
    assert text.splitlines()[0] == "Job 42: no steps" and "why" in text
