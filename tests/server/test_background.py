"""What goes on for as long as the server runs does not end unseen."""

from __future__ import annotations

import asyncio

import pytest
from roofline_server.background import started, stopped


async def broken() -> None:
    raise ZeroDivisionError("nobody thought of that")


def test_a_part_of_the_server_that_ends_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def ends() -> None:
        tasks = [started(broken()), started(asyncio.sleep(60))]
        await asyncio.sleep(0)
        await stopped(tasks)

    asyncio.run(ends())
    (said,) = caplog.records
    assert said.getMessage().startswith("a part of the server has ended")
    assert "nobody thought of that" in caplog.text
