"""Steps read from a rank's output: by line, spread between lines, and never at the training's cost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roofline_agent.hooks import Marker
from roofline_agent.run.agent_link import Border
from roofline_agent.run.step_log import (
    LINE_BYTES,
    MAX_SPREAD,
    LineSplitter,
    MatchedLine,
    PatternError,
    StepLog,
    StepSpreader,
    compile_pattern,
)

from tests.fakes import FakeAgent, MarkPacket, clean_environ, decode_mark

from .wrapped import NOTICE, RUN, in_terminal

STEP = r"step (?P<step>[\d,.]+)"
PYTHON = sys.executable


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return clean_environ(ROOFLINE_SOCKET=str(tmp_path / "agent.sock"))


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[FakeAgent]:
    with FakeAgent(tmp_path / "agent.sock") as agent:
        yield agent


class Log:
    """A step log and what it said."""

    def __init__(self, pattern: str = STEP) -> None:
        self.said: list[str] = []
        self.log = StepLog(compile_pattern(pattern), self.said.append)
        self.feed = self.log.stream()

    def steps(self) -> list[tuple[int, int]]:
        return [(border.step, border.time_ns) for border in self.log.take()]


def lines_of(*chunks: bytes) -> list[tuple[bytes, int]]:
    lines = LineSplitter()
    found = [line for at, chunk in enumerate(chunks) for line in lines.feed(chunk, at)]
    return [*found, *lines.end()]


def test_lines_end_in_either_way_and_the_last_needs_no_end() -> None:
    assert lines_of(b"a\nb\r\nc\rd") == [(b"a", 0), (b"b", 0), (b"c", 0), (b"d", 0)]


def test_line_of_a_progress_bar_has_the_time_it_was_shown() -> None:
    assert lines_of(b"\r1/3", b"\r2/3", b"\n") == [(b"1/3", 0), (b"2/3", 1)]


def test_line_that_comes_in_parts_is_one_line_at_its_last() -> None:
    assert lines_of(b"step 1", b"2", b"\n") == [(b"step 12", 1)]


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_how_a_stream_is_cut_changes_no_line(data: bytes, cuts: list[int]) -> None:
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    parts = lines_of(*(data[a:b] for a, b in pairwise(at)))
    assert [text for text, _ in parts] == [text for text in re.split(rb"[\r\n]", data) if text]


def test_of_a_long_line_only_the_beginning_is_kept() -> None:
    lines = LineSplitter()
    for _ in range(100):
        assert not list(lines.feed(b"x" * 100_000, 0))
    assert list(lines.feed(b"\n", 0)) == [(b"x" * LINE_BYTES, 0)]


def test_each_line_ends_a_step_when_it_was_written() -> None:
    log = Log()
    for number in (1, 2, 3):
        log.feed(b"epoch 0 step %d loss 0.5\nother line\n" % number, number * 100)
    assert log.steps() == [(1, 100), (2, 200), (3, 300)]
    assert log.log.described == f"lines of the log matching {STEP!r}"


def test_steps_a_log_leaves_out_are_spread_evenly() -> None:
    log = Log()
    for number in (0, 10, 20):
        log.feed(b"step %d\n" % number, 1000 + number * 10)
    steps = log.steps()
    assert steps == [(number, 1000 + number * 10) for number in range(21)]
    assert log.log.described.endswith("every 10th step; those between are spread evenly")


def test_uneven_gaps_are_described_as_such() -> None:
    log = Log()
    for number in (0, 3, 4):
        log.feed(b"step %d\n" % number, number)
    assert "up to 3 steps a line; those between are spread evenly" in log.log.described


def test_lines_that_came_together_are_spread_evenly() -> None:
    log = Log()
    log.feed(b"step 1\n", 100)
    log.feed(b"step 2\nstep 3\nstep 4\nstep 5\n", 500)
    assert log.steps() == [(1, 100), (2, 200), (3, 300), (4, 400), (5, 500)]
    assert "together are spread evenly" in log.log.described


def test_of_lines_before_any_border_only_the_last_has_a_time() -> None:
    log = Log()
    log.feed(b"step 1\nstep 2\n", 100)
    assert log.steps() == [(2, 100)]


def test_a_number_that_goes_back_begins_anew() -> None:
    log = Log()
    for number, when in ((9, 100), (10, 200), (1, 900), (2, 1000)):
        log.feed(b"step %d\n" % number, when)
    assert log.steps() == [(9, 100), (10, 200), (1, 900), (2, 1000)]


def test_a_number_seen_again_is_no_step() -> None:
    log = Log()
    log.feed(b"step 5\n", 1)
    log.feed(b"step 5\n", 2)
    assert log.steps() == [(5, 1)]


def test_step_printed_twice_at_one_moment_is_not_spread() -> None:
    spread = StepSpreader()
    spread.borders([MatchedLine(1, None, 1)])
    assert spread.borders([MatchedLine(2, None, 9), MatchedLine(2, None, 9)]) == [Border(2, None, 9)]
    assert not spread.together
    spread.borders([MatchedLine(3, None, 19), MatchedLine(4, None, 19)])
    assert spread.together


def test_a_leap_is_no_row_of_steps() -> None:
    spread = StepSpreader()
    spread.borders([MatchedLine(1, None, 1)])
    far = 2 + MAX_SPREAD
    assert spread.borders([MatchedLine(far, None, 2)]) == [Border(far, None, 2)]
    assert len(spread.borders([MatchedLine(far + MAX_SPREAD, None, 3)])) == MAX_SPREAD


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1000)), max_size=30))
def test_time_never_goes_back_and_numbers_follow_or_begin_anew(lines: list[tuple[int, int]]) -> None:
    spread = StepSpreader()
    borders = [b for step, when in lines for b in spread.borders([MatchedLine(step, None, when)])]
    assert all(a.time_ns <= b.time_ns for a, b in pairwise(borders))
    assert all(b.step == a.step + 1 or b.step < a.step for a, b in pairwise(borders))


def test_examples_are_those_of_each_step() -> None:
    log = Log(r"step (?P<step>\d+) batch (?P<examples>\S+)")
    log.feed(b"step 1 batch 32\n", 1)
    log.feed(b"step 3 batch 64.0\n", 3)
    log.feed(b"step 4 batch nan\n", 4)
    assert [(b.step, b.examples) for b in log.log.take()] == [(1, 32), (2, 64), (3, 64), (4, None)]


@pytest.mark.parametrize(("text", "step"), [(b"1,200", 1200), (b"7.0", 7), (b"\xff9", 9)])
def test_numbers_as_logs_write_them(text: bytes, step: int) -> None:
    log = Log(r"step \W?(?P<step>[\d,.]+)")
    log.feed(b"step " + text + b"\n", 1)
    assert log.steps() == [(step, 1)]


def test_number_that_is_none_is_complained_of_once() -> None:
    log = Log(r"step (?P<step>\w*)")
    log.feed(b"step x\nstep y\nstep \nstep 1e999\n", 1)
    assert log.steps() == []
    assert log.said == ["roofline-agent: the group step of --step-regex matched 'x', which is no number"]


def test_pattern_that_matched_nothing_is_reported_at_the_end() -> None:
    log = Log()
    log.feed(b"Step 1\n", 1)
    log.log.finish()
    assert len(log.said) == 1 and "no line of the output matched" in log.said[0]
    assert log.log.described == ""


def test_pattern_that_takes_too_long_is_given_up_with_a_notice() -> None:
    log = Log(r"(?P<step>\d+)|(a+)+$")
    log.feed(b"1\n", 1)
    began = time.process_time()
    log.feed(b"a" * 60 + b"b\n" + b"2\n", 2)
    assert time.process_time() - began < 5
    assert log.steps() == [(1, 1)]
    assert len(log.said) == 1 and "took more than 0.1 s" in log.said[0]
    assert log.log.described.endswith("given up for a line that took too long")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [("step (", "missing )"), (r"step (\d+)", "no group named step"), ("(?P<step>x{99999999999})", "too")],
)
def test_pattern_that_cannot_be_used(pattern: str, why: str) -> None:
    with pytest.raises(PatternError, match=re.escape(why)):
        compile_pattern(pattern)


def start(environ: dict[str, str], code: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    command = [*RUN, *options, "--", PYTHON, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, timeout=60)


def marks(agent: FakeAgent) -> list[MarkPacket]:
    return [decode_mark(pid, data) for pid, data in agent.poll(0.5) if data[:1] == b"M"]


LOOP = """
import sys, time
for k in range(6):
    time.sleep(0.05)
    print("step", k, "of", 6, file=%s)
"""


@pytest.mark.parametrize("stream", ["sys.stdout", "sys.stderr"])
def test_steps_of_a_command_that_prints(environ: dict[str, str], agent: FakeAgent, stream: str) -> None:
    before = time.monotonic_ns()
    done = start(environ, LOOP % stream, "--step-regex", STEP)
    text = b"".join(b"step %d of 6\n" % k for k in range(6))
    assert (done.stdout, done.stderr) == ((text, b"") if stream == "sys.stdout" else (b"", text))
    packets = [data for _, data in agent.poll(0.5)]
    found = [decode_mark(0, data) for data in packets if data[:1] == b"M"]
    assert [(m.step, m.kind, m.dropped) for m in found] == [(k, 3, 0) for k in range(6)]
    times = [m.time_ns for m in found]
    assert before < times[0] and times[-1] < time.monotonic_ns()
    # Each line was written when it was printed, not when a buffer was full.
    assert times == sorted(set(times)) and times[-1] - times[0] > 100_000_000
    facts = [data[4:] for data in packets if data[:1] == b"F"]
    assert facts[-2] == f"steps.from=lines of the log matching {STEP!r}".encode()


def test_steps_of_a_progress_bar(environ: dict[str, str], agent: FakeAgent) -> None:
    code = r"""
import sys, time
for k in range(5):
    sys.stderr.write("\r%3d%%|###  | %d/5 [00:01<00:00]" % (20 * k, k))
    sys.stderr.flush()
    time.sleep(0.06)
"""
    start(environ, code, "--step-regex", r"(?P<step>\d+)/5 \[")
    assert [m.step for m in marks(agent)] == [0, 1, 2, 3, 4]


def test_hooks_mark_nothing_and_the_training_may_find_out(environ: dict[str, str]) -> None:
    code = "import os; print(os.environ['ROOFLINE_STEPS'], os.environ['PYTHONUNBUFFERED'])"
    assert start(environ, code, "--step-regex", STEP).stdout == b"log 1\n"
    mine = {**environ, "PYTHONUNBUFFERED": ""}
    assert start(mine, code, "--step-regex", STEP).stdout == b"log \n"


def test_both_streams_are_exact(environ: dict[str, str], tmp_path: Path, agent: FakeAgent) -> None:
    for name in ("out", "err"):
        (tmp_path / name).write_bytes(os.urandom(3 << 20))
    command = ["sh", "-c", f"cat {tmp_path}/out & cat {tmp_path}/err >&2; wait"]
    done = subprocess.run(
        [*RUN, "--step-regex", STEP, "--", *command], env=environ, capture_output=True, timeout=60
    )
    assert done.stdout == (tmp_path / "out").read_bytes()
    said = f"roofline-agent: no line of the output matched --step-regex {STEP!r}: no steps are recorded\n"
    assert done.stderr.removesuffix(said.encode()) == (tmp_path / "err").read_bytes()


def test_streams_that_are_one_file_keep_their_order(environ: dict[str, str], agent: FakeAgent) -> None:
    code = "import os\nfor k in range(500): os.write(1 + k % 2, b'step %d\\n' % k)"
    done = subprocess.run(
        [*RUN, "--step-regex", STEP, "--", PYTHON, "-c", code],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    assert done.stdout == b"".join(b"step %d\n" % k for k in range(500))


def test_both_streams_stay_a_terminal(environ: dict[str, str], agent: FakeAgent) -> None:
    code = (
        "import os, sys; print(*map(os.isatty, (0, 1, 2)), *os.get_terminal_size(2)); "
        "print('step 1', file=sys.stderr)"
    )
    shown = in_terminal(environ, PYTHON, "-c", code, options=["--step-regex", STEP])
    assert shown == b"True True True 77 33\r\nstep 1\r\n"


def test_wild_pattern_does_not_hold_the_training_up(environ: dict[str, str], agent: FakeAgent) -> None:
    code = "print('a' * 60 + 'b'); print('goes on')"
    done = start(environ, code, "--step-regex", r"(a+)+$(?P<step>)")
    assert done.stdout == b"a" * 60 + b"b\ngoes on\n"
    assert b"took more than 0.1 s" in done.stderr


@pytest.mark.parametrize("pattern", ["(", "no group"])
def test_bad_pattern_is_a_usage_error(environ: dict[str, str], pattern: str) -> None:
    done = start(environ, "print('never')", "--step-regex", pattern)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"--step-regex" in done.stderr and b"Traceback" not in done.stderr


def test_steps_for_ncu_come_from_hooks(environ: dict[str, str]) -> None:
    done = start(environ, "print('never')", "--step-regex", STEP, "--ncu", "1-2")
    assert done.returncode == 2 and b"leave --step-regex out" in done.stderr


def test_without_the_switch_stderr_is_left_alone(environ: dict[str, str], tmp_path: Path) -> None:
    code = "import os; print(os.readlink('/proc/self/fd/2'))"
    with (tmp_path / "err").open("wb") as err:
        done = subprocess.run(
            [*RUN, "--", PYTHON, "-c", code], env=environ, stdout=subprocess.PIPE, stderr=err, timeout=60
        )
    assert done.stdout == f"{tmp_path}/err\n".encode()
    assert (tmp_path / "err").read_bytes() == NOTICE


def test_marker_of_the_hooks_is_silent() -> None:
    class Step:
        BORDER, BEGIN, END = 3, 1, 2

        def __init__(self) -> None:
            self.sent: list[tuple[object, ...]] = []

        def said_by_training(self) -> bool:
            return False

        def send_mark(self, *what: object) -> None:
            self.sent.append(what)

    silent, loud = Step(), Step()
    for step, environ in ((silent, {"ROOFLINE_STEPS": "log"}), (loud, {})):
        marker = Marker(step, environ)
        marker.border(1)
        marker.window(2, 10, 20)
    assert (len(silent.sent), len(loud.sent)) == (0, 3)
