"""What is said of a job that is not known."""

from __future__ import annotations

from roofline_server.errors import unknown_job

NEWEST_FIRST = [f"alice-train-{n}" for n in range(10, 0, -1)]


def test_the_newest_are_named_and_how_many_more_there_are() -> None:
    assert str(unknown_job("x", NEWEST_FIRST)) == (
        "this server has no job 'x'; known are alice-train-10, alice-train-9, alice-train-8, alice-train-7, "
        "alice-train-6 and 5 more"
    )


def test_what_is_like_it_comes_first() -> None:
    known = ["d", "c", "resnet-50", "b", "a", "e"]
    assert str(unknown_job("resnet50", known)).endswith("known are resnet-50, d, c, b, a and 1 more")


def test_all_are_named_where_they_are_few() -> None:
    assert str(unknown_job("x", ["2", "1"])) == "this server has no job 'x'; known are 2, 1"
    assert str(unknown_job("x", [])) == "this server has no job 'x'; it has no jobs yet"
