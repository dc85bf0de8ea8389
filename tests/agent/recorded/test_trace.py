from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.recorded import text as text_module
from roofline_agent.recorded.collector import Collector
from roofline_agent.recorded.traces.tensors import element_bytes, element_count
from roofline_agent.recorded.traces.trace import Trace, arguments, number

from .traces import found_in, warned

EVENTS: list[dict[str, Any]] = [
    {"ph": "B", "name": "one", "ts": 1},
    {"ph": "E", "ts": 2.5, "args": {"shape": "[2, 3]", "deep": {"er": [1, {"x": 'a"}{['}]}}},
    {"ph": "X", "name": 'täg \u2603 "quoted"', "ts": 1712195495519689.25, "dur": 3},
]


def read(content: str | bytes) -> tuple[list[dict[str, Any]], Trace, Collector]:
    kept: list[tuple[list[dict[str, Any]], Trace]] = []

    def reader(text: text_module.Text, found: Collector) -> None:
        trace = Trace(text, found)
        kept.append((list(trace.events()), trace))

    found = found_in(content, reader)
    return *kept[0], found


@pytest.fixture(params=[1, 2, 3, 7, 64, 1 << 18])
def chunk_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """However the file falls into chunks, even within a number, an escape or a character."""
    monkeypatch.setattr(text_module, "HEAD_BYTES", request.param)
    monkeypatch.setattr(text_module, "CHUNK_BYTES", request.param)
    return int(request.param)


def test_array_is_read_whole_whatever_its_chunks(chunk_bytes: int) -> None:
    events, trace, found = read(json.dumps(EVENTS, ensure_ascii=True))
    assert events == EVENTS
    assert trace.count == 3
    assert found.warnings == []


def test_values_before_and_behind_the_events_are_handed_out(chunk_bytes: int) -> None:
    content = {"first": 12345678, "info": {"rank": 3}, "traceEvents": EVENTS, "last": -1.5e3, "name": "x"}
    events, trace, found = read(json.dumps(content, indent=2))
    assert events == EVENTS
    assert trace.values == {"first": 12345678, "info": {"rank": 3}, "last": -1500.0, "name": "x"}
    assert found.warnings == []


@pytest.mark.parametrize("end", ["", ",", ",\n", "\n", "]", ",]", "]\n\n"])
def test_array_need_not_be_closed(end: str, chunk_bytes: int) -> None:
    events, _, found = read("[\n" + ",\n".join(map(json.dumps, EVENTS)) + end)
    assert events == EVENTS
    assert found.warnings == []


def test_events_without_any_bracket_are_read() -> None:
    assert read("\n".join(map(json.dumps, EVENTS)))[0] == EVENTS


def test_event_cut_in_two_is_left_out_and_said(chunk_bytes: int) -> None:
    events, _, found = read(json.dumps(EVENTS)[:-30])
    assert events == EVENTS[:2]
    assert warned(found, "cut off")


def test_broken_event_costs_itself_only() -> None:
    good = json.dumps(EVENTS[0])
    for bad in ('{"ph": oops, "args": {"a": 1}}', '{"ph" "B"}', "}", "nonsense", '{"a":' * 5000, "1" * 5000):
        events, _, found = read(f"[{good}, {bad}, {good}]")
        assert events.count(EVENTS[0]) == 2, bad
        assert found.warnings, bad


def test_file_of_broken_events_is_not_read_to_its_end() -> None:
    events, _, found = read("[" + json.dumps(EVENTS[0]) + ", {'ph': 1}" * 5 + ', {"' * 50_000)
    assert events == EVENTS[:1]
    assert warned(found, "most of the file is no JSON")


def test_empty_object_behind_the_last_comma_is_no_mistake() -> None:
    events, trace, found = read("[" + json.dumps(EVENTS[0]) + ",\n{}]")
    assert (events, trace.count, found.warnings) == (EVENTS[:1], 2, [])


def test_line_of_a_broken_event_is_told() -> None:
    good = json.dumps(EVENTS[0])
    _, _, found = read(f"[\n{good},\n{good},\n{{oops}},\n{good}]")
    assert [one.line for one in found.warnings] == [4]


def test_top_level_value_that_is_no_json_costs_no_event() -> None:
    events, _, found = read('{"bad": {oops: 1}, "traceEvents": ' + json.dumps(EVENTS) + "}")
    assert events == EVENTS
    assert warned(found, "beside the events")


def test_infinite_and_missing_numbers_are_no_numbers() -> None:
    assert [number(v) for v in (1, "2.5", float("nan"), float("inf"), None, True, "x", [1], 10**400)] == [
        1.0,
        2.5,
        *[None] * 7,
    ]
    assert arguments({"args": None}) == {}


def test_sizes_of_tensors() -> None:
    assert element_count("[4096, 1001]") == 4096 * 1001
    assert element_count([]) == element_count("[]") == 1
    assert element_count("(2, 3)") == element_count([2, 3]) == 6
    assert element_count("[?]") is element_count([-1]) is element_count(None) is element_count([2.5]) is None
    assert [element_bytes(t) for t in ("float32", "BFloat16", "unsigned char", "Long", "c10::Half")] == [
        4,
        2,
        1,
        8,
        2,
    ]
    assert element_bytes("tensor") is element_bytes(4) is None


# Without a quote or a bracket, damage takes no good event into itself and ends no array.
DAMAGE = st.text("{}:, \\truefalsnINy0123456789-.", max_size=30)


@given(st.lists(DAMAGE, max_size=6), st.sampled_from(["[", '{"n": 1, "traceEvents": [']))
def test_damage_between_events_costs_none_of_them(damage: list[str], start: str) -> None:
    good = [{"ph": "X", "name": f"n{n}", "ts": n} for n in range(len(damage) + 1)]
    between = [f", {one}," for one in damage] + [""]
    content = start + "".join(json.dumps(event) + noise for event, noise in zip(good, between, strict=True))
    assert [event for event in read(content)[0] if event.get("name")] == good


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["ph", "name"]), inner),
    )
)
def test_values_that_are_no_events_are_said_and_cost_no_event(value: Any) -> None:
    is_event = isinstance(value, dict) and ("ph" in value or "name" in value)
    expected = [value, EVENTS[0]] if is_event else EVENTS[:1]
    for content in ([value, EVENTS[0]], {"traceEvents": [value, EVENTS[0]]}):
        events, _, found = read(json.dumps(content))
        assert events == expected
        assert warned(found, "is no event") == (not is_event and value != {})
    events, trace, found = read(json.dumps({"x": value, "traceEvents": EVENTS}))
    assert (events, trace.values, found.warnings) == (EVENTS, {"x": value}, [])
