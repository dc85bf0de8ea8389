"""Who waits for whom: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import waits as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.straggler("ddp:1", "input", 0.0521, 0.83),
            "ddp:1: its input costs 52.1 ms a step (83%)",
        ),
        (
            texts.straggler("ddp:1", "cpu", 0.0521, 0.83),
            "ddp:1: it has too little CPU, which costs 52.1 ms a step (83%)",
        ),
        (
            texts.straggler("ddp:1", "compute", 0.0521, 0.83),
            "ddp:1: it computes longer than the others, which costs 52.1 ms a step (83%)",
        ),
        (
            texts.straggler("ddp:1", "delay", 1.5, 0.83),
            "ddp:1: it is late without computing, which costs 1.5 s a step (83%)",
        ),
        (
            texts.straggler("ps:0", "server_overloaded", 0.031, 0.33),
            "ps:0: it is overloaded, which costs the workers 31 ms a step (33%)",
        ),
        (
            texts.unknown(texts.ALONE),
            "who waits for whom is not known: it trains alone: there is nobody to wait for",
        ),
        (
            texts.too_few_steps(3),
            "too few steps to tell who holds whom up: 3",
        ),
        (
            texts.for_none_in_particular(0.02, 0.15),
            "ranks wait 20 ms a step (15%) for each other, for none in particular",
        ),
        (
            texts.more_than_others("input", 0.01),
            "it waits 10 ms a step longer for input than the others",
        ),
        (
            texts.more_than_others("lead", 0.01),
            "its first kernel comes 10 ms later in the step than the others'",
        ),
        (
            texts.more_than_others("starved", 0.01),
            "it lacks a CPU 10 ms a step longer",
        ),
        (
            texts.more_than_others("kernels", 0.01),
            "its kernels take 10 ms a step longer",
        ),
        (
            texts.more_than_others("cpu", 0.01),
            "it uses 10 ms more CPU time a step",
        ),
        (
            texts.came_last(90, 100, 0.05),
            "it came last in 90 of 100 steps, on average 50 ms after the others",
        ),
        (
            texts.slower(0.2, 0.1),
            "its median step takes 200 ms, that of the others 100 ms",
        ),
        (
            texts.waits_for_input(0.05, 0.1),
            "it waits 50 ms of its 100 ms step for input",
        ),
        (
            texts.stopped(0.5),
            "its process was stopped in 50% of its steps",
        ),
        (
            texts.server_stopped(0.5),
            "its process was stopped in 50% of the readings",
        ),
        (
            texts.server_in_use(0.6, 0.01),
            "it is in use at least 60% of the time, 10 ms for each step",
        ),
        (
            texts.workers_wait(0.25),
            "workers were seen to wait for it at least 25% of the time",
        ),
        (
            texts.server_held_back(0.8),
            "it had no CPU for 80% of the time in which it had work",
        ),
        (
            texts.uneven_bytes("ps:0", 0.8),
            "ps:0 gets 80% of the bytes that workers push",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
