"""Short steps go together, and none that is held is lost."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import roofline_step
from roofline_step._layout import MOST_HELD, layout
from roofline_step._sender import HOLD_NS, Sender

from tests.fakes import FakeAgent, clean_environ, decode_mark

from .sending import AGENT_FOLDER, BORDER, packets


def step_ends(agent: FakeAgent, count: int) -> list[int]:
    return [decode_mark(0, packet).step for packet in packets(agent, count)]


def test_short_steps_go_together_and_long_ones_at_once(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    assert say(0, None, [HOLD_NS])
    assert step_ends(agent, 1) == [0]
    for step in (1, 2, 3):
        assert say(step, None, [HOLD_NS + step * HOLD_NS // 3])
        assert bool(sender.held) == (step < 3)
    assert step_ends(agent, 3) == [1, 2, 3]


def test_many_steps_are_not_held(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    for step in range(MOST_HELD):
        assert say(step, None, [step])
    assert step_ends(agent, MOST_HELD) == list(range(MOST_HELD))


@pytest.mark.parametrize(
    "other",
    [
        lambda sender: sender.send_step([(BORDER, 2, None, 6, None, False)], ()),
        lambda sender: sender.send(BORDER, 2, None, 6, None, False, ""),
    ],
)
def test_what_is_held_goes_before_what_comes_later(
    sender: Sender, agent: FakeAgent, other: Callable[[Sender], None]
) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    assert say(1, None, [5])
    other(sender)
    assert step_ends(agent, 2) == [1, 2]


@pytest.mark.parametrize(
    "how", ["import sys; sys.exit(3)", "import os; os._exit(3)", "raise KeyboardInterrupt", "pass"]
)
@pytest.mark.parametrize("where", ["main", "fork", "spawn"])
def test_steps_that_are_held_are_sent_at_the_end(agent: FakeAgent, path: Path, how: str, where: str) -> None:
    program = f"""
import multiprocessing, roofline_step
from roofline_step import _agent
def train():
    layout = roofline_step.step_layout((3,), (), (0,))
    assert not _agent.off()
    assert layout(7, None, [5])
    {how}
if __name__ == "__main__":
    if "{where}" == "main":
        train()
    else:
        child = multiprocessing.get_context("{where}").Process(target=train)
        child.start()
        child.join()
"""
    script = path.with_name("program.py")
    script.write_text(program)
    environ = clean_environ(ROOFLINE_SOCKET=str(path), PYTHONPATH=str(AGENT_FOLDER))
    subprocess.run([sys.executable, script], env=environ, capture_output=True, timeout=60)
    assert step_ends(agent, 1) == [7]


def test_end_at_once_can_be_pickled(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    assert pickle.loads(pickle.dumps(os._exit)) is os._exit


def test_steps_that_are_held_can_be_sent_before_an_end_that_python_does_not_see(
    agent: FakeAgent, path: Path
) -> None:
    program = """
import os, types, roofline_step
from roofline_agent.hooks.marker import Marker
layout = roofline_step.step_layout((3,), (), (0,))
assert not roofline_step._agent.off()
assert layout(7, None, [5])
Marker(roofline_step, {}).flush()
old = types.SimpleNamespace(BEGIN=1, END=2, BORDER=3, said_by_training=bool)
Marker(old, {}).flush()
os._exit(0)
"""
    environ = clean_environ(ROOFLINE_SOCKET=str(path), PYTHONPATH=str(AGENT_FOLDER))
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert step_ends(agent, 1) == [7]


def test_step_that_a_hook_sends_after_the_end_goes_at_once(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    assert say(1, None, [5])
    sender._end()
    assert say(2, None, [6])
    assert step_ends(agent, 2) == [1, 2]


def test_forked_child_does_not_send_the_steps_of_its_parent(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not sender.off()
    assert say(1, None, [5])
    child = os.fork()
    if child == 0:
        os._exit(len(sender.held))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(sender.held) == 1
