from __future__ import annotations

import numpy as np
import pytest
from roofline_server.model.evidence import StepEvidence
from roofline_server.report.job.heavy_steps import heavy_step_notes
from roofline_server.sentences import notes as texts

from ...model.evidence import evidence

MS = 10**6


def steps(*lasted_ms: int) -> StepEvidence:
    end = np.cumsum(np.array(lasted_ms, np.int64) * MS)
    begin = end - np.array(lasted_ms, np.int64) * MS
    return StepEvidence(np.arange(len(lasted_ms)), begin, end, np.full(len(lasted_ms), 32, np.int64))


def test_a_first_step_that_outweighs_the_others_is_named_once_for_all_its_ranks() -> None:
    ranks = [evidence(key=f"ddp:{n}", steps=steps(734, *[17] * 29)) for n in (0, 1)]
    (note,) = heavy_step_notes(ranks)
    assert note == texts.heavy_step(0, 0.6, ["ddp:0", "ddp:1"])


@pytest.mark.parametrize(
    "lasted",
    [(20,) * 30, (90, *[20] * 200), (60, *[20] * 9), (700, 20, 20), ()],
    ids=["alike", "long but many", "three times", "too few", "none"],
)
def test_ordinary_steps_are_not_named(lasted: tuple[int, ...]) -> None:
    assert heavy_step_notes([evidence(steps=steps(*lasted))]) == []


def test_who_serves_has_no_steps_of_its_own() -> None:
    assert heavy_step_notes([evidence(steps=steps(734, *[17] * 29), serving=True)]) == []
