"""What is asked for with what was typed into the form of an answer."""

from __future__ import annotations

from typing import Any, cast

import pytest
from roofline.answers.jobs import Job
from roofline_client.api import Client
from roofline_client.page import answers


class Compared(Exception):
    """Of two jobs."""


class Server:
    """Knows some jobs; has no answers."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def jobs(self) -> list[Job]:
        return [Job(name, 1, 2, 1, {}, ["h"], False, {}) for name in self._names]

    def compare(self, first: str, second: str, *_: Any) -> Any:
        raise Compared(first, second)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("41", ["41"]),
        ("42 of user 1001", ["42 of user 1001"]),
        ("41, 42 of user 1001,,", ["41", "42 of user 1001"]),
        ("a,b", ["a", "b"]),
        ("lr=1,2", ["lr=1,2"]),
    ],
)
def test_jobs_to_compare_have_commas_between_them_and_may_have_blanks(text: str, named: list[str]) -> None:
    server = cast(Client, Server("41", "42 of user 1001", "lr=1,2"))
    assert answers._named(server, text) == named
    with pytest.raises(Compared) as error:
        answers.ALL["compare"].ask(server, {"first": "40", "second": text, "steps": ""})
    assert error.value.args == ("40", named[0])


def test_a_name_of_a_job_keeps_its_blanks_and_others_lose_what_was_typed_around_them() -> None:
    asked = {"first": " 42", "second": "41 ", "steps": " 10:90 ", "other": "x"}
    expected = {"first": " 42", "second": "41 ", "steps": "10:90"}
    assert answers.given(answers.ALL["compare"], asked) == expected
