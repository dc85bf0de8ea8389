"""What goes on for as long as the server runs does not end unseen."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from roofline_server.background import seal_for_ever, started, stopped
from roofline_server.counts import SealingCounts
from roofline_server.store.store import Store


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


@pytest.mark.parametrize(("error", "is_ours"), [(KeyError("worker"), True), (OSError(28, "full"), False)])
def test_where_a_sealing_fails_is_logged_if_it_is_our_fault(
    error: Exception, is_ours: bool, caplog: pytest.LogCaptureFixture
) -> None:
    counts = SealingCounts()

    def seal() -> None:
        raise error

    store = SimpleNamespace(
        seal=seal, job_ended=False, unsealed_bytes=0, cause_of=str, own_fault=Store.own_fault
    )

    async def fails() -> None:
        task = asyncio.create_task(seal_for_ever(store, 0.001, counts))  # type: ignore[arg-type]
        while not counts.failure:
            await asyncio.sleep(0.001)
        await stopped([task])

    asyncio.run(fails())
    (said,) = caplog.records
    assert said.getMessage().startswith(f"cannot seal ({error})")
    assert bool(said.exc_info) is is_ours
