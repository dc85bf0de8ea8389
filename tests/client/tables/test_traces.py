"""What is shown of traces that were asked for."""

from __future__ import annotations

import json

from roofline.answers.traces import RankTrace
from roofline_client.tables import traces

RECORDED = RankTrace("worker:0", True, "recorded: steps 5-7, 10 operators")
REFUSED = RankTrace("worker:1", False, "it was not started by `roofline-agent run -- CMD`")


def test_progress_is_passed_on_and_the_results_are_kept() -> None:
    said: list[str] = []
    found = traces.gathered("42", ["worker:0: asked: the next 3 steps", REFUSED, RECORDED], said.append)
    assert said == ["worker:0: asked: the next 3 steps"]
    assert found.ranks == [REFUSED, RECORDED]
    assert found.recorded
    assert "--job 42 " in found.notes[0]
    assert "--job '4 2' " in traces.gathered("4 2", [RECORDED], said.append).notes[0]


def test_nothing_recorded_has_nothing_to_look_at() -> None:
    found = traces.gathered("42", [REFUSED], lambda _: None)
    assert not found.recorded
    assert found.notes == []


def test_formats() -> None:
    found = traces.gathered("42", [RECORDED], lambda _: None)
    assert json.loads(traces.as_json(found))["ranks"] == [RECORDED._asdict()]
    assert traces.as_csv(found).splitlines() == [
        "job,rank,recorded,text",
        '42,worker:0,True,"recorded: steps 5-7, 10 operators"',
    ]
