"""Spans, facts and whole steps over a real socket."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import roofline_step
from roofline_step._sender import MAX_FACTS, Sender
from roofline_step.packets import FACT, MAX_FACT, MAX_SPANS
from roofline_step.variables import lost_variables

from tests.fakes import FakeAgent, clean_environ, decode_mark, decode_spans

from .sending import AGENT_FOLDER, BEGIN, BORDER, END, facts, packets


def test_spans_arrive_as_sent(sender: Sender, agent: FakeAgent) -> None:
    told = [
        ("phase.input", 1, 5, None, 1),
        ("asked.allreduce", 5, 6, 4096, 3),
        ("phase.input", 7, 9, None, 1),
    ]
    roofline_step.send_spans(told)
    assert decode_spans(packets(agent, 1)[0]) == told


def test_many_spans_go_in_several_packets(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.send_spans([("phase.input", k, k + 1, None, 1) for k in range(MAX_SPANS + 5)])
    first, second = packets(agent, 2)
    assert [span[1] for span in decode_spans(first) + decode_spans(second)] == list(range(MAX_SPANS + 5))


@pytest.mark.parametrize(
    "spans", [[("a",)], [(None, 1, 2, 3, 4)], [("a.b", "x", 2, 3, 4)], [("a.b", 2**70, 2, 3, 4)]]
)
def test_spans_that_cannot_be_sent_are_a_drop_and_no_exception(
    sender: Sender, agent: FakeAgent, spans: Any
) -> None:
    roofline_step.mark(1)
    roofline_step.send_spans(spans)
    assert (sender.dropped, sender.dropped_spans) == (0, 1)


def test_no_spans_are_no_packet(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.send_spans([])
    roofline_step.mark(3)
    (mark,) = agent.marks(1)
    assert mark.step == 3


def test_facts_are_sent_again_to_the_next_agent(sender: Sender, path: Path) -> None:
    with FakeAgent(path) as agent:
        roofline_step.send_fact("gradient.bytes", 1)
        roofline_step.send_fact("gradient.bytes", 42)
        roofline_step.send_fact("hook.x", "installed")
        assert facts(agent, 3) == ["gradient.bytes=1", "gradient.bytes=42", "hook.x=installed"]
    with FakeAgent(path) as agent:
        roofline_step.mark(1)  # finds out that the old one has gone
        roofline_step.mark(2)
        assert facts(agent, 2) == ["gradient.bytes=42", "hook.x=installed"]


TITLED = """
import ctypes, os, sys
import roofline_step
# As setproctitle does: NULs from the first argument to the end of the variables.
with open("/proc/self/stat") as file:
    fields = file.read().rpartition(")")[2].split()
begin, end = int(fields[47]), int(fields[48])  # env_start and env_end of proc(5)
if len(sys.argv) > 1:
    ctypes.memset(begin, 0, end - begin)
roofline_step.send_fact("a", 1)
roofline_step.mark(1)
"""


@pytest.mark.parametrize("title", [True, False])
def test_process_with_a_title_sends_the_variables_that_name_its_rank(
    title: bool, path: Path, agent: FakeAgent
) -> None:
    environ = clean_environ(
        ROOFLINE_SOCKET=str(path), PYTHONPATH=str(AGENT_FOLDER), SLURM_JOB_ID="77", RANK="1", SECRET="x"
    )
    command = [sys.executable, "-c", TITLED, *(["title"] if title else [])]
    subprocess.run(command, env=environ, check=True, timeout=60)
    sent = [data for data in packets(agent, 3 if title else 2) if data[:1] == b"F"]
    named = [data for data in sent if data.startswith(FACT + b"rank.started_with=")]
    assert len(named) == title and sent[-1] == FACT + b"a=1"
    for data in named:
        found = json.loads(data.partition(b"=")[2])
        assert found == {"ROOFLINE_SOCKET": str(path), "SLURM_JOB_ID": "77", "RANK": "1"}


def test_variables_that_are_too_many_are_not_sent(tmp_path: Path) -> None:
    shown = tmp_path / "environ"
    shown.write_bytes(b"\0" * 50)
    assert lost_variables({"RANK": "1"}, str(shown)) == '{"RANK": "1"}'
    assert lost_variables({"TF_CONFIG": "x" * MAX_FACT}, str(shown)) is None
    assert lost_variables({"PATH": "/bin"}, str(shown)) is None
    assert lost_variables({"RANK": "1"}, str(tmp_path / "missing")) is None
    shown.write_bytes(b"RANK=1\0")
    assert lost_variables({"RANK": "1"}, str(shown)) is None


def test_facts_are_bounded(sender: Sender, agent: FakeAgent) -> None:
    for number in range(MAX_FACTS + 10):
        roofline_step.send_fact(f"a.{number}", "x" * 10_000)
    assert len(packets(agent, 1)[0]) <= len(FACT) + MAX_FACT


def test_only_so_many_facts_are_kept_for_the_next_agent(sender: Sender, path: Path) -> None:
    for number in range(MAX_FACTS + 10):
        roofline_step.send_fact(f"a.{number}", "x")
    with FakeAgent(path) as agent:
        roofline_step.mark(1)
        received = packets(agent, MAX_FACTS + 1)
        assert received[-2:-1] == [FACT + b"a.%d=x" % (MAX_FACTS - 1)]
        assert received[-1][:1] == b"M"


def test_spans_do_not_hide_how_many_marks_were_dropped(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    sender.dropped = 5
    roofline_step.send_spans([("phase.input", 1, 2, None, 1)])
    roofline_step.mark(2)
    last = packets(agent, 3)[-1]
    assert decode_mark(0, last).dropped == 5


def test_a_step_is_one_packet_of_marks_and_spans(sender: Sender, agent: FakeAgent) -> None:
    sender.dropped = 0
    marks = [(BEGIN, 7, None, 10, None, False), (END, 7, 32, 20, ("worker", 1), True)]
    roofline_step.send_step(marks, [("phase.input", 11, 12, None, 1)])
    begin, end, spans = packets(agent, 3)
    first, last = decode_mark(0, begin), decode_mark(0, end)
    assert (first.kind, first.step, first.examples, first.time_ns) == (BEGIN, 7, None, 10)
    assert (last.kind, last.examples, last.role, last.index, last.asynchronous) == (
        END,
        32,
        "worker",
        1,
        True,
    )
    assert decode_spans(spans) == [("phase.input", 11, 12, None, 1)]


def test_step_with_very_many_spans_loses_none(sender: Sender, agent: FakeAgent) -> None:
    spans = [("phase.input", k, k + 1, None, 1) for k in range(2 * MAX_SPANS + 3)]
    roofline_step.send_step([(BORDER, 1, None, 5, None, False)], spans)
    mark, *rest = packets(agent, 4)
    assert decode_mark(0, mark).step == 1
    assert sum(len(decode_spans(packet)) for packet in rest) == len(spans)


def test_drops_before_a_step_are_reported_once(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    sender.dropped = 5
    roofline_step.send_step([(BEGIN, 2, None, 5, None, False), (END, 2, None, 6, None, False)], [])
    assert [decode_mark(0, packet).dropped for packet in packets(agent, 3)] == [0, 5, 0]
    assert sender.dropped == 0


def test_step_that_cannot_be_packed_is_a_drop_and_no_exception(sender: Sender, agent: FakeAgent) -> None:
    roofline_step.mark(1)
    roofline_step.send_step([(BORDER, "x", None, 5, None, False)], [])  # type: ignore[list-item]
    assert sender.dropped == 1
