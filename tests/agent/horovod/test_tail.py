from __future__ import annotations

import gzip
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from roofline_agent.horovod.tail import MAX_TORN, TailParser

RECORDED = Path(__file__).parents[2] / "data" / "recorded" / "horovod" / "mpi_torch_2ranks.json.gz"
CONTENT = gzip.decompress(RECORDED.read_bytes())
EVENTS = json.loads(CONTENT)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, len(CONTENT)), max_size=40))
def test_cut_anywhere_each_event_comes_once(cuts: list[int]) -> None:
    parser, found, offset = TailParser(), [], 0
    for size in [*sorted(cuts), len(CONTENT)]:
        # A bracket at the end is read again, for a comma may come in its place.
        part = CONTENT[offset:size].removesuffix(b"]")
        offset += len(part)
        found += parser.feed(part)
    assert found == EVENTS
    assert parser.broken == 0


def test_event_that_is_torn_waits_for_its_rest() -> None:
    parser = TailParser()
    assert parser.feed(b'[\n{"ph": "B", "ts": 1}') == [{"ph": "B", "ts": 1}]
    assert parser.feed(b',{"ph": "E", "args": {"a": 1}') == []
    assert parser.waiting > 0
    assert parser.feed(b"}") == [{"ph": "E", "args": {"a": 1}}]


def test_damage_costs_only_what_is_damaged() -> None:
    parser = TailParser()
    parser.feed(b'[\n{"ph": "B", ' + b"\0" * (MAX_TORN + 10))
    found = parser.feed(b',{"ph": "i"},{"ph": "E"}')
    found += parser.feed(b',{"ph": "X"}')
    assert {"ph": "X"} in found
    assert parser.broken > 0
