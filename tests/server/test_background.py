"""What goes on for as long as the server runs does not end unseen."""

from __future__ import annotations

import asyncio

import pytest
from roofline_server.serve import _say_why


async def broken() -> None:
    raise ZeroDivisionError("nobody thought of that")


def test_a_part_of_the_server_that_ends_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def ends() -> None:
        tasks = [asyncio.create_task(broken()), asyncio.create_task(asyncio.sleep(60))]
        for task in tasks:
            task.add_done_callback(_say_why)
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(ends())
    (said,) = caplog.records
    assert said.getMessage().startswith("a part of the server has ended")
    assert "nobody thought of that" in caplog.text
