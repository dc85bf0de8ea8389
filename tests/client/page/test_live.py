"""What many watch is asked for once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_client.page import live
from roofline_client.page.live import Feed, Feeds, Found, Pace, Turns


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.01)


class Counter:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    async def __call__(self) -> Found:
        self.asked += 1
        return Found(str(self.asked), True, 0.0)


async def some(messages: AsyncIterator[str], count: int) -> list[str]:
    found = []
    async for message in messages:
        found.append(message)
        if len(found) == count:
            break
    await messages.aclose()  # type: ignore[attr-defined]
    return found


def test_all_watchers_of_a_subject_see_the_same_and_one_asks() -> None:
    async def scenario() -> tuple[list[list[str]], int]:
        feeds, ask = Feeds(), Counter()
        watched = [some(feeds.feed("42", ask).watch(), 5) for _ in range(20)]
        return await asyncio.gather(*watched), ask.asked

    seen, asked = asyncio.run(scenario())
    assert all(one == seen[0] for one in seen)
    assert asked <= 7


def test_where_nothing_is_new_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "NEWS_S", 0.001)

    async def scenario() -> list[int]:
        batch, asked = 1, []

        async def newest() -> int:
            return batch

        ask = Counter()
        watching = asyncio.create_task(some(Feed(ask, Pace(), newest=newest).watch(), 1000))
        for batch, times in ((1, 2), (2, 3), (7, 4)):  # noqa: B007 - `newest` reads it
            while ask.asked < times:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            asked.append(ask.asked)
        watching.cancel()
        return asked

    assert asyncio.run(asyncio.wait_for(scenario(), 4)) == [2, 3, 4], (
        "the second time, as it was not known before the first"
    )


@pytest.mark.parametrize("without_news_s", [0.05, 5.0])
def test_it_is_asked_all_the_same_after_a_while_and_where_news_are_not_known(
    monkeypatch: pytest.MonkeyPatch, without_news_s: float
) -> None:
    monkeypatch.setattr(live, "WITHOUT_NEWS_S", without_news_s)

    async def newest() -> int:
        return int(without_news_s < 1)  # 0: a server of an earlier release

    async def scenario() -> list[str]:
        return await some(Feed(Counter(), Pace(), newest=newest).watch(), 4)

    assert asyncio.run(asyncio.wait_for(scenario(), 4)) == ["1", "2", "3", "4"]


def test_nobody_is_asked_when_nobody_watches() -> None:
    async def scenario() -> tuple[int, int]:
        feeds, ask = Feeds(), Counter()
        await some(feeds.feed("42", ask).watch(), 2)
        await asyncio.sleep(0.05)
        before = ask.asked
        await asyncio.sleep(0.1)
        return before, ask.asked

    before, after = asyncio.run(scenario())
    assert before == after


def test_who_comes_back_soon_sees_what_was_found_last_and_nothing_is_asked_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> tuple[list[list[str]], int]:
        feeds, ask = Feeds(), Counter()
        first = await some(feeds.feed("42", ask).watch(), 1)
        monkeypatch.setattr(live, "EVERY_S", 60.0)
        second = await some(feeds.feed("42", ask).watch(), 2)  # the one that was due, after which is rest
        return [first, second, *[await some(feeds.feed("42", ask).watch(), 1) for _ in range(5)]], ask.asked

    seen, asked = asyncio.run(scenario())
    assert asked == 2 and seen == [["1"], ["1", "2"], *[["2"]] * 5]


def test_what_several_feeds_show_comes_as_it_is_there() -> None:
    async def scenario() -> tuple[list[tuple[str, str]], bool]:
        feeds, slow = Feeds(), asyncio.Event()

        async def late() -> Found:
            await slow.wait()
            return Found("verdict", True, 0.0)

        found, both = [], {"steps": feeds.feed("steps", Counter()), "verdict": feeds.feed("verdict", late)}
        stream = live.merged(both)
        async for name, shown in stream:
            found.append((name, shown))
            if len(found) == 3:
                slow.set()
            if name == "verdict":
                break
        await stream.aclose()  # type: ignore[attr-defined]
        return found, any(feed.is_watched for feed in both.values())

    found, watched = asyncio.run(scenario())
    assert found[:3] == [("steps", "1"), ("steps", "2"), ("steps", "3")]
    assert found[-1] == ("verdict", "verdict") and not watched


def test_a_slow_reader_gets_the_newest_and_holds_nobody_up() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        feeds, ask = Feeds(), Counter()
        slow = feeds.feed("42", ask).watch()
        first = [await anext(slow)]
        quick = await some(feeds.feed("42", ask).watch(), 20)
        return [*first, await anext(slow)], quick

    slow, quick = asyncio.run(scenario())
    assert int(slow[1]) >= int(quick[-1]) - 1, "what came between is not kept for it"


def test_of_subjects_that_nobody_watches_few_are_kept() -> None:
    async def scenario() -> int:
        feeds = Feeds()
        for number in range(50):
            await some(feeds.feed(number, Counter()).watch(), 1)
        return len(feeds._feeds)

    assert asyncio.run(scenario()) <= live.KEPT + 2


def test_a_failing_question_ends_no_feed() -> None:
    async def scenario() -> list[str]:
        asked = Counter()

        async def sometimes() -> Found:
            found = await asked()
            if asked.asked == 2:
                raise RuntimeError("once")
            return found

        return await asyncio.wait_for(some(Feeds().feed("42", sometimes).watch(), 2), 5)

    assert asyncio.run(scenario()) == ["1", "3"]


def paced(*seconds: float, share: float | None = None) -> Pace:
    pace = Pace()
    for who, spent_s in enumerate(seconds):
        pace.took(who, Found("", True, spent_s, share))
    return pace


@given(st.lists(st.floats(0.2, 5.0), min_size=1, max_size=8), st.sampled_from([0.1, 0.25]))
def test_all_questions_together_take_the_share_that_the_server_grants(
    seconds: list[float], share: float
) -> None:
    pace = paced(*seconds, share=share)
    periods = [pace.period_s(who) for who in range(len(seconds))]
    taken = sum(one / period for one, period in zip(seconds, periods, strict=True))
    if max(periods) < live.MOST_S:
        assert taken == pytest.approx(share)
    by_cost = sorted(zip(seconds, periods, strict=True))
    assert [period for _, period in by_cost] == sorted(periods), "what takes longer is asked more seldom"


@given(st.lists(st.floats(0.2, 30.0), min_size=1, max_size=8), st.sampled_from([0.02, 0.1]))
def test_what_is_asked_at_least_so_often_takes_nothing_from_the_others(
    seconds: list[float], share: float
) -> None:
    pace = paced(*seconds, share=share)
    periods = [pace.period_s(who) for who in range(len(seconds))]
    assert max(periods) <= live.MOST_S
    assert sum(
        one / period for one, period in zip(seconds, periods, strict=True) if period < live.MOST_S
    ) <= share * (1 + 1e-9)


def test_what_takes_little_is_asked_no_more_often_than_is_useful_and_nothing_never() -> None:
    pace, ask = Pace(), Counter()
    assert Feed(ask, pace)._period_s() == live.EVERY_S
    assert Feed(ask, pace, 5.0)._period_s() == 5.0
    assert paced(30.0, 30.0, share=0.02).period_s(0) == live.MOST_S


def test_a_server_that_becomes_busy_is_asked_less_at_once_by_all() -> None:
    pace = paced(1.0, 1.0, share=0.25)
    before = pace.period_s(0)
    pace.took(1, Found("", True, 1.0, 0.05))
    assert pace.period_s(0) == pytest.approx(5 * before)


def test_who_asks_no_more_and_what_does_not_change_leave_the_time_to_others() -> None:
    pace = paced(1.0, 1.0, 1.0, share=0.25)
    pace.leave(1)
    pace.took(2, Found("", False, 1.0))
    assert pace.period_s(0) == pytest.approx(1.0 / 0.25) and pace.period_s(2) == live.STILL_S


def test_a_period_lasts_as_long_as_what_is_granted_says_while_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "MOST_S", 3600.0)

    async def scenario() -> int:
        feeds, costly = Feeds(), Counter()

        async def dear() -> Found:
            return (await costly())._replace(spent_s=1.0, share=0.001)

        watched = asyncio.create_task(some(feeds.feed("dear", dear).watch(), 2))
        while not costly.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        assert costly.asked == 1, "in a quarter of an hour again"

        async def cheap() -> Found:
            return Found("", True, 0.0, 1000.0)  # the server is quiet again

        other = asyncio.create_task(some(feeds.feed("cheap", cheap).watch(), 1))
        await asyncio.wait_for(watched, 5)
        other.cancel()
        return costly.asked

    assert asyncio.run(scenario()) == 2


def test_questions_come_one_after_the_other_the_most_urgent_first_and_who_left_is_passed_over() -> None:
    async def scenario() -> list[str]:
        turns, order = Turns(), []

        async def ask(name: str, urgency: int) -> None:
            await turns.wait(urgency)
            order.append(name)
            await asyncio.sleep(0.01)
            turns.end()

        asked = [asyncio.create_task(ask(name, urgency)) for name, urgency in
                 (("first", 9), ("late", 2), ("gone", 0), ("verdict", 0), ("roofline", 1))]  # fmt: skip
        await asyncio.sleep(0)
        asked[2].cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await ask("next", 5)
        return order

    assert asyncio.run(scenario()) == ["first", "verdict", "roofline", "late", "next"]


def test_a_turn_that_comes_to_one_that_leaves_goes_on_to_the_next() -> None:
    async def scenario() -> None:
        turns = Turns()
        await turns.wait(0)
        leaving, staying = (asyncio.create_task(turns.wait(0)) for _ in range(2))
        await asyncio.sleep(0)
        turns.end()  # to the one that
        leaving.cancel()  # leaves in the same moment
        await asyncio.wait_for(staying, 5)

    asyncio.run(scenario())


def test_what_was_asked_with_an_access_is_forgotten_with_it() -> None:
    feeds, ask = Feeds(), Counter()
    mine, others = (feeds.feed(("jobs", (), access), ask) for access in ("mine", "others"))
    feeds.forget("mine")
    assert feeds.feed(("jobs", (), "others"), ask) is others
    assert feeds.feed(("jobs", (), "mine"), ask) is not mine
