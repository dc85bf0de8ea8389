"""The command asks the server that works with the same data."""

from __future__ import annotations

import errno
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_server.commands import prune
from roofline_server.errors import Unavailable, UnknownJob, unknown_job
from roofline_server.records import CutLevel
from roofline_server.store.retention.plan import Cut, Policy
from roofline_server.store.retention.requests import ASKED, PruneRequest, answer, ask, forget, waits


def test_two_who_ask_at_once_are_both_answered(tmp_path: Path) -> None:
    """The server looks once a second, and takes its time."""
    found: dict[str, list[Cut] | None] = {}

    def command(job: str) -> None:
        found[job] = ask(tmp_path, PruneRequest(Policy(job=job), True), lambda: True, 20)

    def plan(policy: Policy) -> list[Cut]:
        time.sleep(0.3)
        return [Cut(policy.job, CutLevel.RAW, 1)]

    retention: Any = SimpleNamespace(plan=plan)
    commands = [threading.Thread(target=command, args=(job,)) for job in ("a", "b", "c")]
    for one in commands:
        one.start()
    deadline = time.monotonic() + 20
    while any(one.is_alive() for one in commands) and time.monotonic() < deadline:
        if waits(tmp_path):
            answer(tmp_path, retention, lambda job: None)
        time.sleep(0.05)
    assert found == {job: [Cut(job, CutLevel.RAW, 1)] for job in ("a", "b", "c")}


def test_who_cannot_ask_in_time_is_told(tmp_path: Path) -> None:
    first = threading.Thread(target=ask, args=(tmp_path, PruneRequest(Policy(), True), lambda: True, 1.0))
    first.start()
    while not waits(tmp_path):
        time.sleep(0.01)
    assert ask(tmp_path, PruneRequest(Policy(), True), lambda: True, 0.2) is None
    first.join()
    assert not waits(tmp_path)


def test_server_that_starts_answers_who_asks_already(tmp_path: Path) -> None:
    answers: list[list[Cut] | None] = []

    def command() -> None:
        answers.append(ask(tmp_path, PruneRequest(Policy(), True), lambda: True, 20))

    waiting = threading.Thread(target=command)
    waiting.start()
    while not waits(tmp_path):
        time.sleep(0.01)
    forget(tmp_path)  # as a server does that has taken long to start
    assert waits(tmp_path)
    retention: Any = SimpleNamespace(plan=lambda policy: [])
    answer(tmp_path, retention, lambda job: None)
    waiting.join()
    assert answers == [[]]


def test_what_was_asked_of_a_former_server_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / ASKED).write_text("{}")
    forget(tmp_path)
    assert not waits(tmp_path)


def test_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("roofline_server.store.retention.requests._write", write)
    monkeypatch.setattr(prune, "_lock", lambda data: None)  # a server works there
    with pytest.raises(Unavailable, match="some MB there"):
        prune._asked(tmp_path, PruneRequest(Policy(), True))


def test_job_that_nobody_knows_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "_lock", lambda data: None)  # a server works there

    def plan(policy: Policy) -> None:
        raise unknown_job(policy.job, ["42"])

    def answer_one() -> None:
        while not waits(tmp_path):
            time.sleep(0.01)
        retention: Any = SimpleNamespace(plan=plan)
        answer(tmp_path, retention, lambda job: None)

    answering = threading.Thread(target=answer_one)
    answering.start()
    with pytest.raises(UnknownJob, match="no job 'x'; known are 42") as raised:
        prune._asked(tmp_path, PruneRequest(Policy(job="x"), True))
    answering.join()
    assert raised.value.exit_code == 5
