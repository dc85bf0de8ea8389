"""Kernels are recorded in a sample of the steps, the same in all ranks, at a cost within the budget."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks import kernel_switch
from roofline_agent.hooks.kernel_switch import (
    AT_LEAST,
    BEHIND_FIRST,
    COMPARED,
    LEAST,
    MOST,
    UNTIL_KNOWN,
    KernelSwitch,
    Sampling,
)

MS = 1_000_000


def warm(budget: float, period: int = UNTIL_KNOWN) -> Sampling:
    """One that has seen the first steps."""
    sampling = Sampling(budget)
    sampling.period = period
    for _ in range(BEHIND_FIRST + 1):
        sampling.ended()
    return sampling


def test_first_steady_steps_are_in_the_sample() -> None:
    sampling, wanted = Sampling(0.005), []
    for number in range(20):
        wanted.append(sampling.wants(number))
        sampling.ended()
    assert wanted[:6] == [False, True, True, True, True, False]


@given(st.sampled_from([8, 64, 1024]), st.integers(0, 10**6))
def test_each_lot_of_neighbours_has_one_step_in_the_sample(period: int, lot: int) -> None:
    sampling = warm(0.005, period)
    assert sum(sampling.wants(number) for number in range(lot * period, (lot + 1) * period)) == 1


def test_places_differ_from_lot_to_lot() -> None:
    sampling = warm(0.005, 64)
    places = {next(k for k in range(64) if sampling.wants(64 * lot + k)) for lot in range(100)}
    assert len(places) > 20


@given(st.integers(0, 10**6))
def test_a_rank_that_samples_less_does_so_in_steps_of_the_others(number: int) -> None:
    if warm(0.005, 256).wants(number):
        assert warm(0.005, 32).wants(number)


@pytest.mark.parametrize(
    ("excess", "period"), [(0.0, LEAST), (0.001, LEAST), (0.15, 64), (0.5, 256), (50.0, MOST)]
)
def test_period_follows_the_cost(excess: float, period: int) -> None:
    sampling = warm(0.0025)
    for _ in range(COMPARED):
        sampling.took(10 * MS, sampled=False)
    changed = [sampling.took(round(10 * MS * (1 + excess)), sampled=True) for _ in range(AT_LEAST)]
    assert not any(changed[:-1]), "too few to tell"
    assert sampling.period == period
    assert excess / period <= 0.0025 or period == MOST
    assert changed[-1] == (period != UNTIL_KNOWN)


def test_steps_of_the_warm_up_say_nothing_of_the_cost() -> None:
    sampling = Sampling(0.0025)
    for _ in range(COMPARED):
        sampling.took(10 * MS, sampled=False)
    for _ in range(BEHIND_FIRST):
        sampling.ended()
        assert not sampling.took(1000 * MS, sampled=True)
    assert sampling.period == UNTIL_KNOWN


class Rank:
    """What a switch does to a process: the level of its libraries, and what it has printed."""

    def __init__(self, to_wrapper: bool = True, page: bytes = b"") -> None:
        self.level = 0
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
        self.switch.border(number, time.monotonic_ns() - known_after_ns)
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
    sampling = rank.switch._sampling
    for _ in range(BEHIND_FIRST + 1):
        sampling.ended()
    wanted = next(number for number in range(10, 1000) if sampling.wants(number))
    rank.step(wanted - 1, known_after_ns=100 * MS)
    assert rank.step(wanted) == 1, "the first whole one"
    assert rank.step(wanted + 1) == 0


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
    assert rank.switch._sampling.budget == pytest.approx(budget)


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
