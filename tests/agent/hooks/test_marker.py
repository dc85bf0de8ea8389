"""What a marker sends, and what it leaves to others."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest
from roofline_agent.hooks import Marker
from roofline_agent.hooks import marker as marker_module


def test_marker_sends_a_border_of_an_earlier_time() -> None:
    sent: list[Any] = []
    step = SimpleNamespace(
        BORDER=3,
        said_by_training=lambda: False,
        send_mark=lambda *args: sent.append(args),
    )
    Marker(step, environ={}).border(-1, None, 77)
    assert sent == [(3, -1, None, 77, None, False)]


def test_border_of_a_step_that_began_later_says_when_and_what_it_is_like() -> None:
    sent: list[Any] = []
    step = SimpleNamespace(
        BEGIN=1,
        BORDER=3,
        HAS_LIKE=True,
        said_by_training=lambda: False,
        send_step=lambda marks, spans: sent.append(marks),
    )
    Marker(step, environ={}).border(5, 32, 90, like=7, begin_ns=80)
    assert [tuple(marks) for marks in sent] == [
        ((1, 5, None, 80, None, False, 7), (3, 5, 32, 90, None, False, 7))
    ]


def test_same_signature_has_the_same_number() -> None:
    marker = Marker(SimpleNamespace(said_by_training=lambda: False), environ={})
    first, other = marker.like(("order", (32, 3))), marker.like(("order", (16, 3)))
    assert first == marker.like(("order", (32, 3))) != other
    assert min(first, other) > 0


def test_first_error_of_a_hook_is_told() -> None:
    told: list[Any] = []
    step = SimpleNamespace(
        said_by_training=lambda: False, send_fact=lambda name, value: told.append((name, value))
    )
    marker = Marker(step, environ={})
    for number in (1, 2):
        try:
            raise ValueError(number)
        except ValueError:
            marker.failed("torch_data")
            marker.failed("torch_ddp")
    assert told == [("hook.torch_data", "failed: ValueError: 1"), ("hook.torch_ddp", "failed: ValueError: 1")]


def test_error_that_cannot_be_printed_is_told_all_the_same() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    told: list[Any] = []
    step = SimpleNamespace(said_by_training=lambda: False, send_fact=lambda *fact: told.append(fact))
    try:
        raise Unprintable
    except Unprintable:
        Marker(step, environ={}).failed("torch_data")
    assert told == [("hook.torch_data", "failed")]


def test_forked_child_does_not_send_the_spans_of_its_parent() -> None:
    sent: list[Any] = []
    step = SimpleNamespace(
        BORDER=3, said_by_training=lambda: False, send_step=lambda marks, spans: sent.append(list(spans))
    )
    marker = Marker(step, environ={})
    marker.spans([("phase.input", 1, 2, None, 1)])
    child = os.fork()
    if child == 0:
        try:
            marker.border(0)
        finally:  # whatever happens, the child runs no other test
            os._exit(len(sent[0]) if sent else 99)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    marker.border(0)
    assert len(sent[0]) == 1


def test_rank_that_trains_on_a_gpu_records_no_kernels_of_its_cpus() -> None:
    facts: list[tuple[str, object]] = []
    step = SimpleNamespace(
        BORDER=3,
        said_by_training=lambda: False,
        send_mark=lambda *args: None,
        send_fact=lambda *fact: facts.append(fact),
    )
    environ = {"ROOFLINE_KERNELS": "sampled", "MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
    marker = Marker(step, environ=environ)
    marker.sample_kernels()
    assert marker.samples_kernels
    marker.leave_kernels()
    marker.border(100, None, 77)  # here a step would have been sampled
    assert [value for name, value in facts if name == "cost.kernels"][1:] == ["none"]


def kernels_of(monkeypatch: pytest.MonkeyPatch, prints: list[bool]) -> tuple[Marker, list[int], list[bytes]]:
    """A marker where a library that cannot be asked to be silent prints as said at each look: the levels it
    is set to, and what is printed."""
    levels: list[int] = []
    printed: list[bytes] = []
    step = SimpleNamespace(
        BORDER=3, said_by_training=lambda: False, send_mark=lambda *args: None, send_fact=lambda *fact: None
    )
    marker = Marker(step, environ={"ROOFLINE_KERNELS": "sampled", "ONEDNN_VERBOSE": "1"})
    monkeypatch.setattr(marker._output, "write", lambda line: printed.append(line) is None)
    monkeypatch.setattr(marker_module.onednn_flag, "flags", lambda: [levels.append])

    def printing() -> list[Any]:
        return [levels.append] if prints.pop(0) else []

    monkeypatch.setattr(marker_module.kernel_switch, "printing", printing)
    monkeypatch.setattr(marker_module.kernel_switch, "switches", lambda: [levels.append])
    return marker, levels, printed


def test_library_that_prints_from_its_start_on_is_switched_from_the_first_border_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marker, levels, printed = kernels_of(monkeypatch, [True])
    for number in range(8):
        marker.border(number, time_ns=time.monotonic_ns())
    assert marker.samples_kernels
    notes = [line.split(b",")[3] for line in printed if line.startswith(b"roofline_verbose,kernels,")]
    assert notes == [b"sampled", b"on", b"through", b"through", b"off"]
    assert levels == [0, 1, 0]


def test_library_that_has_run_nothing_yet_is_looked_at_less_and_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = [False] * 20
    marker, levels, _ = kernels_of(monkeypatch, looks)
    for number in range(5000):
        marker.border(number)
    assert len(looks) == 20 - 10, "behind steps 0, 2, 6, 14, ... 1022"
    assert not marker.samples_kernels and not levels


def test_several_steps_that_end_at_once_are_switched_behind_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    marker, _, printed = kernels_of(monkeypatch, [True])
    marker.more = True
    marker.border(0)
    assert printed[-1:] != [b""] and not marker.samples_kernels
    marker.more = False
    marker.border(1)
    assert marker.samples_kernels


def test_library_prints_on_while_no_note_of_its_switch_reaches_the_wrapper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marker, levels, printed = kernels_of(monkeypatch, [True] * 9)
    with monkeypatch.context() as moved:  # stdout goes to a file
        moved.setattr(marker._output, "write", lambda line: False)
        marker.border(0)
        assert not levels and not marker.samples_kernels
    marker.border(1)
    assert not levels, "it is tried again behind step 2"
    marker.border(2)
    assert levels[0] == 0 and marker.samples_kernels
    assert any(line.startswith(b"roofline_verbose,kernels,%d,sampled," % os.getpid()) for line in printed)
