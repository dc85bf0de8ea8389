"""When a server is ready, and when a restart would help."""

from __future__ import annotations

from typing import Any

import pytest
from roofline_server.health.readiness import SLOW_COMMIT_S, Facts, makes_progress, reasons

WELL = Facts(True, False, "", False, "", None, False)


def test_server_that_serves_is_ready() -> None:
    assert reasons(WELL) == ()
    assert reasons(WELL._replace(committing_s=SLOW_COMMIT_S)) == ()
    assert reasons(WELL._replace(seal_failure="disk full")) == ()  # the inbox still has room


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"serving": False}, "starting"),
        ({"stopping": True}, "stopping"),
        ({"inbox_failure": "disk full"}, "disk full"),
        ({"catalog_failure": "no room"}, "no room"),
        ({"is_full": True}, "sealing is behind"),
        ({"is_full": True, "seal_failure": "no room"}, "no room"),
        ({"committing_s": 31.0}, "31 s"),
        ({"ended": True}, "restart"),
    ],
)
def test_each_reason_is_named(changed: dict[str, Any], word: str) -> None:
    (reason,) = reasons(WELL._replace(**changed))
    assert word in reason


def test_restart_helps_what_hangs_or_ended_and_not_a_full_disk() -> None:
    assert makes_progress(WELL._replace(inbox_failure="disk full", is_full=True), 60)
    assert makes_progress(WELL._replace(committing_s=59.0), 60)
    assert not makes_progress(WELL._replace(committing_s=61.0), 60)
    assert not makes_progress(WELL._replace(ended=True), 60)
