"""What goes on for as long as the server runs: sealing, checkpoints, and giving memory back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .allocator import give_back
from .counts import SealingCounts
from .store.store import Store

log = logging.getLogger(__name__)

SEAL_S = 30.0
SEAL_ENDED_S = 10.0  # at least between two sealings because Slurm has ended jobs: arrays end many
SEAL_BYTES = 96 << 20  # of memory, as decoded
LOOK_S = 0.25
CHECKPOINT_S = 0.1
FORGET_S, MUCH_BYTES = 1.0, 16 << 20  # what is worth the time it takes to give it back


def started(endless: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task whose end by an error is logged."""
    task = asyncio.create_task(endless)
    task.add_done_callback(_log_error)
    return task


async def stopped(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel them, and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _log_error(ended: asyncio.Task[Any]) -> None:
    """What goes on for as long as the server runs has ended: by an error, or as the server stops."""
    if not ended.cancelled() and (error := ended.exception()) is not None:
        log.error("a part of the server has ended; it works again after a restart", exc_info=error)


async def seal_for_ever(store: Store, seal_s: float, counts: SealingCounts) -> None:
    waited = 0.0
    loop = asyncio.get_running_loop()
    # Always the same thread: the next sealing uses the allocator's memory of the last one again.
    thread = ThreadPoolExecutor(1, thread_name_prefix="seal")
    while True:
        await asyncio.sleep(min(LOOK_S, seal_s))
        waited += min(LOOK_S, seal_s)
        soon = store.job_ended and waited >= SEAL_ENDED_S
        if waited < seal_s and store.unsealed_bytes < SEAL_BYTES and not soon:
            continue
        waited = 0.0
        begin = time.monotonic()
        try:
            await loop.run_in_executor(thread, store.seal)
            counts.succeeded(time.monotonic() - begin)
            await loop.run_in_executor(thread, give_back)
        except Exception as error:
            # Nothing is lost: all of it is still in the inbox.
            why = store.cause_of(error)
            if not counts.failure:
                log.error(
                    "cannot seal (%s); the data stays in the inbox, trying again",
                    why,
                    exc_info=store.own_fault(error),
                )
            counts.was_failure(why)


async def checkpoint_for_ever(store: Store) -> None:
    """Commits of large batches would take twice as long if they did that."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
    while True:
        await asyncio.sleep(CHECKPOINT_S)
        await asyncio.get_running_loop().run_in_executor(thread, store.checkpoint)


async def forget_for_ever(store: Store) -> None:
    """What was read for questions goes when nobody asks for it any more."""
    while True:
        await asyncio.sleep(FORGET_S)
        if store.forget() > MUCH_BYTES:
            await asyncio.to_thread(give_back)
