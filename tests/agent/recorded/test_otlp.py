"""Files of several ranks, and what of OTLP is no step of any."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.recorded import command, sending
from roofline_agent.recorded.batches import batches
from roofline_agent.recorded.request import ImportRequest
from roofline_agent.recorded.traces import otlp

from tests.recordings import OURS

from .traces import found_in, read

TWO_RANKS = OURS / "otlp" / "two_ranks.jsonl"


def message(*spans: dict[str, Any], **about: int | str) -> str:
    return json.dumps({"resourceSpans": [_resource(about, spans)]})


def _resource(about: dict[str, int | str], spans: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return {"resource": {"attributes": _attributes(about)}, "scopeSpans": [{"spans": list(spans)}]}


def span(name: str, begin_ns: int, end_ns: int, **attributes: int | str) -> dict[str, Any]:
    times = {"startTimeUnixNano": str(begin_ns), "endTimeUnixNano": str(end_ns)}
    return {"name": name, **times, "attributes": _attributes(attributes)}


def _attributes(values: dict[str, int | str]) -> list[dict[str, Any]]:
    kinds = {int: "intValue", str: "stringValue"}
    named = {name.replace("_", "."): value for name, value in values.items()}
    return [{"key": name, "value": {kinds[type(one)]: str(one)}} for name, one in named.items()]


def test_other_ranks_of_a_file_are_parts_of_it() -> None:
    (other,) = read(str(TWO_RANKS)).parts
    assert (other.facts["rank"], other.facts["host"]) == (1, "node1")
    steps = [(one.step, one.t_s, one.step_time_s) for one in other.steps]
    assert steps == [(1, 0.0, 0.05), (2, 0.055, 0.05), (3, pytest.approx(0.16), 0.05)]


def request(rank: int | None = None) -> ImportRequest:
    return ImportRequest((str(TWO_RANKS),), "42", "ddp", rank, 0, None, True, "json", "")


def test_each_rank_is_shown_and_sent_for_its_number() -> None:
    out = io.StringIO()
    assert command.import_files(request(), out, lambda text: None) == 0
    assert [json.loads(line)["facts"]["rank"] for line in out.getvalue().splitlines()] == [0, 1]
    found = read(str(TWO_RANKS))
    targets = [sending.target_of(one, str(TWO_RANKS), request()) for one in (found, *found.parts)]
    assert [(one.role, one.index) for one in targets] == [("ddp", 0), ("ddp", 1)]
    marks = [mark for batch in batches(found.parts[0], targets[1]) for mark in batch.marks]
    assert len(marks) == 6 and {mark.rank.index for mark in marks} == {1}
    begins = [mark.time_ns - found.parts[0].started_ns for mark in marks[::2]]
    assert begins == [0, 55_000_000, 160_000_000]


def test_rank_that_was_asked_for_is_sent_alone() -> None:
    found = read(str(TWO_RANKS))
    assert command.asked(found, 1) == found.parts and command.asked(found, 7) == []
    assert command.asked(found, None) == [found, *found.parts]


def test_longest_span_of_a_number_is_the_step_where_names_are_others() -> None:
    parts = [span("train_step", 1000, 5000, nv_dl_training_step=3)]
    parts.insert(0, span("forward", 1000, 2000, nv_dl_training_step=3))
    found = found_in(message(*parts, nv_dl_rank=0), otlp.read)
    assert [(one.step, one.step_time_s) for one in found.steps] == [(3, 4e-6)]
    assert [(one.name, one.time_s) for one in found.phases] == [("forward", 1e-6)]


def test_role_that_is_one_of_ours_goes_before_the_users() -> None:
    found = found_in(message(span("a", 1, 2), nv_dl_rank=3, nv_dl_role="ps"), otlp.read)
    target = sending.target_of(found, "file", request())
    assert (target.role, target.index) == ("ps", 3)


def test_spans_of_no_rank_and_broken_lines_are_named_and_cost_only_themselves() -> None:
    good = message(span("train", 1, 9, nv_dl_training_step=1), nv_dl_rank=0)
    lines = [
        good,
        message(span("http", 1, 9)),
        good[:-9],
        '{"resourceSpans": [7]}',
        '{"resourceMetrics": []}',
    ]
    found = found_in("\n".join([*lines, message(span("back", 9, 1), nv_dl_rank=0)]), otlp.read)
    assert [one.step for one in found.steps] == [1]
    assert [(one.line, one.times) for one in found.warnings] == [(2, 1), (3, 2), (6, 1)]


def test_line_of_more_than_a_million_characters_is_read_whole(tmp_path: Path) -> None:
    spans = [span("part", 1, 2, nv_dl_long="x" * 100_000) for _ in range(20)]
    path = tmp_path / "long.jsonl"
    path.write_text(message(*spans, span("train", 1, 9, nv_dl_training_step=1), nv_dl_rank=0))
    found = read(str(path))
    assert len(found.steps) == 1 and found.phases[0].count == 20
