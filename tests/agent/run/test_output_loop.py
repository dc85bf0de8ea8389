"""When the wrapper does its other work while it forwards output."""

from __future__ import annotations

import os
import subprocess

import pytest
from roofline_agent.run import output_loop
from roofline_agent.run.output import OutputStream

from tests.fakes import ended

NEVER_S = 1000.0


def test_next_turn_comes_soon_after_output_though_a_quiet_one_could_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output_loop, "EARLY_S", 0.0)
    output = OutputStream(1, None, lambda data, when: came.append(data))
    came: list[bytes] = []
    turns: list[int] = []

    def turn() -> float:
        turns.append(len(came))
        if len(turns) == 1:
            os.write(to_child, b"one\n")
        elif len(turns) == 2:
            os.close(to_child)
        return NEVER_S

    from_us, to_child = os.pipe()
    with ended(subprocess.Popen(["cat"], stdin=from_us, stdout=output.child_end)) as child:
        os.close(from_us)
        os.close(output.child_end)
        output_loop.forward_output(child, [output], turn)
    assert turns[:2] == [0, 1], "nothing had come, then something had"


def test_turns_go_on_until_the_command_ends_though_it_has_closed_its_output() -> None:
    output = OutputStream(1, None, lambda data, when: None)
    ended_at: list[bool] = []

    def turn() -> float:
        ended_at.append(output.ended)
        if len(ended_at) == 4:
            os.close(to_child)
        return 0.0 if len(ended_at) < 4 else NEVER_S

    from_us, to_child = os.pipe()
    command = ["sh", "-c", "exec >&-; read line"]
    with ended(subprocess.Popen(command, stdin=from_us, stdout=output.child_end)) as child:
        os.close(from_us)
        os.close(output.child_end)
        output_loop.forward_output(child, [output], turn)
        assert child.poll() is not None
    assert ended_at[-1] and sum(ended_at) >= 3
