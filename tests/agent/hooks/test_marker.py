"""What a marker sends, and what it leaves to others."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

from roofline_agent.hooks import Marker


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
