"""A validation in its file, and what is kept of an earlier one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from roofline_agent.validate import kept
from roofline_agent.validate.errors import ValidationError
from roofline_agent.validate.validation import Unchecked, from_json, to_json

from .made import FOUND, NO_RAPL, RIGHT, WRONG


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    assert kept.load(tmp_path) is None
    assert kept.keep(tmp_path / "state", FOUND) == tmp_path / "state/validation.json"
    assert kept.load(tmp_path / "state") == FOUND


def test_json_says_of_each_check_whether_it_is_off() -> None:
    document = json.loads(json.dumps(to_json(FOUND)))
    assert [check["is_off"] for check in document["checks"]] == [False, True]
    assert from_json(document) == FOUND


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("format",), 2, "of a later release"),
        (("format",), None, 'expected an object with "format": 1'),
        (("checks",), {}, "checks is not a list"),
        (("checks", 0), 7, "a check is not an object"),
        (("checks", 0, "median"), float("nan"), "median is not a finite number"),
        (("checks", 0, "runs"), -1, "runs is not a whole number"),
        (("unchecked", 0, "reason"), None, "reason is not a string"),
        (("host",), 7, "host is not a string"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, path: tuple[Any, ...], value: object, says: str
) -> None:
    document = to_json(FOUND)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    kept.path_in(tmp_path).write_text(json.dumps(document))
    with pytest.raises(ValidationError, match=says):
        kept.load(tmp_path)


def test_unreadable_file_is_replaced_by_a_new_result(tmp_path: Path) -> None:
    kept.path_in(tmp_path).write_text("{")
    kept.keep(tmp_path, FOUND)
    assert kept.load(tmp_path) == FOUND


def test_result_of_some_sources_leaves_the_others(tmp_path: Path) -> None:
    kept.keep(tmp_path, FOUND)
    mended = WRONG._replace(median=0.0, time_ns=8)
    kept.keep(tmp_path, FOUND._replace(checks=(mended,), unchecked=(), notes=()))
    now = kept.load(tmp_path)
    assert now is not None
    assert set(now.checks) == {RIGHT, mended}
    assert now.unchecked == (NO_RAPL,)
    assert now.notes == ()


BUSY = Unchecked(WRONG.source, WRONG.metric, "others on this node did 60% as much meanwhile", time_ns=8)
NO_PERF = Unchecked(WRONG.source, "", "no PMU", time_ns=8)


@pytest.mark.parametrize("why", [BUSY, NO_PERF])
def test_metric_that_could_not_be_checked_again_stays_off(tmp_path: Path, why: Unchecked) -> None:
    kept.keep(tmp_path, FOUND)
    kept.keep(tmp_path, FOUND._replace(checks=(RIGHT,), unchecked=(why,)))
    now = kept.load(tmp_path)
    assert now is not None
    assert now.off == (WRONG,) and now.checks == (RIGHT, WRONG)
    assert now.unchecked == (why, NO_RAPL)


def test_metric_is_off_until_the_work_that_showed_it_is_done_again(tmp_path: Path) -> None:
    kept.keep(tmp_path, FOUND)
    other = WRONG._replace(work="another work", median=0.0)
    kept.keep(tmp_path, FOUND._replace(checks=(other,), unchecked=(BUSY,)))
    now = kept.load(tmp_path)
    assert now is not None and set(now.checks) == {RIGHT, other, WRONG}
    kept.keep(tmp_path, FOUND._replace(checks=(other,), unchecked=()))
    now = kept.load(tmp_path)
    assert now is not None and set(now.checks) == {RIGHT, other}


def test_result_of_another_machine_is_replaced_whole(tmp_path: Path) -> None:
    kept.keep(tmp_path, FOUND)
    other = FOUND._replace(cpu_model="another", checks=(WRONG,), unchecked=())
    kept.keep(tmp_path, other)
    assert kept.load(tmp_path) == other
