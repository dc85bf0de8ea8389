"""How a rank ended, in words."""

from __future__ import annotations

import pytest
from roofline_server.sentences import exits as texts


@pytest.mark.parametrize(
    ("status", "signal", "step", "said"),
    [
        (3, "", 20, "exited with 3 after step 20"),
        (-9, "SIGKILL", 20, "killed by SIGKILL after step 20 (out of memory?)"),
        (137, "", None, "exited with 137 (out of memory?)"),
        (-15, "SIGTERM", 20, "killed by SIGTERM after step 20"),
    ],
)
def test_what_may_be_for_lack_of_memory_is_asked(
    status: int, signal: str, step: int | None, said: str
) -> None:
    assert texts.exited(status, signal, step) == said
