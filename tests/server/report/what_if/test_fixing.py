"""What fixing something gives, asked of jobs in a store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline.answers.what_if import WhatIf
from roofline_server.errors import BadRequest, UnknownRank
from roofline_server.report.job.build import build
from roofline_server.report.questions import STEADY_STEPS
from roofline_server.report.what_if.fixing import _meant, _shorter
from roofline_server.report.what_if.what_if import WhatIfQuery, what_if
from roofline_server.sentences import waits
from roofline_server.sentences import what_if as texts
from roofline_server.sentences.reasons import LESS_WORK
from roofline_server.sentences.verdict import seldom_there, shared_batch

from ...builders import MS, S, open_store
from ..odd_jobs import Odd, stored

MANY = range(60)


def fixed(folder: Path, what: str, ranks: Sequence[Odd], asynchronous: bool = False) -> WhatIf:
    view = stored(folder, ranks, asynchronous).view("job")
    assert view is not None
    return what_if(view, WhatIfQuery(fix=what))


def test_input_of_a_rank_that_trains_alone(tmp_path: Path) -> None:
    found = fixed(tmp_path, "input", [Odd("ddp", MANY)])
    assert found.step.now.value == pytest.approx(0.020)
    assert found.step.then.value == pytest.approx(0.010)  # half of its steps is input


def test_a_rank_that_trains_alone_cannot_be_like_others(tmp_path: Path) -> None:
    found = fixed(tmp_path, "ddp:0", [Odd("ddp", MANY)])
    assert found.step.then.value is None and found.step.then.reason == waits.ALONE


@pytest.mark.parametrize(("examples", "known"), [(8, True), (16, False)])
def test_a_rank_with_more_work_than_the_others_has_no_rate_without_it(
    tmp_path: Path, examples: int, known: bool
) -> None:
    ranks = [Odd("ddp", MANY), Odd("ddp", MANY), Odd("ddp", MANY, examples=examples)]
    found = fixed(tmp_path, "ddp:2", ranks)
    assert found.step.then.value is not None and found.rate.now.value is not None
    assert (found.rate.then.value is not None) == known
    assert (texts.NO_RATE in found.notes, "examples/s" in found.sentence) == (not known, known)
    assert known or found.rate.then.reason == LESS_WORK


def test_a_rank_that_is_not_there_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownRank, match="'ddp:7' is no rank of the job"):
        fixed(tmp_path, "ddp:7", [Odd("ddp", MANY)])


@pytest.mark.parametrize("what", ["compute|host", "compute or host", "host"])
def test_a_part_is_called_as_tables_call_it_or_by_one_of_its_names(tmp_path: Path, what: str) -> None:
    found = fixed(tmp_path, what, [Odd("ddp", MANY, spanned=False, readings=9)])
    assert found.step.now.value == pytest.approx(0.020)
    assert found.step.then.value is not None and found.step.then.value < 0.019
    assert found.change == f"{what} fixed"
    assert found.notes == ([texts.stands_for("host", ["compute|host"])] if what == "host" else [])


@pytest.mark.parametrize(
    ("what", "meant"),
    [("input", ["input|host", "input|blocked"]), ("Python gc", ["gc"]), ("input or h", []), ("or", [])],
)
def test_a_name_stands_for_all_parts_that_have_it(what: str, meant: list[str]) -> None:
    assert _meant(what, ["compute", "input|host", "gc", "input|blocked"]) == meant


def test_parts_that_are_there_are_named_as_tables_have_them(tmp_path: Path) -> None:
    with pytest.raises(UnknownRank, match="these are: ddp:0, compute or host, "):
        fixed(tmp_path, "input", [Odd("ddp", MANY, spanned=False, readings=9)])


def test_links_of_servers_are_not_known_however_they_are_asked_about(tmp_path: Path) -> None:
    ranks = [Odd("ps", readings=9), Odd("worker", MANY, readings=9)]
    view = stored(tmp_path, ranks, asynchronous=True).view("job")
    assert view is not None
    for asked in (WhatIfQuery(bandwidth_times=2.0), WhatIfQuery(bandwidth=25e9 / 8)):
        assert what_if(view, asked).step.then.reason == texts.SERVER_LINKS


def test_a_number_that_cannot_be_is_named(tmp_path: Path) -> None:
    view = stored(tmp_path, [Odd("ddp", MANY)], False).view("job")
    assert view is not None
    with pytest.raises(BadRequest, match=r"^ranks = 100001: must be more than 0, and at most 100000$"):
        what_if(view, WhatIfQuery(ranks=100_001))
    with pytest.raises(BadRequest, match=r"^batch = -3: must be more than 0"):
        what_if(view, WhatIfQuery(batch=-3.0))


def test_another_batch_is_not_predicted_of_a_job_without_examples(tmp_path: Path) -> None:
    view = stored(tmp_path, [Odd("ddp", MANY, examples=0)], False).view("job")
    assert view is not None
    found = what_if(view, WhatIfQuery(batch=64.0))
    assert found.step.then.value is None and found.step.then.reason == texts.NO_BATCH
    assert found.sentence == texts.cannot_tell(texts.NO_BATCH)


def test_a_rank_that_left_early_is_not_played(tmp_path: Path) -> None:
    found = fixed(tmp_path, "ddp:2", [Odd("ddp", MANY), Odd("ddp", MANY), Odd("ddp", range(20))])
    assert found.step.then.value is None and found.step.then.reason == texts.seldom_there("ddp:2")
    view = open_store(tmp_path).view("job")
    assert view is not None and (judged := build(view, STEADY_STEPS).verdict) is not None
    assert seldom_there(["ddp:2"]) in judged.quality


def test_ranks_that_left_early_are_in_neither_the_words_nor_the_rate(tmp_path: Path) -> None:
    whole, early = Odd("ddp", MANY), Odd("ddp", range(20))
    view = stored(tmp_path / "a", [whole, whole, early], False).view("job")
    alone = stored(tmp_path / "b", [whole, whole], False).view("job")
    assert view is not None and alone is not None
    found, expected = (what_if(one, WhatIfQuery(ranks=4)) for one in (view, alone))
    assert found.change == "4 ranks instead of 2"
    assert found.rate.now.value == pytest.approx(expected.rate.now.value)
    assert found.rate.then.value == pytest.approx(expected.rate.then.value, rel=1e-3)
    assert texts.left_out(["ddp:2"]) in found.notes and texts.left_out(["ddp:2"]) not in expected.notes


def test_ranks_that_step_independently_hold_nobody_up(tmp_path: Path) -> None:
    workers = [Odd("worker", MANY), Odd("worker", MANY)]
    found = fixed(tmp_path / "a", "worker:0", workers, asynchronous=True)
    assert found.step.then.reason == texts.INDEPENDENT
    found = fixed(tmp_path / "b", "worker:0", [Odd("ps"), *workers], asynchronous=True)
    assert found.step.then.reason == texts.NO_REPLAY


def test_fixing_a_rank_that_steps_on_its_own_gives_what_the_report_says(tmp_path: Path) -> None:
    workers = [Odd("worker", MANY), Odd("worker", MANY), Odd("worker", MANY, lasting=60 * MS)]
    found = fixed(tmp_path, "worker:2", workers, asynchronous=True)
    assert found.step.then.value is not None and found.step.now.value is not None
    assert found.step.then.value < found.step.now.value


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_fixing_makes_no_step_longer(gain: float, below: float, above: float) -> None:
    found = _shorter(1.0, gain, gain - below, gain + above, [], []).steps
    if found is not None:
        assert 0 <= found.low <= found.likely <= found.high <= 1.0


def test_more_than_all_of_a_step_is_not_gained(tmp_path: Path) -> None:
    """Its server was stopped in every reading."""
    ranks = [Odd("ps", readings=9, growth=S), Odd("worker", MANY, readings=9)]
    found = fixed(tmp_path, "ps:0", ranks, asynchronous=True)
    assert found.step.then.value is None and found.step.then.reason == texts.NOTHING_LEFT


def test_rates_that_count_a_shared_batch_for_each_rank_say_so(tmp_path: Path) -> None:
    view = stored(tmp_path, [Odd("ddp", MANY), Odd("ddp", MANY)], False).view("job")
    assert view is not None
    assert not [one for one in what_if(view, WhatIfQuery(fix="input")).notes if "share a batch" in one]
    shared = view._replace(facts={number: {"setting.tensor_parallel": "2"} for number in view.ranks})
    note = shared_batch(2, 1)
    assert what_if(shared, WhatIfQuery(fix="input")).notes[-1] == note
    assert what_if(shared, WhatIfQuery(ranks=4)).notes[-2:] == [note, texts.whole_groups(2)]
