from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from roofline.v1 import query_pb2 as pb
from roofline_server.query.answers import Answers
from roofline_server.query.questions import FRESH_S, LONG_S, Questions

from ..services import serving

PATIENCE_S = 20


class Work:
    """Computes an answer when it is allowed to, and counts how often it was begun."""

    def __init__(self) -> None:
        self.begun = 0
        self.may_end = threading.Event()

    def __call__(self, *_: Any) -> int:
        self.begun += 1
        assert self.may_end.wait(PATIENCE_S)
        return self.begun


class Asked:
    """Questions of one thread, and a clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.questions = Questions(1, lambda: self.now_s)

    def ask(self, key: str, work: Callable[[], Any]) -> asyncio.Task[Any]:
        return asyncio.create_task(self.questions.answer(key, work))


def run(test: Callable[[Asked], Coroutine[Any, Any, None]]) -> None:
    async def asked() -> None:
        await asyncio.wait_for(test(Asked()), PATIENCE_S)

    asyncio.run(asked())


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


async def left(*tasks: asyncio.Task[Any]) -> None:
    """Their callers go away."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_equal_questions_that_wait_are_computed_once() -> None:
    async def test(asked: Asked) -> None:
        first, second = Work(), Work()
        running = asked.ask("a", first)
        await until(lambda: first.begun)
        waiting = [asked.ask("b", second) for _ in range(5)]
        asked.now_s += 100 * FRESH_S
        waiting += [asked.ask("b", second) for _ in range(5)]
        first.may_end.set()
        second.may_end.set()
        assert await asyncio.gather(running, *waiting) == [1] * 11

    run(test)


def test_an_answer_is_not_older_than_a_moment_when_it_is_asked_for() -> None:
    async def test(asked: Asked) -> None:
        work = Work()
        first = asked.ask("a", work)
        await until(lambda: work.begun)
        asked.now_s = FRESH_S
        soon = asked.ask("a", work)
        await asyncio.sleep(0)
        asked.now_s = 2 * FRESH_S
        late = asked.ask("a", work)
        await asyncio.sleep(0)
        work.may_end.set()
        assert [await first, await soon, await late] == [1, 1, 2]

    run(test)


def test_what_nobody_waits_for_any_more_is_not_computed() -> None:
    async def test(asked: Asked) -> None:
        first, gone, stays = Work(), Work(), Work()
        running = asked.ask("a", first)
        await until(lambda: first.begun)
        leaving = [asked.ask("gone", gone) for _ in range(2)]
        one, other = asked.ask("stays", stays), asked.ask("stays", stays)
        await asyncio.sleep(0)
        await left(*leaving, one)
        for work in (first, gone, stays):
            work.may_end.set()
        assert (await running, await other, gone.begun) == (1, 1, 0)
        # Who comes back is answered.
        assert await asked.ask("gone", gone) == 1

    run(test)


def test_who_asks_as_the_last_caller_leaves_is_answered() -> None:
    async def test(asked: Asked) -> None:
        first, work = Work(), Work()
        running = asked.ask("a", first)
        await until(lambda: first.begun)
        leaving = asked.ask("b", work)
        await asyncio.sleep(0)
        leaving.cancel()
        again = asked.ask("b", work)  # before anything else happens
        await asyncio.sleep(0)
        first.may_end.set()
        work.may_end.set()
        assert (await running, await again, leaving.cancelled()) == (1, 1, True)

    run(test)


def test_what_was_left_while_it_was_computed_is_given_to_who_asks_again() -> None:
    async def test(asked: Asked) -> None:
        work = Work()
        leaving = asked.ask("a", work)
        await until(lambda: work.begun)
        await left(leaving)
        asked.now_s = 100 * FRESH_S
        again = asked.ask("a", work)
        await asyncio.sleep(0)
        work.may_end.set()
        assert await again == 1

    run(test)


def test_all_who_asked_hear_what_went_wrong() -> None:
    async def test(asked: Asked) -> None:
        def fails() -> None:
            raise ValueError("no such step")

        for task in [asked.ask("a", fails) for _ in range(3)]:
            with pytest.raises(ValueError, match="no such step"):
                await task

    run(test)


def test_memory_of_long_answers_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = threading.Event()
    monkeypatch.setattr("roofline_server.query.questions.give_back", given_back.set)

    async def test(asked: Asked) -> None:
        def takes(seconds: float) -> None:
            asked.now_s += seconds

        await asked.ask("short", lambda: takes(LONG_S / 2))
        await asked.questions.alone(int)  # in the one thread there is, behind what the short one left to do
        assert not given_back.is_set()
        await asked.ask("long", lambda: takes(2 * LONG_S))
        await until(given_back.is_set)

    run(test)


def test_a_client_that_leaves_takes_its_question_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, asked = Work(), []
    monkeypatch.setattr("roofline_server.query.questions.THREADS", 1)
    monkeypatch.setattr(Answers, "stragglers", lambda *_: running() and pb.Stragglers())
    monkeypatch.setattr(Answers, "report", lambda _, request: asked.append(request.job) or pb.Report())

    async def test() -> None:
        async with serving(tmp_path) as server:
            first = server.query.GetStragglers(pb.GetStragglersRequest(job="7"))
            await until(lambda: running.begun)
            gone, stays = (server.query.GetReport(pb.GetReportRequest(job=job)) for job in ("gone", "stays"))
            # Questions of one connection come in order: what is answered after them has come after them.
            await server.query.ListAgents(pb.ListAgentsRequest())
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
            await server.query.ListAgents(pb.ListAgentsRequest())
            running.may_end.set()
            await asyncio.gather(first, stays)
            assert asked == ["stays"]

    asyncio.run(asyncio.wait_for(test(), PATIENCE_S))
