from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_server.store.catalog.run_choice import (
    LATE_NS,
    SILENT_NS,
    Choice,
    Run,
    RunProcess,
    choose,
    job_and_number,
    nearest,
    run_name,
)

S = 1_000_000_000


def process(
    index: int = 0, start: float = 0, last: float = 100, ended: bool = True, world: int = 0, launch: str = ""
) -> RunProcess:
    return RunProcess(("worker", index), world, launch, int(start * S), int(last * S), ended)


def new(index: int = 0, start: float = 200, last: float | None = None, **more: object) -> RunProcess:
    return process(index, start, start + 1 if last is None else last, False, **more)  # type: ignore[arg-type]


def test_first_process_begins_the_first_run() -> None:
    assert choose(new(), []) == Choice(None)


def test_process_that_starts_after_the_end_is_a_new_run() -> None:
    assert choose(new(start=101), [Run(1, [process()])]) == Choice(None)


def test_process_that_starts_while_another_lives_belongs_to_its_run() -> None:
    """A rank is started again while the others wait for it."""
    run = Run(1, [process(0, last=50), process(1, last=100)])
    assert choose(new(0, start=60), [run]) == Choice(1)


def test_what_comes_late_belongs_to_the_run_of_its_time() -> None:
    runs = [Run(1, [process(0, 0, 100)]), Run(2, [process(0, 110, 200, ended=False)])]
    assert choose(new(1, start=30, last=31), runs) == Choice(1)
    assert choose(new(1, start=150, last=151), runs) == Choice(2)


def test_a_launcher_that_lives_on_makes_one_run_of_all_its_processes() -> None:
    run = Run(1, [process(0, launch="a")])
    assert choose(new(0, start=5000, launch="a"), [run]) == Choice(1)
    assert choose(new(0, start=5000, launch="b"), [run]) == Choice(None)


def test_rank_that_had_ended_when_it_became_known_is_of_the_launch_it_began_with() -> None:
    """Two nodes report a short run one after the other; what began first may become known last."""
    run = Run(1, [process(0, 100, 101, world=2)])
    short = process(1, 99.9, 99.9, world=2)
    assert choose(short, [run]) == Choice(1)
    assert choose(process(0, 99.9, 99.9, world=2), [run]) == Choice(None)  # the run has that rank
    assert choose(process(1, 80, 80, world=2), [run]) == Choice(None)  # 20 s earlier is another launch


def test_ranks_of_one_launch_are_one_run_though_the_first_has_failed() -> None:
    run = Run(1, [process(0, 0, 1, world=2)])
    assert choose(new(1, start=3, world=2), [run]) == Choice(1)
    assert choose(new(0, start=3, world=2), [run]) == Choice(None), "this rank has been there"
    assert choose(new(1, start=3, world=4), [run]) == Choice(None), "a job of another size"
    assert choose(new(1, start=30, world=2), [run]) == Choice(None)


def test_process_from_before_that_still_lived_belongs_to_the_run() -> None:
    """Its node was cut off, or its agent started late."""
    run = Run(1, [process(0, 500, 600, ended=False)])
    assert choose(new(1, start=10, last=550), [run]) == Choice(1)
    assert choose(new(1, start=450, last=451), [run]) == Choice(1)
    assert choose(new(1, start=10, last=11), [run]) == Choice(None)


@pytest.mark.parametrize(
    ("silent_ns", "choice"),
    [
        (SILENT_NS - 1, Choice(1, sure=False)),
        (SILENT_NS + 1, Choice(None, sure=False)),
        (LATE_NS + 1, Choice(None)),
    ],
)
def test_a_node_that_has_not_reported_leaves_it_open(silent_ns: int, choice: Choice) -> None:
    run = Run(1, [process(0, 0, 100, ended=True), process(1, 0, 100, ended=False)])
    assert choose(new(0, start=100 + silent_ns / S), [run]) == choice


def test_a_file_belongs_to_the_run_of_its_time() -> None:
    runs = [Run(2, [process(0, 110, 200)]), Run(1, [process(0, 10, 100)])]
    assert [nearest(int(end * S), runs) for end in (50, 105, 150, 900, 1)] == [1, 1, 2, 2, 2]
    assert nearest(5, []) is None


names = st.text("ab/12", min_size=1, max_size=6)


@given(names, st.integers(1, 30), names, st.integers(1, 30))
def test_names_of_runs_are_unique(job: str, number: int, other: str, other_number: int) -> None:
    if (job, number) != (other, other_number):
        assert run_name(job, number) != run_name(other, other_number)
    assert job_and_number(run_name(job, number)) == (job, number)
