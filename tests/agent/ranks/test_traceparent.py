"""The trace that a rank was started in."""

from __future__ import annotations

import pytest
from roofline_agent.ranks.settings import RankFacts
from roofline_agent.ranks.traceparent import attributes
from roofline_agent.records import Rank

SPAN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_variable_of_a_tracer_is_a_tag() -> None:
    assert attributes({"TRACEPARENT": SPAN, "PATH": "/bin"}) == {"otel.traceparent": SPAN}


@pytest.mark.parametrize(
    "text",
    ["", "nothing", SPAN.upper(), SPAN + "-x", "ff" + SPAN[2:], SPAN.replace("b7ad6b7169203331", "0" * 16)],
)
def test_what_names_no_span_is_none(text: str) -> None:
    assert attributes({"TRACEPARENT": text}) == {}


def test_rank_says_it_as_a_tag_which_one_given_by_hand_goes_before() -> None:
    rank = Rank("42", "worker", 0, pid=5)
    environ = {"TRACEPARENT": SPAN}
    (fact,) = [event.text for event in RankFacts().of_started([(rank, environ)], [], 1)]
    assert fact == f"tag.otel.traceparent={SPAN}"
    given = {**environ, "ROOFLINE_TAGS": "otel.traceparent=mine"}
    (fact,) = [event.text for event in RankFacts().of_started([(rank, given)], [], 1)]
    assert fact == "tag.otel.traceparent=mine"
