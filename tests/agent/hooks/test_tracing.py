"""Which steps a framework's profiler records, and what the wrapper finds of it. The profiler is a double."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks import Marker, tracing
from roofline_agent.hooks.kernel_switch import KernelSwitch
from roofline_agent.hooks.tf.calls import TrainingCall
from roofline_agent.hooks.tf.steps import Steps
from roofline_agent.run.rank_page import RankPage
from roofline_agent.traces.handing import parse_done


class FakeProfiler:
    failing = ""  # "start" or "stop"

    def __init__(self, path: str) -> None:
        self._path = Path(path + ".json")

    def start(self) -> None:
        if self.failing == "start":
            raise RuntimeError("it is at it already")

    def stop(self) -> str:
        if self.failing == "stop":
            raise OSError("the disk is full")
        self._path.write_text("{}")
        return str(self._path)


class Rank:
    """The hooks of a rank, and the page that its wrapper writes to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.page, self.folder = RankPage(), folder
        self.facts: dict[str, object] = {}
        self.marks_itself = False  # the training does
        self.sent: list[Any] = []  # marks
        self.spans: list[Any] = []
        step = SimpleNamespace(
            said_by_training=lambda: self.marks_itself,
            send_step=lambda marks, spans: self.sent.extend(marks),
            send_spans=self.spans.extend,
            send_fact=self._fact,
            BEGIN=1,
            END=2,
            BORDER=3,
        )
        self.marker = Marker(step, self.page.environ)
        self.marker.traces_with("torch")
        self.profiler = type("Profiler", (FakeProfiler,), {})
        module = SimpleNamespace(PROFILER=self.profiler)
        monkeypatch.setattr(tracing.importlib, "import_module", lambda *_: module)

    def _fact(self, name: str, value: object) -> None:
        self.facts[name] = value

    def ask(self, steps: str) -> None:
        assert self.page.ask_for_trace(f"{steps} {self.folder}")

    def steps(self, first: int, last: int) -> list[int]:
        """Behind which of these steps the training stood still."""
        stood = []
        for number in range(first, last + 1):
            self.marker.border(number)
            if self.marker.take_stall():
                stood.append(number)
        return stood

    def calls_of_ten_steps(self, count: int) -> None:
        """As of a Keras with steps_per_execution=10."""
        steps, model = Steps(), FakeProfiler("")
        for _ in range(count):
            begin = time.monotonic_ns()
            while time.monotonic_ns() < begin + 10_000:
                pass
            steps.ended(self.marker, model, TrainingCall(begin, time.monotonic_ns(), 320, updates=10))

    def recorded(self) -> list[int]:
        (path,) = self.folder.glob("*.done")
        steps = parse_done(path).steps
        assert all(begin < end for _, begin, end in steps)
        return [number for number, _, _ in steps]

    def why_not(self) -> str:
        (path,) = self.folder.glob("*.failed")
        return str(json.loads(path.read_text()))


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Rank]:
    made = Rank(monkeypatch, tmp_path)
    yield made
    made.page.close()


def test_steps_that_were_asked_for_are_recorded_and_no_others(rank: Rank) -> None:
    rank.ask("10-12")
    assert rank.steps(-1, 20) == [9, 12]
    assert rank.recorded() == [10, 11, 12]
    assert rank.facts[tracing.STEPS] == "10-12"


def test_next_steps_begin_behind_the_border_at_which_they_were_asked_for(rank: Rank) -> None:
    rank.steps(-1, 30)
    rank.ask("+2")
    assert rank.steps(31, 40) == [31, 33]
    assert rank.recorded() == [32, 33]


def test_all_traced_steps_are_named_however_often_it_was_asked(rank: Rank) -> None:
    rank.ask("3-3")
    rank.steps(-1, 5)
    rank.ask("8-9")
    rank.steps(6, 12)
    assert rank.facts[tracing.STEPS] == "3,8-9"


def test_steps_that_are_over_are_refused(rank: Rank) -> None:
    rank.steps(-1, 12)
    rank.ask("10-12")
    assert rank.steps(13, 15) == []
    assert rank.why_not() == "step 10 had begun before it was asked for"


def test_borders_that_are_handed_over_late_begin_nothing(rank: Rank) -> None:
    rank.ask("+1")
    rank.marker.more = True  # an older border, of which the next follows at once
    assert rank.steps(5, 5) == []
    rank.marker.more = False
    rank.marker.border(6, time_ns=time.monotonic_ns() - 50_000_000)  # the hooks are in the middle of step 7
    assert rank.marker.take_stall() is None
    assert rank.steps(7, 9) == [7, 8]
    assert rank.recorded() == [8]


def test_steps_amid_a_call_of_several_are_not_recorded(rank: Rank) -> None:
    rank.ask("15-17")
    rank.calls_of_ten_steps(4)
    assert rank.why_not() == tracing.PASSED
    assert rank.facts.get(tracing.STEPS) is None
    rank.ask("+1")
    rank.steps(40, 45)
    assert rank.recorded() == [41]


@pytest.mark.parametrize("asked", ["15-24", "20-20", "20-29"])
def test_calls_of_several_steps_are_recorded_whole(rank: Rank, asked: str) -> None:
    rank.ask(asked)
    rank.calls_of_ten_steps(4)
    assert rank.recorded() == list(range(20, 30))


def test_borders_that_are_seen_together_leave_the_steps_that_are_still_wanted(rank: Rank) -> None:
    rank.ask("5-9")
    rank.steps(0, 2)
    rank.marker.more = True
    rank.steps(3, 5)
    rank.marker.more = False
    assert rank.steps(6, 12) == [6, 9]
    assert rank.recorded() == [7, 8, 9]


@pytest.mark.parametrize(("asked", "known"), [("+1", 20), ("6-8", 6), ("2-3", 2)])
def test_steps_that_are_known_late_are_not_waited_for_for_ever(rank: Rank, asked: str, known: int) -> None:
    """A border is known when the next step has begun, as without an optimizer."""
    rank.ask(asked)
    for number in range(known):
        assert not list(rank.folder.glob("*.failed"))
        rank.marker.border(number, time_ns=time.monotonic_ns() - 50_000_000)
    assert rank.marker.take_stall() is None
    assert rank.why_not() == tracing.LATE


def test_step_that_was_asked_for_by_number_begins_at_a_border_that_is_late_once(rank: Rank) -> None:
    rank.ask("5-6")
    rank.steps(0, 3)
    rank.marker.border(4, time_ns=time.monotonic_ns() - 50_000_000)  # the thread had lost its CPU
    rank.steps(5, 8)
    assert rank.recorded() == [5, 6]


def test_step_that_was_over_when_the_profiler_began_is_none_of_the_recorded(rank: Rank) -> None:
    rank.ask("5-6")
    rank.steps(3, 4)
    rank.marker.border(5, time_ns=time.monotonic_ns() - 10**9)
    rank.steps(6, 8)
    assert rank.recorded() == [6, 7]


@pytest.mark.parametrize(("failing", "why"), [("start", "it is at it already"), ("stop", "the disk is full")])
def test_profiler_that_fails_costs_the_trace_alone(rank: Rank, failing: str, why: str) -> None:
    rank.profiler.failing = failing
    rank.ask("2-3")
    rank.steps(-1, 10)
    assert why in rank.why_not()
    assert not list(rank.folder.glob("*.done"))
    rank.profiler.failing = ""
    rank.ask("20-20")
    rank.steps(11, 25)
    assert rank.recorded() == [20], "the next one works"


def test_steps_disturbed_by_a_profiler_that_failed_at_the_end_are_named_all_the_same(rank: Rank) -> None:
    rank.profiler.failing = "stop"
    rank.ask("2-3")
    rank.steps(-1, 10)
    assert rank.facts[tracing.STEPS] == "2-3"


def test_training_that_marks_its_steps_itself_is_traced_by_its_own_numbers(rank: Rank) -> None:
    rank.ask("100-100")
    for number in range(98, 103):
        rank.marker.training_marked(number, time.monotonic_ns())
    assert rank.recorded() == [100]


def marked(rank: Rank, numbers: Iterable[int], next_begins: bool = True) -> list[tuple[int, int, int]]:
    """What is sent in addition to the marks of a training: kind, step and time of each mark."""
    rank.marks_itself = True
    for number in numbers:
        rank.marker.training_marked(number, time.monotonic_ns(), next_begins)
    return [(kind, step, at) for kind, step, _, at, *_ in rank.sent]


def test_training_that_marks_its_steps_itself_has_no_step_with_the_writing_of_a_trace_in_it(
    rank: Rank,
) -> None:
    rank.ask("100-101")
    (_, _, started), (_, _, stopped) = sent = marked(rank, range(95, 105))
    assert [one[:2] for one in sent] == [(1, 100), (1, 102)]
    assert [(name, end) for name, _, end, *_ in rank.spans] == [
        ("between.trace", started),
        ("between.trace", stopped),
    ]
    (path,) = rank.folder.glob("*.done")
    done = parse_done(path)
    assert (done.framework, done.steps[0][1]) == ("torch", started)


def test_step_that_a_training_may_not_mark_next_is_not_begun_for_it(rank: Rank) -> None:
    rank.ask("+1")
    assert marked(rank, [100, 120, 140, 160]) == []
    assert len(rank.spans) == 2
    rank.ask("+1")
    assert marked(rank, range(161, 165), next_begins=False) == [], "the training marks begins itself"
    assert len(rank.spans) == 4


def test_kernels_are_not_sampled_in_a_traced_step() -> None:
    levels: list[int] = []
    notes: list[bytes] = []
    switch = KernelSwitch([levels.append], lambda line: notes.append(line) or True, lambda *_: None, 0.005)
    for number in range(8):
        switch.border(number, time.monotonic_ns(), leave_next=number in (0, 1, 2))
    on = [number for number, level in enumerate(levels) if level]
    assert on, "it is switched on later"
    assert levels == [0, 1, 0], "at first, for the sampled ones, and behind them"


def test_rank_without_a_wrapper_is_never_asked() -> None:
    marker = Marker(SimpleNamespace(said_by_training=lambda: False, send_step=lambda *_: None, BORDER=3), {})
    assert not marker.tracing.is_due
    marker.border(0)
    assert marker.take_stall() is None


def test_request_is_read_as_it_was_written() -> None:
    assert tracing.parsed("100-102 /tmp/a b") == tracing.Request(100, 102, 3, "/tmp/a b", 0)
    assert tracing.parsed("+3 /tmp/x") == tracing.Request(None, 0, 3, "/tmp/x", 0)
    with pytest.raises(ValueError, match="invalid literal"):
        tracing.parsed("a-b /tmp/x")


def test_request_that_was_withdrawn_is_not_followed(rank: Rank) -> None:
    rank.ask("10-12")
    rank.steps(0, 5)
    rank.page.withdraw_trace()
    assert rank.steps(6, 15) == []
    rank.page.withdraw_trace()
    rank.marker.tracing.record_time(lambda _: None)
    rank.marker.tracing.refuse("why")
    assert list(rank.folder.iterdir()) == []
    rank.ask("+1")
    assert rank.steps(16, 20) == [16, 17]


def test_process_without_borders_records_for_as_long_as_the_steps_take(rank: Rank) -> None:
    rank.ask("+3@40000")
    waited: list[float] = []
    assert rank.marker.tracing.is_due
    rank.marker.tracing.record_time(waited.append)
    assert waited == [pytest.approx(4.5 * 0.04)]
    (path,) = rank.folder.glob("*.done")
    ((number, begin, end),) = parse_done(path).steps
    assert number == tracing.UNNUMBERED
    assert rank.facts == {tracing.TIMES: f"{begin}-{end}"}
    assert not rank.marker.tracing.is_due


@pytest.mark.parametrize(("steps", "why"), [("10-12", tracing.NO_BORDERS), ("+3", tracing.NO_STEP_YET)])
def test_process_without_borders_says_what_it_cannot_record(rank: Rank, steps: str, why: str) -> None:
    rank.ask(steps)
    rank.marker.tracing.record_time(lambda _: None)
    assert rank.why_not() == why


def test_profiler_that_fails_in_a_process_without_borders_is_named(rank: Rank) -> None:
    rank.profiler.failing = "start"
    rank.ask("+3@40000")
    rank.marker.tracing.record_time(lambda _: None)
    assert "it is at it already" in rank.why_not()
