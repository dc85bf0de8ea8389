"""The list of jobs on a narrow terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from roofline.answers.jobs import Job
from roofline_client.tables import jobs

STATE = "failed: worker:1 exited with 3 after step 20"
TAGS = {"experiment": "scaling", "note": "a b c d " * 15}
BEGIN_NS = 1_790_000_000 * 10**9


def shown(name: str, width: int) -> list[str]:
    job = Job(name, BEGIN_NS, BEGIN_NS + 10**10, 2, {"worker": 2}, ["node1"], False, TAGS, STATE)
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(jobs.as_text([job]))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("length", [8, 24, 26, 30, 36, 40])
def test_tags_and_states_fold_before_a_name_does(length: int) -> None:
    lines = shown("j" * length, 80)
    assert max(map(len, lines)) <= 80
    named = [line for line in lines if line.startswith("j" * length + " ")]
    assert len(named) == sum(line.startswith("job ") for line in lines)
    assert any(":" in line and "20" in line for line in named), "the time is whole"


@pytest.mark.parametrize("width", [10, 20, 40])
def test_a_name_that_has_no_room_folds(width: int) -> None:
    lines = shown("j" * 40, width)
    assert max(map(len, lines)) <= width
