"""Whatever a training passes: at most a mark is dropped, and nothing is raised."""

from __future__ import annotations

import os

import pytest
import roofline_step
from roofline_step._sender import Sender
from roofline_step.packets import FACT

from tests.fakes import FakeAgent, decode_mark


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "arguments",
    [
        {"step": "one"},
        {"step": None},
        {"step": 1.5},
        {"step": 2**70},
        {"step": 1, "examples": 2**64},
        {"step": 1, "kind": 300},
        {"step": 1, "kind": "begin"},
        {"step": 1, "of": "worker"},
        {"step": 1, "of": ("worker",)},
        {"step": 1, "of": (3, 3)},
        {"step": 1, "of": 7},
        {"step": 1, "of": ("\ud800", 1)},
        {"step": 1, "of": ("worker", 2**40)},
        {"step": 1, "time_ns": "now"},
    ],
    ids=str,
)
def test_wrong_arguments_are_a_drop_and_no_exception(
    sender: Sender, agent: FakeAgent, arguments: dict
) -> None:
    roofline_step.mark(0)
    roofline_step.mark(**arguments)
    roofline_step.mark(2)
    told = type(arguments["step"]) is not int  # why, in a fact
    marks = [decode_mark(*one) for one in agent.receive(2 + told) if not one[1].startswith(FACT)]
    assert [m.step for m in marks] == [0, 2]
    assert marks[1].dropped == 1
    assert marks[1].pid == os.getpid()
    assert len(agent.peers) == 1, "a bad argument is no reason to reconnect"


@pytest.mark.parametrize("name", [None, 7, b"x"], ids=str)
def test_phase_takes_any_name(sender: Sender, agent: FakeAgent, name: object) -> None:
    with roofline_step.phase(name):  # type: ignore[arg-type]
        pass
    assert [m.phase for m in agent.marks(2)] == [str(name)] * 2


@pytest.mark.parametrize("name", ["\udc80", Hostile()], ids=["surrogate", "hostile"])
def test_phase_never_raises(sender: Sender, agent: FakeAgent, name: object) -> None:
    ran = False
    with roofline_step.phase(name):  # type: ignore[arg-type]
        ran = True
    assert ran
    with roofline_step.phase("input"):
        pass
    assert [m.phase for m in agent.marks(2)][-1] == "input", "what comes next is told"


def test_long_phase_name_is_cut_between_characters(sender: Sender, agent: FakeAgent) -> None:
    with roofline_step.phase("x" + "ü" * 64):
        pass
    for mark in agent.marks(2):
        assert mark.phase == "x" + "ü" * 31
