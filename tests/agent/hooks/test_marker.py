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
