"""Who waits for whom: the exact texts."""

from __future__ import annotations

import pytest
from roofline_server.sentences import waits as texts


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            texts.unknown(texts.NOT_SEEN),
            "who waits for whom is not known: when its ranks wait for each other is not seen: no hook marks "
            "it, and not all kernels were recorded",
        ),
        (
            texts.server_stopped(0.5),
            "its process was stopped for 50% of the time",
        ),
        (
            texts.server_in_use(0.6, 0.01),
            "it is in use at least 60% of the time, 10 ms for each step",
        ),
        (
            texts.workers_wait(0.25),
            "workers were seen to wait for it at least 25% of the time",
        ),
        (
            texts.server_held_back(0.8),
            "it had no CPU for 80% of the time in which it had work",
        ),
        (
            texts.uneven_bytes("ps:0", 0.8),
            "ps:0 gets 80% of the bytes that workers push",
        ),
    ],
)
def test_text(made: str, text: str) -> None:
    assert made == text
