"""Kernels are recorded in a sample of the steps, the same in all ranks, at a cost within the budget."""

from __future__ import annotations

import os
import sys
import time
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks import kernel_switch
from roofline_agent.hooks.kernel_switch import (
    AT_LEAST,
    LEAST,
    MANY,
    MOST,
    UNTIL_KNOWN,
    KernelSwitch,
    Sampling,
)

MS = 1_000_000


def sampling(period: int = UNTIL_KNOWN, budget: float = 0.0025) -> Sampling:
    made = Sampling(budget)
    made.period = period
    return made


def sample(made: Sampling, first: int, last: int) -> list[int]:
    """The steps of the sample from first to last."""
    found = [made.next(first - 1)]
    while found[-1] <= last:
        found.append(made.next(found[-1]))
    return found[:-1]


def test_first_steady_steps_are_in_the_sample() -> None:
    assert sample(sampling(), 0, 5) == [1, 2, 3, 4]


@given(st.sampled_from([8, 64, 1024]), st.integers(1, 10**6))
def test_each_lot_of_neighbours_has_one_step_in_the_sample(period: int, lot: int) -> None:
    assert len(sample(sampling(period), lot * period, (lot + 1) * period - 1)) == 1


def test_places_differ_from_lot_to_lot() -> None:
    assert len({step % 64 for step in sample(sampling(64), 64, 6400)}) > 20


def test_a_rank_that_samples_less_does_so_in_steps_of_the_others() -> None:
    assert set(sample(sampling(256), 5, 20_000)) <= set(sample(sampling(32), 5, 20_000))


@pytest.mark.parametrize(
    ("step_ms", "excess", "period"),
    [
        *((1000, 0.0, LEAST), (1000, 0.001, LEAST), (1000, 0.15, 64), (1000, 0.5, 256), (1000, 50.0, MOST)),
        *((50, 0.0, 32), (50, 0.15, 64), (10, 0.0, 128), (10, 0.5, 256)),
    ],
)
def test_period_follows_the_cost(step_ms: int, excess: float, period: int) -> None:
    """One step a second at most, and as few as the cost asks for."""
    made = sampling()
    changed = [made.judge(round(step_ms * MS * (1 + excess)), step_ms * MS) for _ in range(AT_LEAST)]
    assert not any(changed[:-1]), "too few to tell"
    assert made.period == period
    assert excess / period <= 0.0025 or period == MOST
    assert changed[-1] == (period != UNTIL_KNOWN)


@pytest.mark.parametrize(
    ("step_ms", "excess", "period"),
    [(1000, 0.0, 4 * LEAST), (50, 0.0, 128), (5, 0.0, MOST), (50, 0.15, 256), (50, 50.0, MOST)],
)
def test_kernels_that_are_known_well_are_recorded_seldom(step_ms: int, excess: float, period: int) -> None:
    """In one step of four seconds, or in fewer, as they cost."""
    made = sampling()
    for _ in range(MANY):
        made.judge(round(step_ms * MS * (1 + excess)), step_ms * MS)
    assert made.period == period


class Rank:
    """What a switch does to a process: the level of its libraries, and what it has printed."""

    def __init__(self, to_wrapper: bool = True, page: bytes = b"") -> None:
        self.level = 0
        self.due = -1  # the step at whose end the switch wants to be called
        self.printed: list[list[str]] = []
        self.facts: dict[str, object] = {}
        self.to_wrapper = to_wrapper
        self.switch = KernelSwitch([self._set], self._print, self.facts.__setitem__, 0.005, page)
        self.now = time.monotonic_ns()

    def _set(self, level: int) -> None:
        self.level = level

    def _print(self, line: bytes) -> bool:
        if self.to_wrapper:
            assert line.startswith(b"roofline_verbose,kernels,") and line.endswith(b"\n")
            self.printed.append(line.decode().strip().split(",")[2:])
        return self.to_wrapper

    def step(self, number: int, known_after_ns: int = 0) -> int:
        """A step that ends now, or ended so long ago; the level in the next."""
        if number >= self.due:
            self.due = self.switch.border(number, time.monotonic_ns() - known_after_ns)
        return self.level

    @property
    def notes(self) -> list[str]:
        return [what for _, what, _, _ in self.printed]


def test_libraries_are_on_in_steps_of_the_sample_only() -> None:
    rank = Rank()
    levels = [rank.step(number) for number in range(-1, 8)]
    assert levels == [0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert rank.notes == ["on", "through", "through", "through", "off"]
    moments = [int(moment) for _, _, moment, _ in rank.printed]
    assert moments == sorted(moments)
    assert {int(pid) for pid, _, _, _ in rank.printed} == {os.getpid()}


def test_step_whose_begin_was_known_late_is_not_claimed() -> None:
    rank = Rank()
    rank.step(-1)
    before = time.monotonic_ns()
    rank.step(0, known_after_ns=100 * MS)
    assert int(rank.printed[0][2]) >= before, "kernels may have run since the border"
    assert [rank.step(number) for number in range(1, 6)] == [1, 1, 1, 0, 0]


def test_a_late_start_takes_one_step_more() -> None:
    rank = Rank()
    wanted = sampling().next(10)
    for number in range(-1, wanted - 1):
        rank.step(number)
    assert rank.step(wanted - 1, known_after_ns=100 * MS) == 1
    assert rank.step(wanted) == 1, "the first whole one"
    assert rank.step(wanted + 1) == 0


def test_sample_goes_on_and_the_switch_is_called_seldom() -> None:
    rank, calls, on = Rank(), 0, []
    for number in range(-1, 220):  # too few in the sample to tell what they cost
        calls += number >= rank.due
        if rank.step(number):
            on.append(number + 1)
    assert on == [1, 2, 3, 4, *sample(sampling(), 6, 220)]
    assert calls < 6 + 4 * len(on)


def test_cost_is_learnt_from_steps_before_a_sampled_one() -> None:
    rank, now = Rank(), time.monotonic_ns() + 10**12  # no border is known late
    rank.switch.sampling.period = 64
    for number in range(-1, 1000):
        now += 110 * MS if rank.level else 100 * MS
        if number >= rank.due:
            rank.due = rank.switch.border(number, now)
    assert rank.facts == {"cost.kernels": "1/32"}, "a tenth of one step in 32 is below 0.5 %"


def test_nothing_is_switched_on_when_the_output_goes_elsewhere() -> None:
    rank = Rank(to_wrapper=False)
    assert [rank.step(number) for number in range(-1, 8)] == [0] * 9


def test_libraries_are_switched_off_when_the_output_went_elsewhere() -> None:
    rank = Rank()
    assert [rank.step(number) for number in range(-1, 2)] == [0, 1, 1]
    rank.to_wrapper = False
    assert rank.step(2) == 0


def test_nothing_is_claimed_where_nothing_can_be_switched() -> None:
    rank = Rank()
    rank.switch._switches = []
    assert [rank.step(number) for number in range(-1, 8)] == [0] * 9
    assert rank.notes == []


def test_forked_child_is_silent() -> None:
    rank = Rank()
    rank.step(-1)
    assert rank.step(0) == 1
    child = os.fork()
    if child == 0:
        os._exit(rank.level)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert rank.level == 1


@pytest.mark.parametrize(("others", "budget"), [(0, 0.005), (2000, 0.003), (900_000, 0.00125)])
def test_lines_get_what_agent_and_wrapper_leave_of_the_budget(others: int, budget: float) -> None:
    page = bytearray(16)
    kernel_switch.OTHERS.pack_into(page, kernel_switch.OTHERS_AT, others)
    rank = Rank(page=bytes(page))
    rank.step(-1)
    rank.step(0)
    assert rank.switch.sampling.budget == pytest.approx(budget)


def test_only_what_the_wrapper_has_set_is_taken_out() -> None:
    environ: Any = {"ROOFLINE_KERNELS": "sampled", "MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1", "A": "b"}
    assert kernel_switch.switchable(environ)
    assert environ == {"ROOFLINE_KERNELS": "sampled", "A": "b"}
    users = {"MKL_VERBOSE": "2"}
    assert not kernel_switch.switchable(users)
    assert users == {"MKL_VERBOSE": "2"}


def test_mkl_is_warmed_up_with_its_lines_on_and_left_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[Any] = []

    def axpy(*arguments: Any) -> None:
        happened.append(len(arguments))

    monkeypatch.setattr(kernel_switch, "_loaded_libraries", lambda prefixes: ["libtorch_cpu.so"])
    monkeypatch.setattr(kernel_switch, "_function", lambda path, name: axpy if name == "saxpy_" else None)
    kernel_switch.warm_up([happened.append])
    assert happened == [1, 6, 0]


def test_tensorflows_library_is_left_to_print_beside_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads the variable as its first kernel runs, before or after PyTorch is loaded."""
    monkeypatch.setattr(kernel_switch.onednn_flag, "flags", list)
    both = {"ROOFLINE_KERNELS": "sampled", "MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
    first, later = dict(both), dict(both)
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert kernel_switch.switchable(later)
    assert later == {"ROOFLINE_KERNELS": "sampled"}
    kernel_switch.let_print(later)
    assert later == {"ROOFLINE_KERNELS": "sampled", "ONEDNN_VERBOSE": "1"}
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    assert kernel_switch.switchable(first)
    assert first == {"ROOFLINE_KERNELS": "sampled", "ONEDNN_VERBOSE": "1"}
    not_asked: dict[str, str] = {}
    kernel_switch.let_print(not_asked)
    assert not_asked == {}


def test_of_steps_that_end_at_once_none_is_claimed_whose_begin_was_known_late() -> None:
    rank = Rank()
    rank.step(7, known_after_ns=100 * MS)
    rank.step(15)
    assert rank.step(23) == 0
    assert rank.notes == ["on", "on", "off"], "the second begins the stretch anew"


def test_first_steps_that_ended_at_once_are_followed_by_a_sampled_one() -> None:
    rank = Rank()
    assert rank.step(7) == 1, "what the first call of eight updates has printed is lost in part"
    assert rank.step(15) == 0


# -- steps that end at once ----------------------------------------------------------------------------


def test_steps_that_end_at_once_are_sampled_together_and_judged_each() -> None:
    """As a call that makes ten updates hands them over, at the border of the last."""
    rank, now = Rank(), time.monotonic_ns() + 10**12
    rank.switch.sampling.period = 64
    for number in range(9, 1000, 10):
        now += 1100 * MS if rank.level else 1000 * MS
        if number >= rank.due:
            rank.due = rank.switch.border(number, now)
    assert rank.facts == {"cost.kernels": "1/32"}, "a tenth of one step in 32 is below 0.5 %"
    assert 1000 / 64 <= rank.notes.count("on") <= 1000 / 32, "calls with a step of the sample in them"


# -- a process whose steps end elsewhere ---------------------------------------------------------------


class Served:
    """A process that is switched by time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, wanted: int = 1) -> None:
        self.level, self.prints, self.known, self.to_wrapper = 1, False, True, True
        self.page = bytearray(16)
        self.page[kernel_switch.LINES_AT] = wanted
        self.now = 0
        self.printed: list[tuple[str, int]] = []
        self.searches = 0
        monkeypatch.setattr(kernel_switch.onednn_flag, "flags", self._search)
        monkeypatch.setattr(kernel_switch.time, "monotonic_ns", lambda: self.now)
        self.switch = kernel_switch.TimedSwitch(self._print, self.page)

    def __call__(self, level: int) -> None:
        self.level = level

    def _search(self) -> list[Any]:
        self.searches += 1
        return [self] if self.known else []

    def _print(self, line: bytes) -> bool:
        _, _, pid, what, moment, _ = line.decode().split(",")
        assert int(pid) == os.getpid()
        if self.to_wrapper:
            self.printed.append((what, int(moment)))
        return self.to_wrapper

    def look(self, now_s: float, wanted: bool = True) -> int:
        self.now, self.page[kernel_switch.LINES_AT] = round(now_s * 1e9), wanted
        self.switch.look()
        return self.level


S = 10**9


def test_kernels_of_a_server_are_recorded_while_the_wrapper_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = Served(monkeypatch)
    assert served.look(0.5) == 1 and served.printed == [], "no kernel has run yet"
    served.prints = True
    levels = [served.look(second / 4, not 14 < second < 24) for second in range(4, 33)]
    assert levels == [*[1] * 11, *[0] * 9, *[1] * 9]
    began = [("timed", S), ("on", S), ("through", 2 * S), ("through", 3 * S), ("off", round(3.75 * S))]
    assert served.printed == [*began, ("on", 6 * S), ("through", 7 * S), ("through", 8 * S)]


def test_server_that_calls_no_kernels_is_searched_for_a_library_once(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    for second in range(9):
        served.look(second)
    assert served.searches == 1
    assert not served.switch.is_over, "it may call one yet"


def test_library_is_silent_once_its_output_goes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    served.prints = True
    assert served.look(1) == 1
    served.to_wrapper = False
    assert served.look(2) == 0
    assert served.switch.is_over


def test_process_without_such_a_library_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    served.known = False
    served.look(1)
    assert served.switch.is_over
    assert served.printed == []


# -- fewer, as the agent asks --------------------------------------------------------------------------


@pytest.mark.parametrize("fewer", [2, 4, 16])
def test_fewer_steps_are_a_part_of_those_that_all_ranks_sample(fewer: int) -> None:
    """Of two ranks one may be asked before the other: what both pay for stays in the same steps."""
    usual, asked = sampling(64), sampling(64)
    asked.fewer = fewer
    every = sample(usual, 10, 64 * 200)
    some = sample(asked, 10, 64 * 200)
    assert set(some) <= set(every)
    assert len(every) / len(some) == pytest.approx(fewer, rel=0.1)


def test_rank_samples_fewer_steps_while_it_is_asked_to() -> None:
    page = bytearray(16)
    rank, steps = Rank(page=page), iter(range(-1, 10**6))  # type: ignore[arg-type]

    def run(count: int) -> int:
        on = 0
        for _ in range(count):
            on += rank.step(next(steps))
        return on

    rank.switch.sampling.judge = lambda *_: False  # type: ignore[method-assign]  # what they cost stays
    run(64)
    assert run(64 * 32) == pytest.approx(32, abs=1)
    kernel_switch.OTHERS.pack_into(page, kernel_switch.FEWER_AT, 4)
    run(64 * 4)  # until the next sampled step it does not know
    assert rank.facts == {"cost.kernels": "1/256"}
    assert run(64 * 32) == pytest.approx(8, abs=1)  # as they lie in lots of 256
    kernel_switch.OTHERS.pack_into(page, kernel_switch.FEWER_AT, 1)
    run(64 * 4)
    assert rank.facts == {"cost.kernels": "1/64"}
    assert run(64 * 32) == pytest.approx(32, abs=1)


@pytest.mark.parametrize(("asked", "fewer"), [(0, 1), (1, 1), (3, 2), (1000, 16), (2**32 - 1, 16)])
def test_odd_numbers_of_an_agent_are_bounded(asked: int, fewer: int) -> None:
    page = bytearray(16)
    kernel_switch.OTHERS.pack_into(page, kernel_switch.FEWER_AT, asked)
    rank = Rank(page=bytes(page))
    for number in range(-1, 200):
        rank.step(number)
    assert rank.switch.sampling.fewer == fewer
