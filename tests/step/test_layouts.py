"""Steps whose packet is prepared once: they arrive as those that are packed each time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import roofline_step
from roofline_step._layout import MOST_HELD, layout
from roofline_step._sender import Sender
from roofline_step._thread import LATE_NS, ThreadAccount

from tests.fakes import FakeAgent, decode_mark, decode_spans

from .sending import BEGIN, END, packets

SPANS_OF_A_STEP = [
    ("phase.input", 1, 2, None, 1),
    ("phase.call", 4, 9, None, 1),
    ("phase.input", 10, 11, None, 1),
]

ITS_TIMES = [0, 1, 2, 4, 9, 10, 11, 12]


@pytest.mark.parametrize("examples", [None, 8])
def test_layout_sends_the_same_packet_as_send_step(
    sender: Sender, agent: FakeAgent, examples: int | None
) -> None:
    names = [span[0] for span in SPANS_OF_A_STEP]
    border = layout(sender, (roofline_step.BORDER,), names, (7, 1, 2, 3, 4, 5, 6))
    window = layout(sender, (BEGIN, END), (), (0, 7))
    assert not sender.off()
    sender.send_step([(roofline_step.BORDER, 5, examples, 12, None, False)], SPANS_OF_A_STEP)
    ends = [(BEGIN, 0), (END, 12)]
    sender.send_step([(kind, 5, examples, at, None, False) for kind, at in ends], ())
    assert border(5, examples, ITS_TIMES)
    assert window(5, examples, ITS_TIMES)
    sender.send_held()
    said = packets(agent, 8)
    assert said[:4] == said[4:]


def test_marked_steps_carry_what_their_thread_had(
    sender: Sender, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roofline_step, "thread_account", ThreadAccount({"ROOFLINE_OVERHEAD": "1.9"}))
    for number in range(20):
        with roofline_step.step(number):
            with roofline_step.phase("input"):
                until = time.thread_time_ns() + 2_000_000
                while time.thread_time_ns() < until:
                    pass
            time.sleep(0.002)
        spin = time.thread_time_ns() + 3_000_000  # of no step
        while time.thread_time_ns() < spin:
            pass
    got = agent.poll(0.1)
    marks = [decode_mark(*one) for one in got if one[1][:1] == b"M"]
    spans = [span for _, data in got if data[:1] == b"S" for span in decode_spans(data)]
    begins = [mark.time_ns for mark in marks if mark.kind == BEGIN]
    ends = [mark.time_ns for mark in marks if mark.kind == END]
    # Of a step whose border could not be read at once nothing is known.
    for name in ("thread.run.step", "thread.run.input"):
        found = {span.begin: span.count for span in spans if span.name == name}
        assert len(found) >= 2
        for at, count in found.items():
            assert any(begin < at < end for begin, end in zip(begins, ends, strict=True))
            # A reading stands for a moment LATE_NS before or after it, as if the thread ran meanwhile.
            assert 2e6 - LATE_NS <= count < 4e6


def test_layout_with_counts_sends_the_same_packet_as_send_step(sender: Sender, agent: FakeAgent) -> None:
    names = ("phase.input", "thread.gc", "thread.run.step")
    counted = layout(sender, (roofline_step.BORDER,), names, (4, 0, 1, 0, 4, 0, 4), counts=(2, 3))
    sender.hold_ns = 0
    assert not sender.off()
    assert counted(3, 16, (10, 20, 0, 77, 30))
    spans = [
        ("phase.input", 10, 20, None, 1),
        ("thread.gc", 10, 30, None, 0),
        ("thread.run.step", 10, 30, None, 77),
    ]
    roofline_step.send_step([(roofline_step.BORDER, 3, 16, 30, None, False)], spans)
    packets = [data for _, data in agent.receive(4)]
    assert packets[:2] == packets[2:]


def test_like_travels_with_marks_and_layouts(sender: Sender, agent: FakeAgent) -> None:
    assert not sender.off()
    sender.send_step([(roofline_step.BORDER, 5, None, 12, None, False, 65535)], ())
    assert layout(sender, (roofline_step.BORDER,), (), (0,), 65535)(6, None, [13])
    sender.send_held()
    assert [decode_mark(0, packet).like for packet in packets(agent, 2)] == [65535, 65535]


def test_layout_leaves_losses_and_what_it_cannot_pack_to_others(sender: Sender, path: Path) -> None:
    say = layout(sender, (roofline_step.BORDER,), (), (0,))
    assert not say(1, None, [5]), "nobody has connected yet"
    with FakeAgent(path):
        assert not sender.off()
        assert say(2, None, [5])
        assert say("2", None, [5])  # type: ignore[arg-type]
        sender.send_held()
        assert sender.dropped == 1, "that one cannot be packed; the other is sent"
        assert not say(2, None, [5]), "the next mark tells of it"


def test_layout_counts_what_a_full_socket_does_not_take(sender: Sender, agent: FakeAgent) -> None:
    say = layout(sender, (roofline_step.BORDER,), ("phase.call",), (0, 0, 0))
    assert not sender.off()
    said = 0
    while say(said, None, [5]):
        said += 1
    assert sender.dropped == sender.dropped_spans == MOST_HELD
