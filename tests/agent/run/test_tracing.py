"""The wrapper's side of a trace: what it asks, reads, sends and says. The hooks and the link are doubles."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks import Marker
from roofline_agent.hooks.tracing import LENGTH_AT, NEVER, REQUEST_AT
from roofline_agent.run import tracing
from roofline_agent.run.rank_page import RankPage
from roofline_agent.run.tracing import RankTraces

from tests.fakes import wait_for

from ..traces.torch_trace import BORDERS, LATER, LINEAR, PRODUCT, UNIX_MINUS_NODE, trace


class FakeLink:
    def __init__(self) -> None:
        self.sent: list[tuple[int, int, int]] = []  # calls, begin, end of a step
        self.starts: list[int] = []  # of calls, UNIX time
        self.takes = True

    def introduce(self) -> None: ...

    def close(self) -> None: ...

    def send_spans(self, spans: Any) -> None: ...

    def send_all(self, calls: list[Any], begin_ns: int, end_ns: int, complete: bool) -> bool:
        assert complete
        self.sent.append((len(calls), begin_ns, end_ns))
        self.starts += [call.start_ns for call in calls]
        return self.takes


class Wrapper:
    def __init__(self) -> None:
        self.page, self.link = RankPage(), FakeLink()
        self.states: list[str] = []
        self.operators = True
        self.traces = RankTraces(
            self.page,
            lambda: self.link,
            lambda state, _: self.states.append(state),
            lambda: self.operators,  # type: ignore[arg-type, return-value]
        )

    @property
    def folder(self) -> Path:
        """Where the hooks are to write."""
        page = self.page._page
        assert page is not None
        length = int.from_bytes(page[LENGTH_AT : LENGTH_AT + 2], "little")
        return Path(page[REQUEST_AT : REQUEST_AT + length].decode().partition(" ")[2])

    def hooks_write(self, what: str, content: object) -> None:
        (self.folder / f"1-1.{what}").write_text(json.dumps(content))

    def hooks_are_done(self) -> None:
        trace(self.folder, LINEAR, PRODUCT, LATER)
        said = {"trace": "1-1.json", "framework": "torch", "steps": BORDERS, "stop_ns": 10**8}
        self.hooks_write("done", {**said, "unix_minus_node_ns": UNIX_MINUS_NODE})

    def until_over(self) -> str:
        def over() -> bool:
            self.traces.look()
            return self.states[-1].startswith((tracing.RECORDED, tracing.FAILED))

        wait_for(over, "the trace is read")
        return self.states[-1]


@pytest.fixture
def wrapper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wrapper]:
    monkeypatch.setattr(tracing, "PAUSE_S", 0.0)
    made = Wrapper()
    yield made
    made.traces.close()
    made.page.close()


def test_trace_is_read_sent_by_step_and_removed(wrapper: Wrapper) -> None:
    assert wrapper.traces.ask("7-8") == ""
    folder = wrapper.folder
    assert folder.stat().st_mode & 0o777 == 0o700, "nobody else reads what is in it"
    wrapper.traces.look()
    wrapper.hooks_are_done()
    assert wrapper.until_over().startswith("recorded: steps 7-8, 3 operators (")
    assert wrapper.states[:2] == ["asked: steps 7-8", "reading: steps 7-8"]
    assert wrapper.link.sent == [(2, *BORDERS[0][1:]), (1, *BORDERS[1][1:])]
    assert not folder.exists()


def test_operators_are_not_sent_beside_all_kernels(wrapper: Wrapper) -> None:
    wrapper.operators = False
    wrapper.traces.ask("7-8")
    wrapper.hooks_are_done()
    assert wrapper.until_over().endswith("start the rank with --no-kernels")
    assert wrapper.link.sent == []


def test_agent_that_takes_nothing_is_told(wrapper: Wrapper) -> None:
    wrapper.link.takes = False
    wrapper.traces.ask("7-8")
    wrapper.hooks_are_done()
    assert "of 2 steps no agent took them" in wrapper.until_over()


def test_reason_of_the_hooks_is_passed_on(wrapper: Wrapper) -> None:
    wrapper.traces.ask("7-8")
    folder = wrapper.folder
    wrapper.hooks_write("failed", "RuntimeError: it is at it already")
    assert wrapper.until_over() == "not recorded: steps 7-8: RuntimeError: it is at it already"
    assert not folder.exists()


def test_broken_trace_says_why(wrapper: Wrapper) -> None:
    wrapper.traces.ask("7-8")
    wrapper.hooks_are_done()
    (wrapper.folder / "1-1.json").write_text('{"traceEvents": []}')
    assert wrapper.until_over() == (
        "not recorded: steps 7-8: the trace cannot be read: the trace holds no operator and no kernel"
    )


def test_second_trace_is_refused_until_the_first_is_over(wrapper: Wrapper) -> None:
    wrapper.traces.ask("7-8")
    wrapper.traces.ask_for_next(3)
    assert wrapper.states[-1] == "refused: a trace of steps 7-8 is not finished"
    wrapper.hooks_write("failed", "x")
    wrapper.until_over()
    wrapper.traces.ask_for_next(1)
    assert wrapper.states[-1] == "asked: the next step"


def test_later_processes_of_a_command_are_not_asked_again(wrapper: Wrapper) -> None:
    def asked() -> bool:
        """Whether a process that begins now records what it finds in the page."""
        marks = SimpleNamespace(said_by_training=lambda: False, send_step=lambda *_: None, BORDER=3)
        tracing = Marker(marks, wrapper.page.environ).tracing
        tracing.look(0)
        assert not tracing.is_due
        return tracing.at < NEVER

    wrapper.traces.ask("7-8")
    assert asked()
    wrapper.hooks_are_done()
    wrapper.traces.look()
    assert wrapper.states[-1] == "reading: steps 7-8"
    assert not asked(), "while it is read"
    wrapper.until_over()
    wrapper.traces.ask_for_next(3)
    assert asked()
    wrapper.hooks_write("failed", "x")
    wrapper.until_over()
    assert not asked()


def test_command_without_hooks_is_not_waited_for(wrapper: Wrapper) -> None:
    wrapper.traces.has_hooks = False
    wrapper.traces.ask_for_next(3)
    assert wrapper.states == [f"refused: {tracing.NO_HOOKS}"]


def test_command_that_ends_first_leaves_nothing(wrapper: Wrapper) -> None:
    wrapper.traces.ask("7-8")
    folder = wrapper.folder
    wrapper.traces.close()
    assert wrapper.states[-1] == "not recorded: steps 7-8: the command ended before these steps did"
    assert not folder.exists()


def test_kernels_stay_in_their_steps_though_the_clock_was_set_since(wrapper: Wrapper) -> None:
    """The trace is of a time whose clock was UNIX_MINUS_NODE ahead of the node's, which it is no more."""
    wrapper.traces.ask("7-8")
    wrapper.hooks_are_done()
    wrapper.until_over()
    ahead_ns = time.time_ns() - time.monotonic_ns()
    begins, ends = [begin for _, begin, _ in wrapper.link.sent], [end for _, _, end in wrapper.link.sent]
    starts = [start - ahead_ns for start in wrapper.link.starts]
    assert starts and all(min(begins) <= start < max(ends) for start in starts)
