"""Retention next to the running server: by the server's own options, and as `roofline-server prune` asks."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .query.answers import Answers
from .store.retention import requests
from .store.retention.plan import DAY_NS, Policy
from .store.store import Store

log = logging.getLogger(__name__)

GB = 1_000_000_000
SHARE_OF_DISK = 0.8  # of the file system, where nobody gave a limit
RETAIN_S = 60.0
LOOK_S = 1.0


class Keep(NamedTuple):
    """What the server's options say. None: no such option; inf, and gb 0: no limit."""

    days: float | None = None
    gb: float | None = None
    tagged: tuple[str, ...] = ()


def policy_of(keep: Keep, disk_bytes: int) -> Policy:
    """disk_bytes: size of the file system of the data."""
    most = SHARE_OF_DISK * disk_bytes if keep.gb is None else keep.gb * GB
    older = math.inf if keep.days is None else keep.days * DAY_NS
    return Policy(_limit(older), _limit(most) or None, tagged=keep.tagged)


def _limit(amount: float) -> int | None:
    return None if math.isinf(amount) else int(amount)


def disk_bytes(folder: Path) -> int:
    """Size of its file system."""
    found = os.statvfs(folder)
    return found.f_frsize * found.f_blocks


async def retain_for_ever(store: Store, data: Path, keep: Keep) -> None:
    """Remove what is to be removed, once a minute, and when somebody asks."""
    loop = asyncio.get_running_loop()
    thread = ThreadPoolExecutor(1, thread_name_prefix="retain")
    policy, failing, waited = policy_of(keep, disk_bytes(data)), False, RETAIN_S  # at once for the first time
    answers = Answers(store)
    requests.forget(data)
    while True:
        await asyncio.sleep(LOOK_S)
        waited += LOOK_S
        try:
            if requests.waits(data):
                await loop.run_in_executor(
                    thread, requests.answer, data, store.retention, answers.report_to_keep
                )
            if waited >= RETAIN_S:
                waited = 0.0
                await loop.run_in_executor(thread, store.retention.apply, policy, answers.report_to_keep)
            failing = False
        except Exception as error:
            if not failing:
                log.error("cannot remove old data (%s); they stay, trying again", error)
            failing = True
